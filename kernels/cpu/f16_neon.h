// f16_neon.h -- f16 to f32 and back with the conversions of AArch64; see f16_plain.h.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <arm_neon.h>
#include "kernels/cpu/vec_types.h"

LT_INLINE VecF vec_from_f16(VecH h)
{
    return (VecF)vcvt_f32_f16((float16x4_t)h);
}
LT_INLINE VecH vec_to_f16(VecF f)
{
    return (VecH)vcvt_f16_f32((float32x4_t)f);
}
