// act_bwd.cu -- gradient of an activation.
// Contract: kernels/ops/act_bwd.h
//
// WHAT    dh[i] = dy[i] * act'(h[i]). A thread takes 8 neighbouring elements.
// COST    reads two elements and writes one: 6 bytes in bf16; about 40 instructions for a slope.
// RULES   f32 inside, rounded once. dh may be dy or h: a thread reads its elements, then writes.
// SHAPES  any n, any alignment.
// REGISTERS (sm_90, no spills)  40
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/act.cuh"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/types.cuh"

namespace
{

__global__ void __launch_bounds__(GRID_THREADS) act_bwd_kernel(ActBwdArgs a, bool aligned)
{
    constexpr int W = GRID_VECTOR;
    const int64_t step = static_cast<int64_t>(gridDim.x) * GRID_THREADS * W;
    int64_t i = (static_cast<int64_t>(blockIdx.x) * GRID_THREADS + threadIdx.x) * W;
    for (; i < a.n; i += step) {
        float dy[W], h[W];
        load(dy, a.dy, a.dtype, i, a.n - i, aligned);
        load(h, a.h, a.dtype, i, a.n - i, aligned);
#pragma unroll
        for (int k = 0; k < W; k++) dy[k] *= act_slope_f32(a.act, h[k]);
        store(a.dh, a.dtype, i, a.n - i, aligned, dy);
    }
}

} // namespace

bool cuda_act_bwd_supports(const CudaDevice *, const ActBwdArgs *, const char **)
{
    return true;
}

size_t cuda_act_bwd_scratch(const CudaDevice *, const ActBwdArgs *)
{
    return 0;
}

int cuda_act_bwd(const CudaDevice *d, const ActBwdArgs *a, void *)
{
    const bool aligned = is_aligned(a->dh) && is_aligned(a->dy) && is_aligned(a->h);
    return launch({.grid = flat_grid(a->n, GRID_VECTOR), .block = dim3(GRID_THREADS)}, d->stream,
                  act_bwd_kernel, *a, aligned);
}
