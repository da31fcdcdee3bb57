// embedding_fwd_ref.c -- see kernels/ops/embedding_fwd.h.
//
// SPDX-License-Identifier: MIT
#include "engine/base/assert.h"
#include "kernels/ref/ref.h"

static int64_t row_of(const char *what, int64_t id, int64_t rows)
{
    ASSERT(id >= 0 && id < rows, "embedding_fwd: %s %lld of %lld", what, (long long)id,
           (long long)rows);
    return id;
}

Status embedding_fwd_ref(const EmbeddingFwdArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    for (int64_t n = 0; n < a->N; n++) {
        const int64_t tok = row_of("token", a->token[n], a->V);
        int64_t       pos = 0, typ = 0;
        if (a->wpe)
            pos = row_of("position", a->position ? a->position[n] : a->position0 + n % a->T, a->P);
        if (a->wtt) typ = row_of("type", a->type ? a->type[n] : 0, a->S);
        for (int64_t c = 0; c < a->C; c++) {
            float s = dtype_load(a->wte, a->w_dtype, tok * a->C + c);
            if (a->wpe) s += dtype_load(a->wpe, a->w_dtype, pos * a->C + c);
            if (a->wtt) s += dtype_load(a->wtt, a->w_dtype, typ * a->C + c);
            dtype_store(a->out, a->out_dtype, n * a->C + c, s);
        }
    }
    return ERR_NONE;
}
