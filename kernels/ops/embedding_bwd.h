// embedding_bwd.h -- op contract: gradient of the embedding tables.
//
// Math:    dwte[token[n],c]    += dout[n,c]     for n in increasing order
//          dwpe[position[n],c] += dout[n,c]
//          dwtt[type[n],c]     += dout[n,c]
// Edges:   N == 0: nothing happens. NULL tables are skipped.
// Legal:   as embedding_fwd; the gradient tables are f32.
// Repeat:  bitwise: each table element is summed in the order of n, whatever the threads.
// Cost:    reads N*C elements a table and updates as many: memory bound.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"

typedef struct EmbeddingBwdArgs {
    float         *dwte; // [V,C]  accumulate, or NULL
    float         *dwpe; // [P,C]  accumulate, or NULL
    float         *dwtt; // [S,C]  accumulate, or NULL
    const void    *dout; // [N,C]  dout_dtype
    const int32_t *token;    // [N]
    const int32_t *position; // [N] or NULL: n % T
    const int32_t *type;     // [N] or NULL: type 0
    int64_t        N, T, C, V, P, S;
    DType          dout_dtype;
} EmbeddingBwdArgs;

LT_C_BEGIN
LT_MUST_CHECK Status embedding_bwd_check(const EmbeddingBwdArgs *a, Err *err);
LT_C_END
