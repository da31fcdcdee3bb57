// layernorm_bwd.c -- legality and cost of layernorm_bwd.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/legal.h"
#include "kernels/ops.h"

Status layernorm_bwd_check(const LayernormBwdArgs *a, Err *err)
{
    TRY(legal_type("dresid", a->dresid_dtype, err));
    TRY(legal_type("dy", a->dy_dtype, err));
    TRY(legal_type("x", a->x_dtype, err));
    TRY(legal_type("weight", a->w_dtype, err));
    if (a->C < 1 || !legal_size(a->N, a->C))
        return err_set(err, ERR_USAGE, "N = %lld, C = %lld", (long long)a->N, (long long)a->C);
    if (!a->dweight) return err_set(err, ERR_USAGE, "dweight is NULL");
    if (a->N == 0) return ERR_NONE;
    if (!a->dresid || !a->dy || !a->x || !a->mean || !a->rstd || !a->weight)
        return err_set(err, ERR_USAGE, "dresid, dy, x, mean, rstd or weight is NULL");
    if (!a->dadd) return ERR_NONE;
    TRY(legal_type("dadd", a->dadd_dtype, err));
    return legal_drop(&a->drop, a->N, a->T, err);
}

double layernorm_bwd_flops(const LayernormBwdArgs *a)
{
    return 14.0 * (double)a->N * (double)a->C;
}

double layernorm_bwd_bytes(const LayernormBwdArgs *a)
{
    const double dresid = (double)dtype_bytes(a->dresid_dtype) * (a->dresid_in ? 2 : 1);
    const double dadd   = a->dadd ? (double)dtype_bytes(a->dadd_dtype) : 0;
    const double in     = (double)dtype_bytes(a->dy_dtype) + (double)dtype_bytes(a->x_dtype);
    return (dresid + dadd + in) * (double)a->N * (double)a->C;
}
