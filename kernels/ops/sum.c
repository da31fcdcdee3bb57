// sum.c -- legality and cost of sum.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/legal.h"
#include "kernels/ops.h"

Status sum_check(const SumArgs *a, Err *err)
{
    TRY(legal_type("x", a->dtype, err));
    if (!legal_size(a->n, 1)) return err_set(err, ERR_USAGE, "n = %lld", (long long)a->n);
    if (!a->out || (a->n > 0 && !a->x)) return err_set(err, ERR_USAGE, "out or x is NULL");
    return ERR_NONE;
}

double sum_flops(const SumArgs *a) { return (double)a->n; }

double sum_bytes(const SumArgs *a)
{
    return (double)dtype_bytes(a->dtype) * (double)a->n;
}
