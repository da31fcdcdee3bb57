// gather_rows.h -- op contract: chosen rows of a matrix, one after the other.
//
// A masked language model asks for the words behind a few positions only: their rows are gathered,
// and nothing that follows is computed for the others.
//
// Math:    out[i,c] = x[row[i],c];  0 where row[i] is -1        the bits, NaNs included
// Edges:   n == 0: nothing happens. A row may be chosen more than once.
// Legal:   -1 <= row[i] < N: anything else is a wrong call. out and x do not overlap.
// Repeat:  bitwise.
// Cost:    reads and writes n*C elements: memory bound.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"

typedef struct GatherRowsArgs {
    void *out;          // [n,C]  assign, dtype
    const void *x;      // [N,C]  dtype
    const int32_t *row; // [n]    -1: a row of zeros
    int64_t n, N, C;
    DType dtype;
} GatherRowsArgs;

LT_C_BEGIN
LT_MUST_CHECK Status gather_rows_check(const GatherRowsArgs *a, Err *err);
LT_C_END
