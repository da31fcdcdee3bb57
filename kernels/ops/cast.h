// cast.h -- op contract: element type conversion.
//
// Math:    dst[i] = round_to(dst_dtype, src[i])     nearest, ties to even; NaN stays NaN
// Legal:   f32, bf16, f16; no overlap.
// Cost:    reads and writes n elements: memory bound.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"

typedef struct CastArgs {
    void       *dst; // [n]  assign
    const void *src; // [n]
    int64_t     n;
    DType       dst_dtype, src_dtype;
} CastArgs;

LT_C_BEGIN
LT_MUST_CHECK Status cast_check(const CastArgs *a, Err *err);
LT_C_END
