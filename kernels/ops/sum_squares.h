// sum_squares.h -- op contract: sum of squares, for the global norm.
//
// Math:    *out (+)= sum_i x[i]^2       in double
// Edges:   n == 0 adds nothing. Inf and NaN come through.
// Repeat:  bitwise, whatever the threads: fixed chunks, added in order.
// Cost:    reads n elements: memory bound.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"

typedef struct SumSquaresArgs {
    double     *out; // one value, on the device   assign or accumulate
    const void *x;   // [n]  dtype
    int64_t     n;
    bool        accumulate;
    DType       dtype;
} SumSquaresArgs;

LT_C_BEGIN
LT_MUST_CHECK Status sum_squares_check(const SumSquaresArgs *a, Err *err);
LT_C_END
