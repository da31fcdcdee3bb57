// embedding_bwd_ref.c -- see kernels/ops/embedding_bwd.h. The contract fixes the order of the sums,
// so they are taken in f32 in that order.
//
// SPDX-License-Identifier: MIT
#include "engine/base/assert.h"
#include "kernels/ref/ref.h"

static void add_row(float *table, int64_t id, int64_t rows, const EmbeddingBwdArgs *a, int64_t n)
{
    ASSERT(id >= 0 && id < rows, "embedding_bwd: id %lld of %lld", (long long)id, (long long)rows);
    for (int64_t c = 0; c < a->C; c++)
        table[id * a->C + c] += dtype_load(a->dout, a->dout_dtype, n * a->C + c);
}

Status embedding_bwd_ref(const EmbeddingBwdArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    for (int64_t n = 0; n < a->N; n++) {
        if (a->dwte) add_row(a->dwte, a->token[n], a->V, a, n);
        if (a->dwpe) add_row(a->dwpe, a->position ? a->position[n] : n % a->T, a->P, a, n);
        if (a->dwtt) add_row(a->dwtt, a->type ? a->type[n] : 0, a->S, a, n);
    }
    return ERR_NONE;
}
