// fp8_scale.h -- the one formula that makes a scale from an amax, for kernels on the CPU.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <float.h>
#include "kernels/ops/fp8.h"

enum { FP8_MARGIN_MAX = 64 };

// max / amax / 2^margin for a finite amax > 0, and its inverse, which is finite, too.
LT_INLINE Fp8Scale fp8_scale_of(float max, float amax, int margin)
{
    float s = max / amax * dtype_float((uint32_t)(127 - margin) << 23);
    s = s < FLT_MIN ? FLT_MIN : s > FLT_MAX ? FLT_MAX : s;
    return (Fp8Scale){.inv = 1.0f / s, .scale = s, .max = max};
}
