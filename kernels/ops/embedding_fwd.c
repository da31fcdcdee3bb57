// embedding_fwd.c -- legality and cost of embedding_fwd.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/legal.h"
#include "kernels/ops.h"

Status embedding_fwd_check(const EmbeddingFwdArgs *a, Err *err)
{
    TRY(legal_type("w", a->w_dtype, err));
    TRY(legal_type("out", a->out_dtype, err));
    if (a->C < 1 || a->V < 1 || !legal_size(a->N, a->C) || !legal_size(a->V, a->C))
        return err_set(err, ERR_USAGE, "N = %lld, C = %lld, V = %lld", (long long)a->N,
                       (long long)a->C, (long long)a->V);
    if (a->wpe && (a->P < 1 || !legal_size(a->P, a->C)))
        return err_set(err, ERR_USAGE, "position table of P = %lld rows", (long long)a->P);
    if (a->wtt && (a->S < 1 || !legal_size(a->S, a->C)))
        return err_set(err, ERR_USAGE, "type table of S = %lld rows", (long long)a->S);
    if (a->N == 0) return ERR_NONE;
    if (!a->out || !a->wte || !a->token)
        return err_set(err, ERR_USAGE, "out, wte or token is NULL");
    if (a->wpe && !a->position) {
        const int64_t last = LT_MIN(a->N, a->T) - 1;
        if (a->T < 1 || a->position0 < 0 || a->position0 >= a->P || last >= a->P - a->position0)
            return err_set(err, ERR_USAGE, "positions %lld to %lld of a table with P = %lld rows",
                           (long long)a->position0, (long long)(a->position0 + last),
                           (long long)a->P);
    }
    return ERR_NONE;
}

static double tables(const EmbeddingFwdArgs *a)
{
    return 1.0 + (a->wpe != NULL) + (a->wtt != NULL);
}

double embedding_fwd_flops(const EmbeddingFwdArgs *a)
{
    return (tables(a) - 1) * (double)a->N * (double)a->C;
}

double embedding_fwd_bytes(const EmbeddingFwdArgs *a)
{
    return (tables(a) * (double)dtype_bytes(a->w_dtype) + (double)dtype_bytes(a->out_dtype)) *
           (double)a->N * (double)a->C;
}
