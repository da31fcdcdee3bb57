// evaluate.c -- see evaluate.h: the model with room for batches, and loss on streams and texts.
//
// SPDX-License-Identifier: MIT
#include "engine/generate/evaluate.h"
#include "engine/generate/evaluate_row.h"
#include "engine/base/assert.h"
#include "engine/base/mem.h"

// `a` lies on the device, `host` does not.
static Status carve(Evaluator *e, Arena *a, Arena *host, Err *err)
{
    const size_t n = (size_t)(e->batch * e->block);
    e->input = arena_alloc(a, n * sizeof(int32_t));
    e->target = arena_alloc(a, n * sizeof(int32_t));
    e->position = arena_alloc(a, n * sizeof(int32_t));
    e->seg_lo = arena_alloc(a, n * sizeof(int32_t));
    e->sample = arena_alloc(a, (size_t)e->batch * sizeof(int64_t));
    const size_t Vp = (size_t)model_config_vocab_padded(&e->m->c);
    e->loss = arena_alloc(host, n * sizeof(float));
    e->logits_row = arena_alloc(host, Vp * dtype_bytes(e->m->prec.act));
    const ModelOptions mo = {.batch = e->batch, .block = e->block, .head_rows = e->block};
    return model_build(&e->model, &e->m->c, &e->m->prec, &mo, &e->m->params, e->m->weights, NULL, a,
                       err);
}

static Status measure(Evaluator *e, size_t *arena_bytes, Err *err)
{
    Arena counting, host;
    arena_init_counting(&counting, "evaluation");
    arena_init_counting(&host, "evaluation on the host");
    TRY(carve(e, &counting, &host, err));
    OpPlan plan = {0};
    const ModelBatch b = {
        .B = e->batch, .T = e->block, .input = e->input, .target = e->target, .sample = e->sample};
    e->cx.plan = &plan;
    Status st = model_loss(&e->model, &e->cx, &b, err);
    const ModelBatch one = {
        .B = 1, .T = 1, .input = e->input, .target = e->target, .sample = e->sample};
    if (st == ERR_NONE) st = model_loss(&e->model, &e->cx, &one, err);
    e->cx.plan = NULL;
    model_free(&e->model);
    *arena_bytes = counting.used;
    e->cx.scratch_bytes = plan.scratch_bytes;
    e->mem_bytes = counting.used + plan.scratch_bytes;
    e->host_bytes = host.used;
    return st;
}

Status evaluator_open(Evaluator *e, const Loaded *m, Backend *backend, int64_t batch, int64_t block,
                      Err *err)
{
    *e = (Evaluator){.m = m, .batch = batch, .block = LT_MIN(block, m->c.n_positions)};
    e->cx = (OpCtx){.ops = &backend->ops, .device = &backend->device};
    size_t bytes;
    TRY(measure(e, &bytes, err));
    TRY(device_alloc(e->cx.device, e->mem_bytes, &e->mem, err));
    e->host_mem = mem_map(e->host_bytes);
    Status st = e->host_mem ? ERR_NONE : mem_err(err, e->host_bytes, "losses");
    if (st == ERR_NONE) {
        Arena real, host;
        arena_init(&real, "evaluation", e->mem, bytes);
        arena_init(&host, "evaluation on the host", e->host_mem, e->host_bytes);
        e->cx.scratch = (char *)e->mem + bytes;
        st = carve(e, &real, &host, err);
    }
    if (st != ERR_NONE) evaluator_close(e);
    return st;
}

void evaluator_close(Evaluator *e)
{
    if (e->mem) device_free(e->cx.device, e->mem, e->mem_bytes);
    mem_unmap(e->host_mem, e->host_bytes);
    model_free(&e->model);
    *e = (Evaluator){0};
}

