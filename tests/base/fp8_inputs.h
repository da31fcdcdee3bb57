// fp8_inputs.h -- the floats that conversions to 8 and 16 bits are tested on: all values of bf16
// and f16, and whatever lies at a boundary of FP8.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <float.h>
#include <math.h>
#include "engine/base/dtype.h"

typedef void (*FloatVisit)(float x, void *arg);

// x, its neighbours and theirs, with both signs.
LT_INLINE void visit_around(float x, FloatVisit see, void *arg)
{
    const uint32_t u = dtype_bits(x);
    for (uint32_t k = 0; k < 5; k++) {
        if (u + k < 2) continue;
        see(dtype_float(u + k - 2), arg);
        see(-dtype_float(u + k - 2), arg);
    }
}

LT_INLINE void visit_fp8_inputs(FloatVisit see, void *arg)
{
    static const DType fp8[] = {DTYPE_E4M3, DTYPE_E5M2};
    static const uint32_t rest[] = {
        0,           0x80000000u, 1,           0x007fffffu, 0x00800000u, // zeros, subnormals
        0x7f7fffffu, 0x7f800000u, 0xff800000u,                           // the largest, infinity
        0x7f800001u, 0xff800001u, 0x7fa00000u, 0x7fbfffffu, 0x7fc00000u, // NaN: signalling, quiet
        0xffc00000u, 0x7fdfffffu, 0x7fe00000u, 0x7fffffffu, 0xffffffffu,
    };
    for (uint32_t h = 0; h < 65536; h++) {
        see(bf16_to_f32((uint16_t)h), arg);
        see(f16_to_f32((uint16_t)h), arg);
    }
    // Every number of the format, and the middle between it and the next one. Behind the largest
    // number there is one as if the format went on.
    for (size_t i = 0; i < LT_COUNT(fp8); i++) {
        const uint8_t largest = fp8_from_f32(FLT_MAX, fp8[i]);
        for (uint8_t q = 0; q <= largest; q++) {
            const float lo = fp8_to_f32(q, fp8[i]);
            const float hi = q < largest ? fp8_to_f32((uint8_t)(q + 1), fp8[i])
                                         : 2 * lo - fp8_to_f32((uint8_t)(q - 1), fp8[i]);
            visit_around(lo, see, arg);
            visit_around((lo + hi) / 2, see, arg);
        }
    }
    for (size_t i = 0; i < LT_COUNT(rest); i++) see(dtype_float(rest[i]), arg);
}
