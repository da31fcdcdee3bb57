// embedding_bwd.c -- legality and cost of embedding_bwd.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/legal.h"
#include "kernels/ops.h"

Status embedding_bwd_check(const EmbeddingBwdArgs *a, Err *err)
{
    TRY(legal_type("dout", a->dout_dtype, err));
    if (a->C < 1 || a->V < 1 || !legal_size(a->N, a->C) || !legal_size(a->V, a->C))
        return err_set(err, ERR_USAGE, "N = %lld, C = %lld, V = %lld", (long long)a->N,
                       (long long)a->C, (long long)a->V);
    if (a->dwpe && (a->P < 1 || !legal_size(a->P, a->C)))
        return err_set(err, ERR_USAGE, "position table of P = %lld rows", (long long)a->P);
    if (a->dwtt && (a->S < 1 || !legal_size(a->S, a->C)))
        return err_set(err, ERR_USAGE, "type table of S = %lld rows", (long long)a->S);
    if (a->N == 0) return ERR_NONE;
    if (!a->dout || (a->dwte && !a->token)) return err_set(err, ERR_USAGE, "dout or token is NULL");
    if (a->dwpe && !a->position && (a->T < 1 || LT_MIN(a->N, a->T) > a->P))
        return err_set(err, ERR_USAGE, "T = %lld positions of a table with P = %lld rows",
                       (long long)a->T, (long long)a->P);
    return ERR_NONE;
}

static double elements(const EmbeddingBwdArgs *a)
{
    const int tables = (a->dwte != NULL) + (a->dwpe != NULL) + (a->dwtt != NULL);
    return tables * (double)a->N * (double)a->C;
}

double embedding_bwd_flops(const EmbeddingBwdArgs *a) { return elements(a); }

double embedding_bwd_bytes(const EmbeddingBwdArgs *a)
{
    return elements(a) * ((double)dtype_bytes(a->dout_dtype) + 2 * sizeof(float));
}
