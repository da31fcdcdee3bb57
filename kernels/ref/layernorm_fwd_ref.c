// layernorm_fwd_ref.c -- see kernels/ops/layernorm_fwd.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ref/drop.h"
#include "kernels/ref/fp8_put.h"
#include "kernels/ref/ref.h"

#include <math.h>

// r[c] = x + drop(add), rounded to x_dtype, in resid_out. Returns where r lies.
static const void *residual_row(const LayernormFwdArgs *a, int64_t n)
{
    if (!a->resid_out) return a->x;
    for (int64_t c = 0; c < a->C; c++) {
        const int64_t i = n * a->C + c;
        double r = (double)dtype_load(a->x, a->x_dtype, i);
        if (a->add) {
            const double add = (double)dtype_load(a->add, a->add_dtype, i);
            const int64_t T = LT_MAX(a->T, 1); // T means nothing without dropout
            r += drop_apply(add, &a->drop, n / T, 0, a->row0 + n % T, c);
        }
        dtype_store(a->resid_out, a->x_dtype, i, (float)r);
    }
    return a->resid_out;
}

Status layernorm_fwd_ref(const LayernormFwdArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    if (a->N > 0) fp8_put_begin(&a->q, a->N, a->C);
    for (int64_t n = 0; n < a->N; n++) {
        const void *r = residual_row(a, n);
        double sum = 0, squares = 0;
        for (int64_t c = 0; c < a->C; c++) sum += (double)dtype_load(r, a->x_dtype, n * a->C + c);
        const double mean = sum / (double)a->C;
        for (int64_t c = 0; c < a->C; c++) {
            const double d = (double)dtype_load(r, a->x_dtype, n * a->C + c) - mean;
            squares += d * d;
        }
        const double rstd = 1.0 / sqrt(squares / (double)a->C + (double)a->eps);
        for (int64_t c = 0; c < a->C; c++) {
            const double d = (double)dtype_load(r, a->x_dtype, n * a->C + c) - mean;
            const double w = (double)dtype_load(a->weight, a->w_dtype, c);
            const double b = a->bias ? (double)dtype_load(a->bias, a->w_dtype, c) : 0.0;
            float y; // the low half of it for a 16-bit type
            dtype_store(&y, a->out_dtype, 0, (float)(d * rstd * w + b));
            y = dtype_load(&y, a->out_dtype, 0);
            if (a->out) dtype_store(a->out, a->out_dtype, n * a->C + c, y);
            fp8_put(&a->q, n, c, y);
        }
        if (a->mean) a->mean[n] = (float)mean;
        if (a->rstd) a->rstd[n] = (float)rstd;
    }
    return ERR_NONE;
}
