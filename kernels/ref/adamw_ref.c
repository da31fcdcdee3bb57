// adamw_ref.c -- see kernels/ops/adamw.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ref/ref.h"

#include <math.h>

Status adamw_ref(const AdamwArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    const double correct1 = 1.0 - pow(a->beta1, (double)a->step);
    const double correct2 = 1.0 - pow(a->beta2, (double)a->step);
    for (int64_t i = 0; i < a->n; i++) {
        const double g = (double)a->grad[i] * (double)a->grad_scale;
        const double m = a->beta1 * (double)a->m[i] + (1 - a->beta1) * g;
        const double v = a->beta2 * (double)a->v[i] + (1 - a->beta2) * g * g;
        const double w = (double)a->w[i];
        const double step = (m / correct1) / (sqrt(v / correct2) + a->eps);
        a->m[i] = (float)m;
        a->v[i] = (float)v;
        a->w[i] = (float)(w - a->lr * a->weight_decay * w - a->lr * step);
        if (a->param) dtype_store(a->param, a->param_dtype, i, a->w[i]);
    }
    return ERR_NONE;
}
