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

Status legal_fp8_out(const Fp8Out *o, int64_t R, int64_t C, Err *err)
{
    if (!o->scale) return ERR_NONE;
    if (!dtype_is_fp8(o->dtype))
        return err_set(err, ERR_USAGE, "the FP8 output is %s; it must be e4m3 or e5m2",
                       dtype_name(o->dtype));
    if (!o->q && !o->qt) return err_set(err, ERR_USAGE, "the FP8 output has no layout");
    if ((o->q && !legal_fp8_rows(o->q, R, C, o->ld_q)) ||
        (o->qt && !legal_fp8_rows(o->qt, C, R, o->ld_qt)) || (uintptr_t)o->scale % 16 != 0)
        return err_set(err, ERR_USAGE,
                       "FP8 output [%lld,%lld]: ld_q = %lld, ld_qt = %lld; multiples of 16, and so "
                       "the addresses",
                       (long long)R, (long long)C, (long long)o->ld_q, (long long)o->ld_qt);
    return ERR_NONE;
}
