// lamb_ref.c -- see kernels/ops/lamb.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ref/ref.h"

#include <math.h>

static void one_tensor(const LambArgs *a, const LambSegment *s)
{
    const StepGate *gate = a->gate;
    const double decay = s->decayed ? a->weight_decay : 0;
    double ww = 0, uu = 0;
    for (int64_t i = s->from; i < s->from + s->n; i++) {
        const double g = (double)a->grad[i] * (double)gate->grad_scale;
        const double m = a->beta1 * (double)a->m[i] + (1 - a->beta1) * g;
        const double v = a->beta2 * (double)a->v[i] + (1 - a->beta2) * g * g;
        const double w = (double)a->w[i];
        const double step = (m / gate->rates.correct1) / (sqrt(v / gate->rates.correct2) + a->eps);
        const double u = step + decay * w;
        a->m[i] = (float)m;
        a->v[i] = (float)v;
        a->grad[i] = (float)u;
        ww += w * w;
        uu += u * u;
    }
    const double ratio = s->decayed && ww > 0 && uu > 0 ? sqrt(ww) / sqrt(uu) : 1;
    for (int64_t i = s->from; i < s->from + s->n; i++) {
        a->w[i] = (float)((double)a->w[i] - gate->rates.lr * ratio * (double)a->grad[i]);
        if (a->param) dtype_store(a->param, a->param_dtype, i, a->w[i]);
    }
}

Status lamb_ref(const LambArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    if (a->gate->skip) return ERR_NONE;
    for (int64_t i = 0; i < a->n_segment; i++) one_tensor(a, &a->segment[i]);
    return ERR_NONE;
}
