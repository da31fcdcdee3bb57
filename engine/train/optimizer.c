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
    o->norm2 = arena_alloc(run, sizeof(double));
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

// Into o->norm2.
static Status sum_squares(const Optimizer *o, OpCtx *cx, const float *x, int64_t n, Err *err)
{
    return op_sum_squares(
        cx, &(SumSquaresArgs){.out = o->norm2, .x = x, .n = n, .dtype = DTYPE_F32}, err);
}

Status optimizer_norm2_later(const Optimizer *o, OpCtx *cx, const float *grads, double *norm2,
                             Err *err)
{
    TRY(sum_squares(o, cx, grads, o->params->total, err));
    if (cx->plan) return ERR_NONE;
    return device_download_later(cx->device, norm2, o->norm2, sizeof *norm2, err);
}

static Status update_range(const Optimizer *o, OpCtx *cx, const float *grads, int64_t from,
                           int64_t n, double weight_decay, int64_t t, double lr, double grad_scale,
                           Err *err)
{
    const size_t es = dtype_bytes(o->copy_dtype);
    return op_adamw(cx,
                    &(AdamwArgs){.w = o->w + from,
                                 .param = o->copy ? (char *)o->copy + (size_t)from * es : NULL,
                                 .m = o->m + from,
                                 .v = o->v + from,
                                 .grad = grads + from,
                                 .n = n,
                                 .step = t,
                                 .lr = lr,
                                 .beta1 = o->beta1,
                                 .beta2 = o->beta2,
                                 .eps = o->eps,
                                 .weight_decay = weight_decay,
                                 .grad_scale = (float)grad_scale,
                                 .param_dtype = o->copy_dtype},
                    err);
}

Status optimizer_step(const Optimizer *o, OpCtx *cx, const float *grads, int64_t t, double lr,
                      double grad_scale, Err *err)
{
    for (int b = 0; b < o->params->n_block; b++) {
        const ParamBlock *k = &o->params->block[b];
        TRY(update_range(o, cx, grads, k->offset, k->decayed, o->weight_decay, t, lr, grad_scale,
                         err));
        TRY(update_range(o, cx, grads, k->offset + k->decayed, k->count - k->decayed, 0, t, lr,
                         grad_scale, err));
    }
    return ERR_NONE;
}

Status optimizer_first_bad(const Optimizer *o, OpCtx *cx, const float *grads, const char **name,
                           Err *err)
{
    *name = NULL;
    for (int i = 0; i < o->params->n; i++) {
        const Param *p = &o->params->param[i];
        double s = 0;
        TRY(sum_squares(o, cx, grads + p->offset, p->count, err));
        TRY(device_download(cx->device, &s, o->norm2, sizeof s, err));
        if (!isfinite(s)) {
            *name = p->name;
            return ERR_NONE;
        }
    }
    return ERR_NONE;
}