// Losses of B samples of T tokens into e->loss. position and seg_lo may be NULL.
static Status run_batch(Evaluator *e, int64_t B, int64_t T, const int32_t *input,
                        const int32_t *target, const int32_t *position, const int32_t *seg_lo,
                        Err *err)
{
    ASSERT(B * T <= e->batch * e->block, "%lld x %lld", (long long)B, (long long)T);
    const size_t n = (size_t)(B * T) * sizeof(int32_t);
    TRY(device_upload(e->cx.device, e->input, input, n, err));
    TRY(device_upload(e->cx.device, e->target, target, n, err));
    if (position) TRY(device_upload(e->cx.device, e->position, position, n, err));
    if (seg_lo) TRY(device_upload(e->cx.device, e->seg_lo, seg_lo, n, err));
    const ModelBatch b = {.B = B,
                          .T = T,
                          .input = e->input,
                          .target = e->target,
                          .position = position ? e->position : NULL,
                          .seg_lo = seg_lo ? e->seg_lo : NULL,
                          .sample = e->sample};
    TRY(model_loss(&e->model, &e->cx, &b, err));
    return device_download(e->cx.device, e->loss, e->model.loss, (size_t)(B * T) * sizeof(float),
                           err);
}

Status evaluate_row(Evaluator *e, int64_t T, const int32_t *input, const int32_t *target,
                    double *nats, Err *err)
{
    TRY(run_batch(e, 1, T, input, target, NULL, NULL, err));
    *nats = 0;
    for (int64_t i = 0; i < T; i++) *nats += (double)e->loss[i];
    return ERR_NONE;
}

Status evaluate_stream(Evaluator *e, Stream *s, int64_t batches, EvalLoss *out, Err *err)
{
    *out = (EvalLoss){0};
    StreamInfo info;
    stream_info(s, &info);
    TRY(stream_seek(s, 0, err));
    const int64_t samples = batches && batches < info.samples_an_epoch / e->batch
                                ? batches * e->batch
                                : info.samples_an_epoch;
    int64_t done = 0;
    for (int64_t k = 0; batches == 0 || k < batches; k++) {
        StreamBatch b;
        TRY(stream_next(s, &b, err));
        if (b.samples == 0) break;
        TRY(run_batch(e, b.samples, e->block, b.input, b.target, b.position, b.seg_lo, err));
        for (int64_t i = 0; i < b.samples * e->block; i++) out->nats += (double)e->loss[i];
        out->counted += b.counted;
        done += b.samples;
        on_progress(&e->on, (double)(done * e->block), (double)(samples * e->block));
    }
    out->bytes = info.bytes_per_token * (double)out->counted;
    return ERR_NONE;
}

Status evaluate_text(Evaluator *e, const Tokenizer *t, const char *text, size_t bytes, int threads,
                     EvalLoss *out, Err *err)
{
    *out = (EvalLoss){0};
    TokenIds ids = {0};
    Status st = tokenizer_encode(t, text, bytes, false, threads, &ids, err);
    if (st == ERR_NONE && ids.n < 2)
        st = err_set(err, ERR_USAGE, "a text of %lld token%s has nothing to predict",
                     (long long)ids.n, ids.n == 1 ? "" : "s");
    for (int64_t i = 0; i < ids.n && st == ERR_NONE; i++)
        if (ids.id[i] >= e->m->c.vocab_size)
            st = err_set(err, ERR_USAGE, "token id %d, but the model's vocabulary has %lld",
                         ids.id[i], (long long)e->m->c.vocab_size);
    const int64_t n = ids.n - 1;                    // targets
    for (int64_t i = 0; i < n && st == ERR_NONE;) { // whole windows together, then the rest
        const int64_t T = LT_MIN(e->block, n - i), B = LT_MAX(1, LT_MIN(e->batch, (n - i) / T));
        st = run_batch(e, B, T, ids.id + i, ids.id + i + 1, NULL, NULL, err);
        for (int64_t k = 0; k < B * T && st == ERR_NONE; k++) out->nats += (double)e->loss[k];
        out->counted += B * T;
        i += B * T;
        on_progress(&e->on, (double)i, (double)n);
    }
    if (st == ERR_NONE) {
        const size_t first = tokenizer_text_bytes(t, ids.id[0]); // the one token that is no target
        out->bytes = (double)(bytes - LT_MIN(first, bytes));
    }
    token_ids_free(&ids);
    return st;
}
