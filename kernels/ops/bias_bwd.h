// bias_bwd.h -- op contract: column sums.
//
// Math:    db[c] (+)= sum_n dy[n,c]         f32
// Edges:   N == 0: db becomes 0 unless accumulate.
// Repeat:  bitwise; rows are summed in fixed chunks, whatever the threads.
// Cost:    reads N*C elements: memory bound.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"

typedef struct BiasBwdArgs {
    float      *db; // [C]    assign or accumulate
    const void *dy; // [N,C]  dtype
    int64_t     N, C;
    bool        accumulate;
    DType       dtype;
} BiasBwdArgs;

LT_C_BEGIN
LT_MUST_CHECK Status bias_bwd_check(const BiasBwdArgs *a, Err *err);
LT_C_END
