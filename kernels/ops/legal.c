// legal.c -- see legal.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/legal.h"

Status legal_type(const char *what, DType t, Err *err)
{
    if (legal_float(t)) return ERR_NONE;
    return err_set(err, ERR_USAGE, "%s is %s; it must be f32, bf16 or f16", what, dtype_name(t));
}

Status legal_drop(const DropoutSpec *d, int64_t N, int64_t T, Err *err)
{
    if (d->p == 0) return ERR_NONE;
    if (!(d->p > 0 && d->p < 1))
        return err_set(err, ERR_USAGE, "dropout p = %g; it must be in [0, 1)", (double)d->p);
    if (T < 1 || N % T != 0)
        return err_set(err, ERR_USAGE, "dropout over %lld rows with %lld rows a sample",
                       (long long)N, (long long)T);
    if (N > 0 && !d->sample) return err_set(err, ERR_USAGE, "dropout needs the sample indices");
    if (d->layer >= 4096 || (unsigned)d->site >= 16)
        return err_set(err, ERR_USAGE, "dropout at layer %u, site %u; below 4096 and 16 is legal",
                       (unsigned)d->layer, (unsigned)d->site);
    return ERR_NONE;
}
