// adamw_ref.c -- see kernels/ops/adamw.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ref/fp8_put.h"
#include "kernels/ref/ref.h"

#include <math.h>

Status adamw_ref(const AdamwArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    const StepGate *s = a->gate;
    if (s && s->skip) return ERR_NONE;
    const double correct1 = s ? s->rates.correct1 : 1.0 - pow(a->beta1, (double)a->step);
    const double correct2 = s ? s->rates.correct2 : 1.0 - pow(a->beta2, (double)a->step);
    const double lr = s ? s->rates.lr : a->lr;
    const float scale = s ? s->grad_scale : a->grad_scale;
    const int64_t C = a->q.scale ? a->n / a->R : 1;
    if (a->n > 0) fp8_put_begin(&a->q, a->R, C);
    for (int64_t i = 0; i < a->n; i++) {
        const double g = (double)a->grad[i] * (double)scale;
        const double m = a->beta1 * (double)a->m[i] + (1 - a->beta1) * g;
        const double v = a->beta2 * (double)a->v[i] + (1 - a->beta2) * g * g;
        const double w = (double)a->w[i];
        const double step = (m / correct1) / (sqrt(v / correct2) + a->eps);
        a->m[i] = (float)m;
        a->v[i] = (float)v;
        a->w[i] = (float)(w - lr * a->weight_decay * w - lr * step);
        if (!a->param && !a->q.scale) continue;
        float y; // the low half of it for a 16-bit type
        dtype_store(&y, a->param_dtype, 0, a->w[i]);
        y = dtype_load(&y, a->param_dtype, 0);
        if (a->param) dtype_store(a->param, a->param_dtype, i, y);
        fp8_put(&a->q, i / C, i % C, y);
    }
    return ERR_NONE;
}
