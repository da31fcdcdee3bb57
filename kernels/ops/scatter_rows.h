// scatter_rows.h -- op contract: adds rows to chosen rows of a matrix: gradient of gather_rows.
//
// Math:    out[row[i],c] += x[i,c]      in f32, rounded once; nothing where row[i] is -1
// Edges:   n == 0: nothing happens. Rows that are not chosen keep their bits.
// Legal:   -1 <= row[i] < N, and the rows of a call are distinct, -1 aside: anything else is a
//          wrong call. A row that gather_rows gave twice is added by two calls. No overlap.
// Repeat:  bitwise: an element takes part in one sum.
// Cost:    reads 2, writes 1 times n*C elements: memory bound.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"

typedef struct ScatterRowsArgs {
    void *out;          // [N,C]  accumulate, dtype
    const void *x;      // [n,C]  dtype
    const int32_t *row; // [n]    -1: dropped
    int64_t n, N, C;
    DType dtype;
} ScatterRowsArgs;

LT_C_BEGIN
LT_MUST_CHECK Status scatter_rows_check(const ScatterRowsArgs *a, Err *err);
LT_C_END
