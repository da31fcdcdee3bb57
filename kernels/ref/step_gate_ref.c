// step_gate_ref.c -- see kernels/ops/step_gate.h. It serves as the CPU's implementation, too.
//
// SPDX-License-Identifier: MIT
#include "engine/base/assert.h"
#include "kernels/ref/ref.h"

#include <math.h>

static int64_t first_bad(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return i;
    return -1;
}

static void next_scale(LossScale *s, const LossScaleRule *r, bool skip)
{
    if (r->interval == 0) return;
    if (skip) {
        s->good = 0;
        s->left--;
        if (s->left <= 0) s->scale = fmaxf(s->scale * r->backoff, 1);
    } else if (++s->good >= r->interval) {
        const float more = s->scale * r->growth;
        s->good = 0;
        s->left = r->hysteresis;
        if (isfinite(more)) s->scale = more;
    }
}

Status step_gate_ref(const StepGateArgs *a, OpCtx *cx, Err *err)
{
    (void)cx;
    (void)err;
    StepGate *g = a->gate;
    const StepRates *rates = &a->rates[a->rates[0].step == g->t + 1 ? 0 : 1];
    ASSERT(rates->step == g->t + 1, "step_gate: rates of update %lld and %lld, this is %lld",
           (long long)a->rates[0].step, (long long)a->rates[1].step, (long long)(g->t + 1));
    const double s = (double)g->scale.scale;
    const double norm = sqrt(*a->norm2) / s;
    const double clip = a->clip > 0 ? a->clip / (norm + 1e-6) : 1.0;
    const bool skip = !isfinite(norm) || !isfinite(*a->loss);
    g->rates = *rates;
    g->loss = *a->loss;
    g->norm = norm;
    g->t += !skip;
    g->bad = skip ? first_bad(a->grad, a->n) : -1;
    g->grad_scale = (float)((clip < 1 ? clip : 1.0) / s);
    g->skip = skip;
    next_scale(&g->scale, &a->rule, skip);
    return ERR_NONE;
}
