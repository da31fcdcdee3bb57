// f16_plain.h -- f16 to f32 and back in integers, for an instruction set without such conversions.
//
// Included by vec_simd.h, as f16_avx2.h and f16_neon.h are; AVX-512's are in simd_avx512.h. All
// have the bits of f16_to_f32 and f16_from_f32 (dtype.h), NaN and subnormals too.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cpu/vec_types.h"

LT_INLINE VecF vec_from_f16(VecH h)
{
    const VecU u = __builtin_convertvector(h, VecU), sign = (u & 0x8000u) << 16;
    const VecU em = (u & 0x7fffu) << 13;
    // A subnormal gets a hidden bit, which is then subtracted: arithmetic on subnormal floats
    // could do the same, but is slow on many processors.
    const VecF below = (VecF)(em + (113u << 23)) - 0x1p-14f;
    const VecF finite = vec_select((VecI)(em < (1u << 23)), below, (VecF)(em + (112u << 23)));
    const VecU quiet = (VecU)(em > 0x0f800000u) & 0x400000u;
    const VecF rest = (VecF)(em | 0x7f800000u | quiet);
    return (VecF)((VecU)vec_select((VecI)(em >= 0x0f800000u), rest, finite) | sign);
}
LT_INLINE VecH vec_to_f16(VecF f)
{
    const VecU u = (VecU)f, sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    const VecU tiny = (VecU)((VecF)a + 0.5f) - 0x3f000000u; // below 2^-14: the addition rounds
    const VecU norm = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
    const VecU nan = 0x7e00u | ((a >> 13) & 0x3ffu);
    VecF r = vec_select((VecI)(a < 0x38800000u), (VecF)tiny, (VecF)norm);
    r = vec_select((VecI)(a >= 0x477ff000u), (VecF)((VecU){0} + 0x7c00u), r);
    r = vec_select(f == f, r, (VecF)nan);
    return __builtin_convertvector((VecU)r | sign, VecH);
}
