// reduce.cuh -- sums and maxima over the threads of a warp and of a group of warps.
//
// Every order is fixed by the shape of the work alone: not by the number of processors, not by
// which block comes first. So results have the same bits on every run and every GPU.
//
//   warp_sum     a butterfly: after log2(32) exchanges every lane has the same bits
//   group_sum    a block has blockDim.y groups of blockDim.x threads (whole warps): sums of warps
//                are written to shared memory and added by everyone, first warp first
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <cuda_runtime.h>

enum { WARP = 32, GROUP_WARPS_MAX = 32 };
constexpr unsigned ALL_LANES = 0xffffffffu;

template <typename T> __device__ __forceinline__ T warp_sum(T x)
{
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2) x += __shfl_xor_sync(ALL_LANES, x, step);
    return x;
}

__device__ __forceinline__ float warp_max(float x) // NaN counts as nothing
{
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2)
        x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, step));
    return x;
}

// What group_sum and group_max need in shared memory.
template <typename T> struct GroupScratch {
    T of_warp[GROUP_WARPS_MAX];
};

// v[i] becomes the sum of v[i] over the threads of the group. All threads of the block call it.
template <int K, typename T>
__device__ __forceinline__ void group_sum(T (&v)[K], GroupScratch<T> (&s)[K])
{
#pragma unroll
    for (int i = 0; i < K; i++) v[i] = warp_sum(v[i]);
    if (blockDim.x == WARP) return;
    const int warps = blockDim.x / WARP, first = threadIdx.y * warps;
    if (threadIdx.x % WARP == 0) {
#pragma unroll
        for (int i = 0; i < K; i++) s[i].of_warp[first + threadIdx.x / WARP] = v[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < K; i++) {
        v[i] = s[i].of_warp[first];
        for (int w = 1; w < warps; w++) v[i] += s[i].of_warp[first + w];
    }
    __syncthreads(); // s may be written again
}

__device__ __forceinline__ float group_max(float x, GroupScratch<float> &s)
{
    x = warp_max(x);
    if (blockDim.x == WARP) return x;
    const int warps = blockDim.x / WARP, first = threadIdx.y * warps;
    if (threadIdx.x % WARP == 0) s.of_warp[first + threadIdx.x / WARP] = x;
    __syncthreads();
    x = s.of_warp[first];
    for (int w = 1; w < warps; w++) x = fmaxf(x, s.of_warp[first + w]);
    __syncthreads();
    return x;
}
