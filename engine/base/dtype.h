// dtype.h -- element types as run-time values, and the scalar conversions that define them.
//
//   bf16  1 sign, 8 exponent, 7 mantissa bits: the upper half of an f32
//   f16   IEEE 754 binary16: 1, 5, 10
//   e4m3  1, 4, 3: no infinity, NaN is 0x7f and 0xff, largest number 448
//   e5m2  1, 5, 2: the upper half of an f16, largest number 57344
//         (FP8 of "FP8 Formats for Deep Learning", Micikevicius et al. 2022)
// Conversions from f32 round to nearest, ties to even; NaN stays NaN (quiet). To FP8 they clamp:
// what is beyond the largest number becomes it, infinity too; any NaN becomes 0x7f. These are the
// bits of NVIDIA's cvt.rn.satfinite and of cuda_fp8.h with __NV_SATFINITE.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "engine/base/compiler.h"

typedef enum DType {
    DTYPE_F32 = 0,
    DTYPE_BF16,
    DTYPE_F16,
    DTYPE_E4M3,
    DTYPE_E5M2,
    DTYPE_U8,
    DTYPE_U16,
    DTYPE_I32,
    DTYPE_I64,
    DTYPE_COUNT
} DType;

LT_C_BEGIN
size_t dtype_bytes(DType t);                      // of one element
const char *dtype_name(DType t);                  // "f32", "bf16", ...
bool dtype_from_name(const char *name, DType *t); // false: no such type
// n elements of type `from` at src to type `to` at dst (f32, bf16, f16 only; no overlap).
void dtype_convert(void *dst, DType to, const void *src, DType from, int64_t n);
LT_C_END

LT_INLINE uint32_t dtype_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
LT_INLINE float dtype_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
LT_INLINE float bf16_to_f32(uint16_t h)
{
    return dtype_float((uint32_t)h << 16);
}
LT_INLINE uint16_t bf16_from_f32(float f)
{
    const uint32_t u = dtype_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
LT_C_BEGIN
float f16_to_f32(uint16_t h);
uint16_t f16_from_f32(float f); // overflow gives infinity, as IEEE 754 says
// t: DTYPE_E4M3 or DTYPE_E5M2.
float fp8_to_f32(uint8_t q, DType t);
uint8_t fp8_from_f32(float f, DType t);
LT_C_END

LT_INLINE bool dtype_is_fp8(DType t)
{
    return t == DTYPE_E4M3 || t == DTYPE_E5M2;
}
LT_INLINE float fp8_max(DType t) // the largest number
{
    return t == DTYPE_E4M3 ? 448.0f : 57344.0f;
}

// Element i of a tensor of floats of any type as f32, and back. For reference code and edges.
LT_INLINE float dtype_load(const void *p, DType t, int64_t i)
{
    if (t == DTYPE_F32) return ((const float *)p)[i];
    if (dtype_is_fp8(t)) return fp8_to_f32(((const uint8_t *)p)[i], t);
    const uint16_t h = ((const uint16_t *)p)[i];
    return t == DTYPE_BF16 ? bf16_to_f32(h) : f16_to_f32(h);
}
LT_INLINE void dtype_store(void *p, DType t, int64_t i, float f)
{
    if (t == DTYPE_F32)
        ((float *)p)[i] = f;
    else if (dtype_is_fp8(t))
        ((uint8_t *)p)[i] = fp8_from_f32(f, t);
    else
        ((uint16_t *)p)[i] = t == DTYPE_BF16 ? bf16_from_f32(f) : f16_from_f32(f);
}
