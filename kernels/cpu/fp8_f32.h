// fp8_f32.h -- FP8 to f32, a vector at a time, in plain C. Results equal fp8_to_f32 of dtype.h.
//
// Exponent and mantissa move to their places in an f32 and the exponent gets the other bias. A
// subnormal has no hidden bit to go with that: it gets one (2^-6 (1 + m/8) for E4M3), which is then
// subtracted, exactly.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/vec_simd.h"

typedef uint8_t VecB __attribute__((vector_size(VL))); // VL FP8 bit patterns

LT_INLINE VecF vec_from_e4m3(VecB b)
{
    const VecU u = __builtin_convertvector(b, VecU), em = (u & 0x7fu) << 20;
    const VecF normal = (VecF)(em + (120u << 23)), below = (VecF)(em + (121u << 23)) - 0x1p-6f;
    VecF r = vec_select((VecI)(em < (1u << 23)), below, normal);
    r = vec_select((VecI)(em == (0x7fu << 20)), (VecF)(em | 0x7fc00000u), r);
    return (VecF)((VecU)r | (u & 0x80u) << 24);
}
LT_INLINE VecF vec_from_e5m2(VecB b)
{
    const VecU u = __builtin_convertvector(b, VecU), em = (u & 0x7fu) << 21;
    const VecF normal = (VecF)(em + (112u << 23)), below = (VecF)(em + (113u << 23)) - 0x1p-14f;
    VecF r = vec_select((VecI)(em < (1u << 23)), below, normal);
    const VecU quiet = (VecU)(em > (31u << 23)) & 0x400000u;
    r = vec_select((VecI)(em >= (31u << 23)), (VecF)(em | 0x7f800000u | quiet), r);
    return (VecF)((VecU)r | (u & 0x80u) << 24);
}

// Elements i .. i+VL-1.
LT_INLINE VecF vec_load_fp8(const void *p, DType t, int64_t i)
{
    VecB b;
    memcpy(&b, (const uint8_t *)p + i, sizeof b);
    return t == DTYPE_E4M3 ? vec_from_e4m3(b) : vec_from_e5m2(b);
}
