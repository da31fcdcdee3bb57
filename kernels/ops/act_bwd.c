// act_bwd.c -- legality and cost of act_bwd.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/legal.h"
#include "kernels/ops.h"

Status act_bwd_check(const ActBwdArgs *a, Err *err)
{
    TRY(legal_type("dh, dy and h", a->dtype, err));
    if (!legal_size(a->n, 1)) return err_set(err, ERR_USAGE, "n = %lld", (long long)a->n);
    if (a->n > 0 && (!a->dh || !a->dy || !a->h))
        return err_set(err, ERR_USAGE, "dh, dy or h is NULL");
    if (a->act < ACT_GELU_TANH || a->act > ACT_TANH)
        return err_set(err, ERR_USAGE, "activation %d", (int)a->act);
    return ERR_NONE;
}

double act_bwd_flops(const ActBwdArgs *a)
{
    return 10.0 * (double)a->n;
}

double act_bwd_bytes(const ActBwdArgs *a)
{
    return 3.0 * (double)dtype_bytes(a->dtype) * (double)a->n;
}
