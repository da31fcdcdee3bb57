// fp8.cuh -- FP8 elements in a kernel: conversion, what is counted, transposing bytes, a new scale.
// What they mean is in kernels/ops/fp8.h.
//
//   fp8_pair        two floats to two FP8 numbers. GPUs from compute capability 8.9 on have an
//                   instruction for it (cvt.rn.satfinite); older ones, which compute nothing in FP8
//                   but should give the same bits, take fp8_by_hand
//   Fp8Seen         amax and counts of what one thread has converted; fp8_publish adds up a block's
//   turn_bytes      a 4 x 4 block of bytes, transposed in registers by 8 byte permutes: the
//                   core of every kernel that writes both layouts
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cfloat>
#include <cuda_fp8.h>
#include "kernels/cuda/reduce.cuh"
#include "kernels/ops/fp8.h"

template <DType FORMAT> struct Fp8Format; // numbers of a format
template <> struct Fp8Format<DTYPE_E4M3> {
    static constexpr float MOST = 448.0f, LEAST_NORMAL = 0x1p-6f, STEPS = 0x1p9f;
    static constexpr int MANTISSA = 3, BIAS = 7;
    static constexpr uint32_t MOST_BITS = 0x7e;
    static constexpr __nv_fp8_interpretation_t NAME = __NV_E4M3;
};
template <> struct Fp8Format<DTYPE_E5M2> {
    static constexpr float MOST = 57344.0f, LEAST_NORMAL = 0x1p-14f, STEPS = 0x1p16f;
    static constexpr int MANTISSA = 2, BIAS = 15;
    static constexpr uint32_t MOST_BITS = 0x7b;
    static constexpr __nv_fp8_interpretation_t NAME = __NV_E5M2;
};

// ---- conversion ---------------------------------------------------------------------------------

// Nearest, ties to even; clamped; any NaN becomes 0x7f.
template <DType FORMAT> __device__ __forceinline__ uint32_t fp8_by_hand(float x)
{
    using F = Fp8Format<FORMAT>;
    constexpr int DROP = 23 - F::MANTISSA; // bits of an f32's mantissa that go
    const uint32_t bits = __float_as_uint(x), sign = bits >> 24 & 0x80u;
    const float size = fabsf(x);
    if (size != size) return 0x7fu;
    if (size >= F::MOST) return sign | F::MOST_BITS;
    if (size < F::LEAST_NORMAL) // multiples of 1 / STEPS; the product is exact
        return sign | static_cast<uint32_t>(__float2int_rn(size * F::STEPS));
    const uint32_t odd = bits >> DROP & 1u;
    const uint32_t up = (bits & 0x7fffffffu) + (1u << (DROP - 1)) - 1 + odd; // carries as it should
    return sign | ((up >> DROP) - ((127u - F::BIAS) << F::MANTISSA));
}

// lo in the low byte.
template <DType FORMAT> __device__ __forceinline__ uint32_t fp8_pair(float lo, float hi)
{
#if __CUDA_ARCH__ >= 890
    return __nv_cvt_float2_to_fp8x2(make_float2(lo, hi), __NV_SATFINITE, Fp8Format<FORMAT>::NAME);
#else
    return fp8_by_hand<FORMAT>(lo) | fp8_by_hand<FORMAT>(hi) << 8;
#endif
}

// ---- what is counted ----------------------------------------------------------------------------

struct Fp8Seen {
    float amax;
    uint32_t nonfinite, saturated, flushed;
};

// x became fp8(y), y = x * scale. What is at most half of the smallest number becomes 0.
template <DType FORMAT> __device__ __forceinline__ void fp8_see(Fp8Seen &seen, float x, float y)
{
    using F = Fp8Format<FORMAT>;
    const float size = fabsf(x), scaled = fabsf(y);
    const bool finite = size <= FLT_MAX; // NaN is not
    seen.amax = fmaxf(seen.amax, finite ? size : 0.0f);
    seen.nonfinite += !finite;
    seen.saturated += finite && scaled > F::MOST;
    seen.flushed += size > 0.0f && scaled <= 0.5f / F::STEPS;
}

