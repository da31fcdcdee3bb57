// launch.cuh -- launch(): how every launcher starts a kernel.
//
//     return launch({.grid = dim3(N), .block = dim3(256)}, d->stream, some_kernel<float>, x, n);
//
// One call instead of <<<>>>, because it also takes a cluster, allows more than 48 KB of shared
// memory, converts arguments to the kernel's parameter types, and returns the error. A grid without
// blocks launches nothing: an op on an empty tensor needs no test of its own.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime.h>

struct LaunchShape {
    dim3 grid, block;
    size_t smem = 0;      // bytes of dynamic shared memory
    unsigned cluster = 1; // blocks of a cluster, along x; 1: none
};

namespace launch_detail
{
enum { SMEM_WITHOUT_ASKING = 48 * 1024, CLUSTER_PORTABLE = 8 };

// The kernel's own function pointer type P decides what the arguments become.
template <typename... P>
cudaError_t start(const cudaLaunchConfig_t *config, void (*kernel)(P...), P... args)
{
    void *values[sizeof...(P) + 1] = {&args...};
    return cudaLaunchKernelExC(config, reinterpret_cast<const void *>(kernel), values);
}
} // namespace launch_detail

template <typename... P, typename... A>
cudaError_t launch(const LaunchShape &s, cudaStream_t stream, void (*kernel)(P...), A... args)
{
    if (s.grid.x == 0 || s.grid.y == 0 || s.grid.z == 0) return cudaSuccess;
    const void *function = reinterpret_cast<const void *>(kernel);
    cudaError_t e = cudaSuccess;
    if (s.smem > launch_detail::SMEM_WITHOUT_ASKING)
        e = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(s.smem));
    if (e == cudaSuccess && s.cluster > launch_detail::CLUSTER_PORTABLE)
        e = cudaFuncSetAttribute(function, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (e != cudaSuccess) return e;
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = s.cluster;
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = s.grid;
    config.blockDim = s.block;
    config.dynamicSmemBytes = s.smem;
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = s.cluster > 1 ? 1 : 0;
    return launch_detail::start<P...>(&config, kernel, static_cast<P>(args)...);
}
