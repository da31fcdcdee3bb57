// dropout.c -- legality and cost of dropout.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/legal.h"
#include "kernels/ops.h"

Status dropout_check(const DropoutArgs *a, Err *err)
{
    TRY(legal_type("x", a->dtype, err));
    if (!legal_size(a->B, a->T) || !legal_size(a->B * a->T, a->C) || a->row0 < 0)
        return err_set(err, ERR_USAGE, "B = %lld, T = %lld, C = %lld, row0 = %lld", (long long)a->B,
                       (long long)a->T, (long long)a->C, (long long)a->row0);
    if (a->B == 0 || a->T == 0 || a->C == 0) return ERR_NONE;
    if (!a->x || !a->y) return err_set(err, ERR_USAGE, "x or y is NULL");
    return legal_drop(&a->drop, a->B * a->T, a->T, err);
}

double dropout_flops(const DropoutArgs *a) { return (double)a->B * (double)a->T * (double)a->C; }

double dropout_bytes(const DropoutArgs *a)
{
    return 2.0 * (double)dtype_bytes(a->dtype) * (double)a->B * (double)a->T * (double)a->C;
}
