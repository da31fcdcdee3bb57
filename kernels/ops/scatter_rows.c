// scatter_rows.c -- legality and cost of scatter_rows.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/legal.h"
#include "kernels/ops.h"

Status scatter_rows_check(const ScatterRowsArgs *a, Err *err)
{
    TRY(legal_type("x", a->dtype, err));
    if (a->C < 1 || !legal_size(a->n, a->C) || !legal_size(a->N, a->C))
        return err_set(err, ERR_USAGE, "n = %lld, N = %lld, C = %lld", (long long)a->n,
                       (long long)a->N, (long long)a->C);
    if (a->n > 0 && (!a->x || !a->row || (a->N > 0 && !a->out)))
        return err_set(err, ERR_USAGE, "out, x or row is NULL");
    return ERR_NONE;
}

double scatter_rows_flops(const ScatterRowsArgs *a) { return (double)a->n * (double)a->C; }

double scatter_rows_bytes(const ScatterRowsArgs *a)
{
    return 3.0 * (double)dtype_bytes(a->dtype) * (double)a->n * (double)a->C;
}
