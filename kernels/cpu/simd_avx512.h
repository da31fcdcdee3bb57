// simd_avx512.h -- the lists of simd_plain.h and f16_plain.h for AVX-512, one instruction each:
// masks for the ends of rows, 32x32-bit products, and for 2^z the fraction of z and a scaling by a
// power of two.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <immintrin.h>
#include "kernels/cpu/vec_types.h"

LT_INLINE VecF vec_max(VecF a, VecF x)
{
    return (VecF)_mm512_max_ps((__m512)a, (__m512)x);
}
LT_INLINE VecF vec_min(VecF a, VecF x)
{
    return (VecF)_mm512_min_ps((__m512)a, (__m512)x);
}
LT_INLINE VecF vec_sqrt(VecF x)
{
    return (VecF)_mm512_sqrt_ps((__m512)x);
}

LT_INLINE __mmask16 vec_lanes(int64_t n)
{
    return (__mmask16)(n >= VL ? 0xffff : (1 << n) - 1);
}
LT_INLINE VecF vec_load_n(const float *p, int64_t n, float fill)
{
    return (VecF)_mm512_mask_loadu_ps(_mm512_set1_ps(fill), vec_lanes(n), p);
}
LT_INLINE void vec_store_n(float *p, VecF v, int64_t n)
{
    _mm512_mask_storeu_ps(p, vec_lanes(n), (__m512)v);
}
LT_INLINE VecH vec_load_half_n(const uint16_t *p, int64_t n)
{
    return (VecH)_mm256_maskz_loadu_epi16(vec_lanes(n), p);
}
LT_INLINE void vec_store_half_n(uint16_t *p, VecH h, int64_t n)
{
    _mm256_mask_storeu_epi16(p, vec_lanes(n), (__m256i)h);
}

LT_INLINE VecF vec_from_f16(VecH h)
{
    return (VecF)_mm512_cvtph_ps((__m256i)h);
}
LT_INLINE VecH vec_to_f16(VecF f)
{
    return (VecH)_mm512_cvtps_ph((__m512)f, _MM_FROUND_TO_NEAREST_INT);
}

LT_INLINE void vec_store_bytes(uint8_t *p, VecU v)
{
    _mm_storeu_si128((void *)p, _mm512_cvtepi32_epi8((__m512i)v));
}

LT_INLINE void vec_stream_halves(uint16_t *p, VecH lo, VecH hi)
{
    const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512((__m256i)lo), (__m256i)hi, 1);
    _mm512_stream_si512((void *)p, both);
}
LT_INLINE void vec_stream_end(void)
{
    _mm_sfence(); // these stores have no order of their own
}

LT_INLINE void vec_mul_wide(VecU *hi, VecU *lo, VecU c, uint32_t m)
{
    const __m512i by = _mm512_set1_epi32((int32_t)m), even = _mm512_mul_epu32((__m512i)c, by);
    const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)c, 32), by);
    *hi = (VecU)_mm512_mask_mov_epi32(_mm512_srli_epi64(even, 32), 0xaaaa, odd);
    *lo = (VecU)_mm512_mask_mov_epi32(even, 0xaaaa, _mm512_slli_epi64(odd, 32));
}

// f = z - floor(z) is 0 for -infinity, and the scaling takes the floor of z itself.
LT_INLINE VecF vec_exp2(VecF z)
{
    const VecF f = (VecF)_mm512_reduce_ps((__m512)z, _MM_FROUND_TO_NEG_INF);
    VecF p = vec_set(0x1.e974fap-10f);
    p = p * f + 0x1.277856p-7f;
    p = p * f + 0x1.c91ce6p-5f;
    p = p * f + 0x1.ebdb56p-3f;
    p = p * f + 0x1.62e4bap-1f;
    return (VecF)_mm512_scalef_ps((__m512)(p * f + 1.0f), (__m512)z);
}
