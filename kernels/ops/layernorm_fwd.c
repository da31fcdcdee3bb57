// layernorm_fwd.c -- legality and cost of layernorm_fwd.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/legal.h"
#include "kernels/ops.h"

Status layernorm_fwd_check(const LayernormFwdArgs *a, Err *err)
{
    TRY(legal_type("x", a->x_dtype, err));
    TRY(legal_type("out", a->out_dtype, err));
    TRY(legal_type("weight", a->w_dtype, err));
    if (a->C < 1 || !legal_size(a->N, a->C) || a->row0 < 0)
        return err_set(err, ERR_USAGE, "N = %lld, C = %lld, row0 = %lld", (long long)a->N,
                       (long long)a->C, (long long)a->row0);
    if (!(a->eps >= 0)) return err_set(err, ERR_USAGE, "eps = %g", (double)a->eps);
    TRY(legal_fp8_out(&a->q, a->N, a->C, err));
    if (a->N == 0) return ERR_NONE;
    if ((!a->out && !a->q.scale) || !a->x || !a->weight)
        return err_set(err, ERR_USAGE, "out, x or weight is NULL");
    if (!a->add) return ERR_NONE;
    TRY(legal_type("add", a->add_dtype, err));
    if (!a->resid_out) return err_set(err, ERR_USAGE, "add needs resid_out");
    return legal_drop(&a->drop, a->N, a->T, err);
}

double layernorm_fwd_flops(const LayernormFwdArgs *a)
{
    return (a->add ? 9.0 : 8.0) * (double)a->N * (double)a->C;
}

double layernorm_fwd_bytes(const LayernormFwdArgs *a)
{
    const double x = (double)dtype_bytes(a->x_dtype), out = (double)dtype_bytes(a->out_dtype);
    const double add = a->add ? (double)dtype_bytes(a->add_dtype) : 0;
    const double fp8 = a->q.scale ? (a->q.q ? 1 : 0) + (a->q.qt ? 1 : 0) : 0;
    return (x + add + (a->resid_out ? x : 0) + (a->out ? out : 0) + fp8) * (double)a->N *
           (double)a->C;
}
