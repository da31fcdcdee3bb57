// optimizer.c -- see optimizer.h.
//
// SPDX-License-Identifier: MIT
#include "engine/train/optimizer.h"

#include <math.h>

void optimizer_build(Optimizer *o, const ParamSet *params, const Precision *p, Arena *run)
{
    *o = (Optimizer){.params = params};
    const size_t n = (size_t)params->total;
    o->copy_dtype = p->param;
    arena_part(run, p->param == DTYPE_F32 ? "weights" : "master weights");
    o->w = arena_alloc(run, n * sizeof(float));
    if (p->param != DTYPE_F32) {
        arena_part(run, "weights");
        o->copy = arena_alloc(run, n * dtype_bytes(p->param));
    }
    arena_part(run, "optimizer moments");
    o->m = arena_alloc(run, n * sizeof(float));
    o->v = arena_alloc(run, n * sizeof(float));
    arena_part(run, "step gate");
    o->norm2 = arena_alloc(run, sizeof(double));
    o->loss = arena_alloc(run, sizeof(double));
    o->gate = arena_alloc(run, sizeof *o->gate);
    o->rates = arena_alloc(run, 2 * sizeof *o->rates);
}

void *optimizer_weights(const Optimizer *o)
{
    return o->copy ? o->copy : o->w;
}

Status optimizer_refresh(const Optimizer *o, OpCtx *cx, Err *err)
{
    if (!o->copy) return ERR_NONE;
    return op_cast(cx,
                   &(CastArgs){.dst = o->copy,
                               .src = o->w,
                               .n = o->params->total,
                               .dst_dtype = o->copy_dtype,
                               .src_dtype = DTYPE_F32},
                   err);
}

Status optimizer_start(const Optimizer *o, Device *d, int64_t t, LossScale scale, Err *err)
{
    const StepGate g = {.t = t, .bad = -1, .scale = scale};
    return device_upload(d, o->gate, &g, sizeof g, err);
}

Status optimizer_rates(const Optimizer *o, Device *d, int64_t t, const double lr[2], Err *err)
{
    StepRates r[2];
    for (int i = 0; i < 2; i++) {
        const int64_t step = t + 1 + i;
        r[i] = (StepRates){.step = step,
                           .lr = lr[i],
                           .correct1 = 1.0 - pow(o->beta1, (double)step),
                           .correct2 = 1.0 - pow(o->beta2, (double)step)};
    }
    return device_upload(d, o->rates, r, sizeof r, err);
}

static Status update_range(const Optimizer *o, OpCtx *cx, const float *grads, int64_t from,
                           int64_t n, double weight_decay, Err *err)
{
    const size_t es = dtype_bytes(o->copy_dtype);
    return op_adamw(cx,
                    &(AdamwArgs){.w = o->w + from,
                                 .param = o->copy ? (char *)o->copy + (size_t)from * es : NULL,
                                 .m = o->m + from,
                                 .v = o->v + from,
                                 .grad = grads + from,
                                 .gate = o->gate,
                                 .n = n,
                                 .beta1 = o->beta1,
                                 .beta2 = o->beta2,
                                 .eps = o->eps,
                                 .weight_decay = weight_decay,
                                 .param_dtype = o->copy_dtype},
                    err);
}

Status optimizer_step(const Optimizer *o, OpCtx *cx, const float *grads, Err *err)
{
    const int64_t n = o->params->total;
    TRY(op_sum_squares(
        cx, &(SumSquaresArgs){.out = o->norm2, .x = grads, .n = n, .dtype = DTYPE_F32}, err));
    TRY(op_step_gate(cx,
                     &(StepGateArgs){.gate = o->gate,
                                     .norm2 = o->norm2,
                                     .loss = o->loss,
                                     .rates = o->rates,
                                     .grad = grads,
                                     .n = n,
                                     .clip = o->clip,
                                     .rule = o->rule},
                     err));
    for (int b = 0; b < o->params->n_block; b++) {
        const ParamBlock *k = &o->params->block[b];
        TRY(update_range(o, cx, grads, k->offset, k->decayed, o->weight_decay, err));
        TRY(update_range(o, cx, grads, k->offset + k->decayed, k->count - k->decayed, 0, err));
    }
    return ERR_NONE;
}
