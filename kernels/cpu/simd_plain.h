// simd_plain.h -- the vector operations that an instruction set may have better, in plain C.
//
// Included by vec_simd.h; simd_avx512.h is the same list in intrinsics.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/vec_types.h"

// x where one of them is NaN.
LT_INLINE VecF vec_max(VecF a, VecF x)
{
    return vec_select(a > x, a, x);
}
LT_INLINE VecF vec_min(VecF a, VecF x)
{
    return vec_select(a < x, a, x);
}
LT_INLINE VecF vec_sqrt(VecF x)
{
    VecF r;
    for (int i = 0; i < VL; i++) r[i] = __builtin_sqrtf(x[i]);
    return r;
}

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
LT_INLINE VecH vec_load_half_n(const uint16_t *p, int64_t n)
{
    VecH h = {0};
    for (int64_t i = 0; i < n; i++) h[i] = p[i];
    return h;
}
LT_INLINE void vec_store_half_n(uint16_t *p, VecH h, int64_t n)
{
    for (int64_t i = 0; i < n; i++) p[i] = h[i];
}

// The low bytes of VL words, the other bytes of which are 0. Two neighbours are brought together,
// and 16 bits have an instruction that stores them.
LT_INLINE void vec_store_bytes(uint8_t *p, VecU v)
{
    const VecU64 pairs = (VecU64)v | (VecU64)v >> 24;
#pragma GCC unroll 8
    for (int i = 0; i < VL / 2; i++) {
        const uint16_t two = (uint16_t)pairs[i];
        memcpy(p + 2 * i, &two, sizeof two);
    }
}

// 2 VL halves to p, aligned to LATHE_VB: past the caches where the instruction set can.
LT_INLINE void vec_stream_halves(uint16_t *p, VecH lo, VecH hi)
{
    memcpy(p, &lo, sizeof lo);
    memcpy(p + VL, &hi, sizeof hi);
}
// After the last of them, before another thread may read.
LT_INLINE void vec_stream_end(void) {}

// Both halves of the 64-bit products c * m.
LT_INLINE void vec_mul_wide(VecU *hi, VecU *lo, VecU c, uint32_t m)
{
    const VecU64 even = ((VecU64)c & 0xffffffffu) * (uint64_t)m;
    const VecU64 odd = ((VecU64)c >> 32) * (uint64_t)m;
    *hi = (VecU)((even >> 32) | (odd & 0xffffffff00000000u));
    *lo = (VecU)((even & 0xffffffffu) | (odd << 32));
}

// 2^z within 4 ulp, for z <= 127 (softmax has z <= 0, its gradient a rounding error more): n = z
// rounded, 2^(z - n) by a polynomial that is off by less than 2^-23. Below 2^-126 it is 0 (with
// AVX-512 a subnormal first), also at -infinity; where z > 127 the result means nothing.
LT_INLINE VecF vec_exp2(VecF z)
{
    z = vec_max(vec_set(-127.0f), z);
    const VecF t = z + (0x1.8p23f + 127.0f); // its low bits: n + 127, the exponent of 2^n
    const VecF f = z - (t - (0x1.8p23f + 127.0f));
    VecF p = vec_set(0x1.5bba14p-10f);
    p = p * f + 0x1.3cea88p-7f;
    p = p * f + 0x1.c6b752p-5f;
    p = p * f + 0x1.ebf9bcp-3f;
    p = p * f + 0x1.62e42ap-1f;
    return (p * f + 1.0f) * (VecF)((VecU)t << 23);
}
