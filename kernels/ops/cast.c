// cast.c -- legality and cost of cast.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/legal.h"
#include "kernels/ops.h"

Status cast_check(const CastArgs *a, Err *err)
{
    TRY(legal_type("dst", a->dst_dtype, err));
    TRY(legal_type("src", a->src_dtype, err));
    if (!legal_size(a->n, 1)) return err_set(err, ERR_USAGE, "n = %lld", (long long)a->n);
    if (a->n > 0 && (!a->dst || !a->src)) return err_set(err, ERR_USAGE, "dst or src is NULL");
    return ERR_NONE;
}

double cast_flops(const CastArgs *a)
{
    (void)a;
    return 0;
}

double cast_bytes(const CastArgs *a)
{
    return (double)(dtype_bytes(a->dst_dtype) + dtype_bytes(a->src_dtype)) * (double)a->n;
}
