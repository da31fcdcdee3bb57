// f16_avx2.h -- f16 to f32 and back with the two instructions of F16C; see f16_plain.h.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <immintrin.h>
#include "kernels/cpu/vec_types.h"

LT_INLINE VecF vec_from_f16(VecH h)
{
    return (VecF)_mm256_cvtph_ps((__m128i)h);
}
LT_INLINE VecH vec_to_f16(VecF f)
{
    return (VecH)_mm256_cvtps_ph((__m256)f, _MM_FROUND_TO_NEAREST_INT);
}
