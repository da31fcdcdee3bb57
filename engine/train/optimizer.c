// optimizer.c -- see optimizer.h.
//
// SPDX-License-Identifier: MIT
#include "engine/train/optimizer.h"
#include "engine/base/assert.h"
#include "engine/base/mem.h"

#include <math.h>

// How many tensors lie in p: the query, key and value of a layer are stored as one.
static int tensors_in(const ParamSet *s, const Param *p)
{
    if (p->block == 0 || p->block == s->n_block - 1) return 1;
    const int64_t at = p->offset - s->block[p->block].offset;
    return at == s->layer.qkv_w || at == s->layer.qkv_b ? 3 : 1;
}

// Gaps and padded rows belong to none. out NULL: only how many there are, and their chunks.
static int64_t lamb_segments(const ParamSet *s, LambSegment *out, int64_t *chunks)
{
    int64_t n = 0;
    *chunks = 0;
    for (int i = 0; i < s->n; i++) {
        const Param *p = &s->param[i];
        const int parts = tensors_in(s, p);
        const int64_t count = p->count / parts;
        for (int k = 0; k < parts; k++, n++) {
            LambSegment t = {.from = p->offset + k * count, .n = count, .decayed = p->decay};
            *chunks += lamb_chunks(&t, 1);
            if (out) out[n] = t;
        }
    }
    if (out) (void)lamb_chunks(out, n);
    return n;
}

// The table is the same in every step, so it lies on the device from the start.
static Status send_segments(const Optimizer *o, Device *d, Err *err)
{
    const size_t bytes = (size_t)o->n_segment * sizeof(LambSegment);
    int64_t chunks;
    LambSegment *s = mem_alloc(bytes);
    if (!s) return mem_err(err, bytes, "the table of tensors");
    (void)lamb_segments(o->params, s, &chunks);
    const Status st = device_upload(d, o->segment, s, bytes, err);
    mem_free(s);
    return st;
}

void optimizer_build(Optimizer *o, const ParamSet *params, const Precision *p, bool lamb,
                     Arena *run)
{
    *o = (Optimizer){.params = params, .lamb = lamb};
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
    if (lamb) {
        arena_part(run, "table of tensors");
        o->n_segment = lamb_segments(params, NULL, &o->n_chunk);
        o->segment = arena_alloc(run, (size_t)o->n_segment * sizeof *o->segment);
    }
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
    if (o->fp8) o->fp8->cast = false;
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
    if (o->lamb) TRY(send_segments(o, d, err));
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

static AdamwArgs range_args(const Optimizer *o, const float *grads, int64_t from, int64_t n,
                            double weight_decay)
{
    const size_t es = dtype_bytes(o->copy_dtype);
    return (AdamwArgs){.w = o->w + from,
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
                       .param_dtype = o->copy_dtype};
}

static Status update_range(const Optimizer *o, OpCtx *cx, const float *grads, int64_t from,
                           int64_t n, double weight_decay, Err *err)
{
    const AdamwArgs a = range_args(o, grads, from, n, weight_decay);
    return n ? op_adamw(cx, &a, err) : ERR_NONE;
}

// The matrices of a layer in FP8, each by a call, and what lies between them. *from: behind them.
static Status update_matrices(const Optimizer *o, OpCtx *cx, const float *grads, int64_t layer,
                              int64_t *from, Err *err)
{
    const int64_t block = o->params->block[layer + 1].offset;
    for (int i = 0; i < LINEAR_COUNT; i++) {
        const int64_t start = block + layer_matrix(&o->params->layer, (LinearId)i);
        ASSERT(start >= *from, "matrix %d of a layer lies in front of the one before it", i);
        TRY(update_range(o, cx, grads, *from, start - *from, o->weight_decay, err));
        AdamwArgs a = range_args(o, grads, start, 0, o->weight_decay);
        a.q = fp8_weight_out(o->fp8, layer, (LinearId)i, &a.R);
        a.n = a.R * a.q.ld_q;
        TRY(op_adamw(cx, &a, err));
        *from = start + a.n;
    }
    return ERR_NONE;
}

static Status update_block(const Optimizer *o, OpCtx *cx, const float *grads, int b, Err *err)
{
    const ParamBlock *k = &o->params->block[b];
    const int64_t plain = k->offset + k->decayed, end = k->offset + k->count;
    int64_t from = k->offset;
    if (optimizer_writes_fp8(o) && fp8_runs(o->fp8, b - 1))
        TRY(update_matrices(o, cx, grads, b - 1, &from, err));
    TRY(update_range(o, cx, grads, from, plain - from, o->weight_decay, err));
    return update_range(o, cx, grads, plain, end - plain, 0, err);
}

bool optimizer_writes_fp8(const Optimizer *o)
{
    return o->fp8 && !o->lamb && fp8_written_by_update(o->fp8);
}

static Status adamw(const Optimizer *o, OpCtx *cx, const float *grads, Err *err)
{
    for (int b = 0; b < o->params->n_block; b++) TRY(update_block(o, cx, grads, b, err));
    return ERR_NONE;
}

static Status lamb(const Optimizer *o, OpCtx *cx, float *grads, Err *err)
{
    return op_lamb(cx,
                   &(LambArgs){.w = o->w,
                               .param = o->copy,
                               .m = o->m,
                               .v = o->v,
                               .grad = grads,
                               .segment = o->segment,
                               .gate = o->gate,
                               .n = o->params->total,
                               .n_segment = o->n_segment,
                               .n_chunk = o->n_chunk,
                               .beta1 = o->beta1,
                               .beta2 = o->beta2,
                               .eps = o->eps,
                               .weight_decay = o->weight_decay,
                               .param_dtype = o->copy_dtype},
                   err);
}

Status optimizer_step(const Optimizer *o, OpCtx *cx, float *grads, Err *err)
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
    if (o->fp8) TRY(fp8_end_step(o->fp8, cx, &o->gate->skip, err));
    TRY(o->lamb ? lamb(o, cx, grads, err) : adamw(o, cx, grads, err));
    if (optimizer_writes_fp8(o)) o->fp8->cast = !cx->plan;
    return ERR_NONE;
}
