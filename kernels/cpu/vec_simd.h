// vec_simd.h -- vectors of floats in plain C: types, loads and stores of every dtype, reductions.
//
// GCC vector extensions, LATHE_VB bytes wide (isa.h): the same source is SSE2, AVX2, AVX-512 or
// NEON code, and no line below knows which. A VecF is VL floats. No alignment is needed.
//
// Rules that keep the compilers honest:
//   (1) no loop over the lanes of a vector in hot code: gcc takes some of them apart. select, max
//       and min are bitwise, on a comparison's all-ones / all-zeros mask; vec_max(a, NaN) is NaN.
//   (2) vec_sum adds in a fixed order.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include <string.h>
#include "engine/base/compiler.h"
#include "engine/base/dtype.h"
#include "kernels/cpu/isa.h"

enum { VL = LATHE_VB / 4 }; // floats in a vector

typedef float    VecF __attribute__((vector_size(LATHE_VB)));
typedef int32_t  VecI __attribute__((vector_size(LATHE_VB)));
typedef uint32_t VecU __attribute__((vector_size(LATHE_VB)));
typedef uint16_t VecH __attribute__((vector_size(LATHE_VB / 2))); // VL bf16 or f16 bit patterns

// The same in memory, at any address.
typedef float    VecFMem __attribute__((vector_size(LATHE_VB), aligned(4), may_alias));
typedef uint16_t VecHMem __attribute__((vector_size(LATHE_VB / 2), aligned(2), may_alias));

LT_INLINE VecF vec_set(float x) { return x - (VecF){0}; } // x - 0 keeps the sign of zero
LT_INLINE VecF vec_load(const float *p) { return *(const VecFMem *)p; }
LT_INLINE void vec_store(float *p, VecF v) { *(VecFMem *)p = v; }

LT_INLINE VecU vec_iota(void) // 0, 1, 2, ...
{
    uint32_t a[VL];
    VecU     v;
    for (int i = 0; i < VL; i++) a[i] = (uint32_t)i;
    memcpy(&v, a, sizeof v);
    return v;
}

LT_INLINE VecF vec_select(VecI mask, VecF yes, VecF no)
{
    return (VecF)((mask & (VecI)yes) | (~mask & (VecI)no));
}
LT_INLINE VecF vec_max(VecF a, VecF x) { return vec_select(a > x, a, x); } // x where one is NaN
LT_INLINE VecF vec_min(VecF a, VecF x) { return vec_select(a < x, a, x); } // x where one is NaN
LT_INLINE VecF vec_abs(VecF x) { return (VecF)((VecI)x & 0x7fffffff); }

// Lanes 0 .. n-1 of the result come from p, the others are `fill`.
LT_INLINE VecF vec_load_n(const float *p, int64_t n, float fill)
{
    VecF v = vec_set(fill);
    for (int64_t i = 0; i < n; i++) v[i] = p[i];
    return v;
}
LT_INLINE void vec_store_n(float *p, VecF v, int64_t n)
{
    for (int64_t i = 0; i < n; i++) p[i] = v[i];
}

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

// ---- bf16 and f16 bit patterns; results equal bf16_from_f32, f16_to_f32, ... of dtype.h ----

LT_INLINE VecF vec_from_bf16(VecH h) { return (VecF)(__builtin_convertvector(h, VecU) << 16); }
LT_INLINE VecH vec_to_bf16(VecF f)
{
    const VecU u = (VecU)f, up = u >> 16;
    const VecU even = (u + 0x7fffu + (up & 1u)) >> 16;
    const VecF r    = vec_select(f == f, (VecF)even, (VecF)(up | 0x40u));
    return __builtin_convertvector((VecU)r, VecH);
}
LT_INLINE VecF vec_from_f16(VecH h)
{
    const VecU u = __builtin_convertvector(h, VecU), sign = (u & 0x8000u) << 16;
    const VecU em     = (u & 0x7fffu) << 13;
    const VecF finite = (VecF)em * 0x1p112f; // also right for subnormals
    const VecU quiet  = (VecU)(em > 0x0f800000u) & 0x400000u;
    const VecF rest   = (VecF)(em | 0x7f800000u | quiet);
    return (VecF)((VecU)vec_select((VecI)(em >= 0x0f800000u), rest, finite) | sign);
}
LT_INLINE VecH vec_to_f16(VecF f)
{
    const VecU u = (VecU)f, sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    const VecU tiny = (VecU)((VecF)a + 0.5f) - 0x3f000000u; // below 2^-14: the addition rounds
    const VecU norm = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
    const VecU nan  = 0x7e00u | ((a >> 13) & 0x3ffu);
    VecF       r    = vec_select((VecI)(a < 0x38800000u), (VecF)tiny, (VecF)norm);
    r               = vec_select((VecI)(a >= 0x477ff000u), (VecF)((VecU){0} + 0x7c00u), r);
    r               = vec_select(f == f, r, (VecF)nan);
    return __builtin_convertvector((VecU)r | sign, VecH);
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
    VecH h = {0};
    for (int64_t k = 0; k < n; k++) h[k] = ((const uint16_t *)p)[i + k];
    VecF v = t == DTYPE_BF16 ? vec_from_bf16(h) : vec_from_f16(h);
    for (int64_t k = n; k < VL; k++) v[k] = fill;
    return v;
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
    const VecH h = t == DTYPE_BF16 ? vec_to_bf16(v) : vec_to_f16(v);
    for (int64_t k = 0; k < n; k++) ((uint16_t *)p)[i + k] = h[k];
}
// A value as it comes back from memory of type t.
LT_INLINE VecF vec_round_as(VecF v, DType t)
{
    if (t == DTYPE_F32) return v;
    return t == DTYPE_BF16 ? vec_from_bf16(vec_to_bf16(v)) : vec_from_f16(vec_to_f16(v));
}
