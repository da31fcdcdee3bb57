// embedding_fwd.h -- op contract: the sum of a token's embeddings.
//
// Math:    out[n,c] = wte[token[n],c] + wpe[position[n],c] + wtt[type[n],c]
//          added in f32 in this order; absent tables (NULL) add nothing;
//          position == NULL means n % T, type == NULL means type 0.
// Edges:   N == 0: nothing happens. Ids outside their table are a wrong call (data was checked).
// Legal:   1 <= V, C; C*V may pass 2^31.
// Repeat:  bitwise.
// Cost:    (tables + 1) * N * C elements: memory bound.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"

typedef struct EmbeddingFwdArgs {
    void          *out;      // [N,C]  assign, out_dtype
    const void    *wte;      // [V,C]  w_dtype
    const void    *wpe;      // [P,C]  w_dtype, or NULL
    const void    *wtt;      // [S,C]  w_dtype, or NULL
    const int32_t *token;    // [N]
    const int32_t *position; // [N] or NULL
    const int32_t *type;     // [N] or NULL
    int64_t        N, T, C, V, P, S;
    int64_t        position0; // added to n % T when position == NULL (generation)
    DType          w_dtype, out_dtype;
} EmbeddingFwdArgs;

LT_C_BEGIN
LT_MUST_CHECK Status embedding_fwd_check(const EmbeddingFwdArgs *a, Err *err);
LT_C_END
