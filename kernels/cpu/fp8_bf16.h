// fp8_bf16.h -- rows of bf16 or FP8 as bf16, 32 elements at a time, for the engines that multiply
// bf16.
//
// Every E4M3 and E5M2 number is a bf16 exactly: exponent and mantissa move to their places and the
// exponent gets the other bias. The few subnormals come from a table.
//
// Only files compiled for AVX-512 include this.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <immintrin.h>
#include <stdint.h>
#include "engine/base/compiler.h"
#include "engine/base/dtype.h"

// One FP8 pattern in each 16-bit lane.
LT_INLINE __m512i bf16_from_e4m3(__m512i w)
{
    const __m512i em = _mm512_and_si512(w, _mm512_set1_epi16(0x7f));
    const __m512i tiny = // m * 2^-9
        _mm512_castsi128_si512(
            _mm_setr_epi16(0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60));
    __m512i r = _mm512_add_epi16(_mm512_slli_epi16(em, 4), _mm512_set1_epi16(120 << 7));
    r = _mm512_mask_permutexvar_epi16(r, _mm512_cmplt_epi16_mask(em, _mm512_set1_epi16(8)), em,
                                      tiny);
    r = _mm512_mask_mov_epi16(r, _mm512_cmpeq_epi16_mask(em, _mm512_set1_epi16(0x7f)),
                              _mm512_set1_epi16(0x7fc0));
    return _mm512_or_si512(r, _mm512_slli_epi16(_mm512_sub_epi16(w, em), 8));
}
LT_INLINE __m512i bf16_from_e5m2(__m512i w)
{
    const __m512i em = _mm512_and_si512(w, _mm512_set1_epi16(0x7f));
    const __m512i tiny = // m * 2^-16
        _mm512_castsi128_si512(_mm_setr_epi16(0, 0x3780, 0x3800, 0x3840, 0, 0, 0, 0));
    const __m512i moved = _mm512_slli_epi16(em, 5);
    __m512i r = _mm512_add_epi16(moved, _mm512_set1_epi16(112 << 7));
    r = _mm512_mask_permutexvar_epi16(r, _mm512_cmplt_epi16_mask(em, _mm512_set1_epi16(4)), em,
                                      tiny);
    // Infinity and NaN keep their mantissa.
    r = _mm512_mask_add_epi16(r, _mm512_cmpgt_epi16_mask(em, _mm512_set1_epi16(0x7b)), moved,
                              _mm512_set1_epi16(224 << 7));
    return _mm512_or_si512(r, _mm512_slli_epi16(_mm512_sub_epi16(w, em), 8));
}

// Elements i .. i+31 of a row of type t as bf16; where `mask` has no bit, 0.
LT_INLINE __m512i bf16_row(const void *p, DType t, int64_t i, uint32_t mask)
{
    if (t == DTYPE_BF16) return _mm512_maskz_loadu_epi16(mask, (const uint16_t *)p + i);
    const __m512i w = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(mask, (const uint8_t *)p + i));
    return t == DTYPE_E4M3 ? bf16_from_e4m3(w) : bf16_from_e5m2(w);
}
