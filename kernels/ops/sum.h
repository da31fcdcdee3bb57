// sum.h -- op contract: sum of a vector, for the losses of a step.
//
// Math:    *out (+)= sum_i x[i]       in double
// Edges:   n == 0 adds nothing. Inf and NaN come through.
// Repeat:  bitwise. On the CPU the order is that of the elements.
// Cost:    reads n elements: memory bound.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"

typedef struct SumArgs {
    double     *out; // one value, on the device   assign or accumulate
    const void *x;   // [n]  dtype
    int64_t     n;
    bool        accumulate;
    DType       dtype;
} SumArgs;

LT_C_BEGIN
LT_MUST_CHECK Status sum_check(const SumArgs *a, Err *err);
LT_C_END