// Four neighbours as one word, counted.
template <DType FORMAT>
__device__ __forceinline__ uint32_t fp8_four(Fp8Seen &seen, const float *x, float scale)
{
    float y[4];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        y[k] = x[k] * scale;
        fp8_see<FORMAT>(seen, x[k], y[k]);
    }
    return fp8_pair<FORMAT>(y[0], y[1]) | fp8_pair<FORMAT>(y[2], y[3]) << 16;
}

// All threads of the block call it. Of numbers that are not negative the integers with their bits
// have the same order, and -1, an amax that has seen nothing, is below all of them: the maximum is
// one of integers, which no order of blocks changes. So are the sums.
__device__ __forceinline__ void fp8_publish(const Fp8Out &out, Fp8Seen seen,
                                            Fp8Seen (&of_warp)[GROUP_WARPS_MAX])
{
    const int thread = threadIdx.y * blockDim.x + threadIdx.x;
    seen.amax = warp_max(seen.amax);
    seen.nonfinite = warp_sum(seen.nonfinite);
    seen.saturated = warp_sum(seen.saturated);
    seen.flushed = warp_sum(seen.flushed);
    if (thread % WARP == 0) of_warp[thread / WARP] = seen;
    __syncthreads();
    if (thread != 0) return;
    for (int w = 1; w < static_cast<int>(blockDim.x * blockDim.y) / WARP; w++) {
        seen.amax = fmaxf(seen.amax, of_warp[w].amax);
        seen.nonfinite += of_warp[w].nonfinite;
        seen.saturated += of_warp[w].saturated;
        seen.flushed += of_warp[w].flushed;
    }
    if (out.amax) atomicMax(reinterpret_cast<int *>(out.amax), __float_as_int(seen.amax));
    if (!out.count) return;
    if (seen.nonfinite) atomicAdd(&out.count->nonfinite, seen.nonfinite);
    if (seen.saturated) atomicAdd(&out.count->saturated, seen.saturated);
    if (seen.flushed) atomicAdd(&out.count->flushed, seen.flushed);
}

// ---- both layouts -------------------------------------------------------------------------------

// Byte j of word i becomes byte i of word j.
__device__ __forceinline__ void turn_bytes(uint32_t (&w)[4])
{
    const uint32_t a = __byte_perm(w[0], w[1], 0x5140), b = __byte_perm(w[2], w[3], 0x5140);
    const uint32_t c = __byte_perm(w[0], w[1], 0x7362), d = __byte_perm(w[2], w[3], 0x7362);
    w[0] = __byte_perm(a, b, 0x5410);
    w[1] = __byte_perm(a, b, 0x7632);
    w[2] = __byte_perm(c, d, 0x5410);
    w[3] = __byte_perm(c, d, 0x7632);
}

// Columns c .. c+7 of row r of q; `left` columns of the row are left. Rows of q are whole multiples
// of 16 bytes, so that these 8 are aligned.
__device__ __forceinline__ void fp8_store_eight(const Fp8Out &out, int64_t r, int64_t c,
                                                int64_t left, uint32_t low, uint32_t high)
{
    uint8_t *q = static_cast<uint8_t *>(out.q) + r * out.ld_q + c;
    if (left >= 8) {
        *reinterpret_cast<uint2 *>(q) = make_uint2(low, high);
        return;
    }
    for (int k = 0; k < static_cast<int>(left); k++)
        q[k] = static_cast<uint8_t>((k < 4 ? low : high) >> 8 * (k % 4));
}

// ---- a new scale --------------------------------------------------------------------------------

// What kernels/ops/fp8_scale.h does, with the same bits: max / amax / 2^margin for an amax above 0.
__device__ __forceinline__ Fp8Scale fp8_scale_for(float max, float amax, int margin)
{
    const float scale = max / amax * __int_as_float((127 - margin) << 23);
    const float clamped = fminf(fmaxf(scale, FLT_MIN), FLT_MAX);
    return {.inv = 1.0f / clamped, .scale = clamped, .max = max, .unused = 0};
}
