// bias_bwd.c -- legality and cost of bias_bwd.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/legal.h"
#include "kernels/ops.h"

Status bias_bwd_check(const BiasBwdArgs *a, Err *err)
{
    TRY(legal_type("dy", a->dtype, err));
    if (!legal_size(a->N, a->C))
        return err_set(err, ERR_USAGE, "N = %lld, C = %lld", (long long)a->N, (long long)a->C);
    if (a->C > 0 && (!a->db || (a->N > 0 && !a->dy)))
        return err_set(err, ERR_USAGE, "db or dy is NULL");
    return ERR_NONE;
}

double bias_bwd_flops(const BiasBwdArgs *a) { return (double)a->N * (double)a->C; }

double bias_bwd_bytes(const BiasBwdArgs *a)
{
    return (double)dtype_bytes(a->dtype) * (double)a->N * (double)a->C;
}
