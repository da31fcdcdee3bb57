// vec_simd.h -- vectors of floats in plain C: loads and stores of every dtype, reductions.
//
// GCC vector extensions, LATHE_VB bytes wide (isa.h): the same source is SSE2, AVX2, AVX-512 or
// NEON code, and no line below knows which. A VecF is VL floats. No alignment is needed. What
// AVX-512 has an instruction for that C has no word for is a file of its own (simd_avx512.h).
//
// Rules that keep the compilers honest:
//   (1) no loop over the lanes of a vector in hot code: gcc takes some of them apart. A selection
//       is bitwise, on a comparison's all-ones / all-zeros mask; vec_max(a, NaN) is NaN.
//   (2) vec_sum adds in a fixed order.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/vec_types.h"

#if LATHE_VB == 64
#include "kernels/cpu/simd_avx512.h"
#elif LATHE_VB == 32
#include "kernels/cpu/f16_avx2.h"
#include "kernels/cpu/simd_plain.h"
#elif LATHE_REGS == 32
#include "kernels/cpu/f16_neon.h"
#include "kernels/cpu/simd_plain.h"
#else
#include "kernels/cpu/f16_plain.h"
#include "kernels/cpu/simd_plain.h"
#endif

// Lanes 0, VL, 1, VL+1, ... of a and b side by side: the lower half and the upper half.
#if LATHE_VB == 64
#define VEC_LO 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define VEC_HI 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif LATHE_VB == 32
#define VEC_LO 0, 8, 1, 9, 2, 10, 3, 11
#define VEC_HI 4, 12, 5, 13, 6, 14, 7, 15
#else
#define VEC_LO 0, 4, 1, 5
#define VEC_HI 2, 6, 3, 7
#endif

LT_INLINE float vec_sum(VecF v)
{
    float a = v[0] + v[1], b = v[2] + v[3];
#pragma GCC unroll 4
    for (int i = 4; i < VL; i += 4) {
        a += v[i] + v[i + 1];
        b += v[i + 2] + v[i + 3];
    }
    return a + b;
}

// ---- bf16 bit patterns; results equal bf16_from_f32, ... of dtype.h. f16: f16_plain.h ----

LT_INLINE VecF vec_from_bf16(VecH h)
{
    return (VecF)(__builtin_convertvector(h, VecU) << 16);
}
LT_INLINE VecH vec_to_bf16(VecF f)
{
    const VecU u = (VecU)f, up = u >> 16;
    const VecU even = (u + 0x7fffu + (up & 1u)) >> 16;
    const VecF r = vec_select(f == f, (VecF)even, (VecF)(up | 0x40u));
    return __builtin_convertvector((VecU)r, VecH);
}

// ---- elements i .. i+VL-1 (or i+n-1) of an f32, bf16 or f16 array ----
// `t` is the same for a whole call, so the branch costs next to nothing.

LT_INLINE VecF vec_load_as(const void *p, DType t, int64_t i)
{
    if (t == DTYPE_F32) return vec_load((const float *)p + i);
    const VecH h = *(const VecHMem *)((const uint16_t *)p + i);
    return t == DTYPE_BF16 ? vec_from_bf16(h) : vec_from_f16(h);
}
LT_INLINE void vec_store_as(void *p, DType t, int64_t i, VecF v)
{
    if (t == DTYPE_F32) {
        vec_store((float *)p + i, v);
        return;
    }
    *(VecHMem *)((uint16_t *)p + i) = t == DTYPE_BF16 ? vec_to_bf16(v) : vec_to_f16(v);
}
LT_INLINE VecF vec_load_as_n(const void *p, DType t, int64_t i, int64_t n, float fill)
{
    if (n >= VL) return vec_load_as(p, t, i);
    if (t == DTYPE_F32) return vec_load_n((const float *)p + i, n, fill);
    const VecH h = vec_load_half_n((const uint16_t *)p + i, n);
    const VecF v = t == DTYPE_BF16 ? vec_from_bf16(h) : vec_from_f16(h);
    return vec_select((VecI)(vec_iota() < (uint32_t)n), v, vec_set(fill));
}
LT_INLINE void vec_store_as_n(void *p, DType t, int64_t i, int64_t n, VecF v)
{
    if (n >= VL) {
        vec_store_as(p, t, i, v);
        return;
    }
    if (t == DTYPE_F32) {
        vec_store_n((float *)p + i, v, n);
        return;
    }
    vec_store_half_n((uint16_t *)p + i, t == DTYPE_BF16 ? vec_to_bf16(v) : vec_to_f16(v), n);
}
// A value as it comes back from memory of type t.
LT_INLINE VecF vec_round_as(VecF v, DType t)
{
    if (t == DTYPE_F32) return v;
    return t == DTYPE_BF16 ? vec_from_bf16(vec_to_bf16(v)) : vec_from_f16(vec_to_f16(v));
}
