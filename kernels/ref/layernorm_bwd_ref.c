// layernorm_bwd_ref.c -- see kernels/ops/layernorm_bwd.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ref/drop.h"
#include "kernels/ref/ref.h"

static double dy_at(const LayernormBwdArgs *a, int64_t n, int64_t c)
{
    return (double)dtype_load(a->dy, a->dy_dtype, n * a->C + c);
}

static double xhat_at(const LayernormBwdArgs *a, int64_t n, int64_t c)
{
    const double x = (double)dtype_load(a->x, a->x_dtype, n * a->C + c);
    return (x - (double)a->mean[n]) * (double)a->rstd[n];
}

static void row_gradient(const LayernormBwdArgs *a, int64_t n)
{
    double avg_g = 0, avg_gx = 0;
    for (int64_t c = 0; c < a->C; c++) {
        const double g = dy_at(a, n, c) * (double)dtype_load(a->weight, a->w_dtype, c);
        avg_g += g;
        avg_gx += g * xhat_at(a, n, c);
    }
    avg_g /= (double)a->C;
    avg_gx /= (double)a->C;
    const int64_t T = LT_MAX(a->T, 1); // T means nothing without dropout
    for (int64_t c = 0; c < a->C; c++) {
        const int64_t i = n * a->C + c;
        const double  g = dy_at(a, n, c) * (double)dtype_load(a->weight, a->w_dtype, c);
        double        d = (g - avg_g - xhat_at(a, n, c) * avg_gx) * (double)a->rstd[n];
        if (a->dresid_in) d += (double)dtype_load(a->dresid_in, a->dresid_dtype, i);
        dtype_store(a->dresid, a->dresid_dtype, i, (float)d);
        if (a->dadd)
            dtype_store(a->dadd, a->dadd_dtype, i,
                        (float)drop_apply(d, &a->drop, n / T, 0, n % T, c));
    }
}

Status layernorm_bwd_ref(const LayernormBwdArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    for (int64_t c = 0; c < a->C; c++) {
        double dweight = a->accumulate ? (double)a->dweight[c] : 0;
        double dbias   = a->accumulate && a->dbias ? (double)a->dbias[c] : 0;
        for (int64_t n = 0; n < a->N; n++) {
            dweight += dy_at(a, n, c) * xhat_at(a, n, c);
            dbias += dy_at(a, n, c);
        }
        a->dweight[c] = (float)dweight;
        if (a->dbias) a->dbias[c] = (float)dbias;
    }
    for (int64_t n = 0; n < a->N; n++) row_gradient(a, n);
    return ERR_NONE;
}
