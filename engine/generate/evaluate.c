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
    const ModelConfig *c = &e->m->c;
    const bool bert = c->head != HEAD_LM;
    const BatchShape shape = {.samples = e->batch,
                              .block = e->block,
                              .micro = e->batch,
                              .target = !bert,
                              .segments = true,
                              .bert = bert,
                              .picks = e->picks,
                              .seqs = e->seqs};
    batch_build(&e->in, &shape, a, host);
    const size_t Vp = (size_t)model_config_vocab_padded(c);
    e->sample = arena_alloc(host, (size_t)e->batch * sizeof(int64_t));
    e->loss = arena_alloc(host, n * sizeof(float));
    e->logits_row = arena_alloc(host, Vp * dtype_bytes(e->m->prec.act));
    const ModelOptions mo = {.batch = e->batch,
                             .block = e->block,
                             .head_rows = e->block,
                             .picks = e->batch * e->picks,
                             .seqs = e->batch * e->seqs};
    return model_build(&e->model, c, &e->m->prec, &mo, &e->m->params, e->m->weights, NULL, a, err);
}

static Status measure_loss(Evaluator *e, int64_t B, int64_t T, bool segments, Err *err)
{
    const Batch *a = &e->in;
    const ModelBatch b = {.B = B,
                          .T = T,
                          .input = a->input,
                          .target = a->target,
                          .position = segments ? a->position : NULL,
                          .seg_lo = segments ? a->seg_lo : NULL,
                          .sample = a->sample,
                          .type = a->type,
                          .seg_hi = a->seg_hi,
                          .picks = B * e->picks,
                          .pick_row = a->pick_row,
                          .pick_target = a->pick_target,
                          .seqs = B * e->seqs,
                          .seq_row = a->seq_row,
                          .seq_target = a->seq_target};
    return model_loss(&e->model, &e->cx, &b, err);
}

static Status measure(Evaluator *e, size_t *arena_bytes, Err *err)
{
    Arena counting, host;
    arena_init_counting(&counting, "evaluation");
    arena_init_counting(&host, "evaluation on the host");
    TRY(carve(e, &counting, &host, err));
    OpPlan plan = {0};
    e->cx.plan = &plan;
    Status st = measure_loss(e, e->batch, e->block, true, err);
    if (st == ERR_NONE && e->in.target) st = measure_loss(e, e->batch, e->block, false, err);
    if (st == ERR_NONE && e->in.target) st = measure_loss(e, 1, 1, false, err);
    e->cx.plan = NULL;
    model_free(&e->model);
    *arena_bytes = counting.used;
    e->cx.scratch_bytes = plan.scratch_bytes;
    e->mem_bytes = counting.used + plan.scratch_bytes;
    e->host_bytes = host.used;
    return st;
}

Status evaluator_open(Evaluator *e, const Loaded *m, Backend *backend, int64_t batch, int64_t block,
                      int64_t picks, int64_t seqs, Err *err)
{
    *e = (Evaluator){.m = m, .batch = batch, .block = block, .picks = picks, .seqs = seqs};
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

static Status download(Evaluator *e, const float *from, int64_t n, Err *err)
{
    return device_download(e->cx.device, e->loss, from, (size_t)n * sizeof(float), err);
}

// Losses of B samples of T tokens into e->loss.
static Status run_batch(Evaluator *e, int64_t B, int64_t T, const int32_t *input,
                        const int32_t *target, Err *err)
{
    const ModelBatch host = {.B = B, .T = T, .input = input, .target = target, .sample = e->sample};
    TRY(batch_put(&e->in, e->cx.device, &host, err));
    const ModelBatch b = batch_part(&e->in, 0, B);
    TRY(model_loss(&e->model, &e->cx, &b, err));
    return download(e, e->model.loss, B * T, err);
}

Status evaluate_row(Evaluator *e, int64_t T, const int32_t *input, const int32_t *target,
                    double *nats, Err *err)
{
    TRY(run_batch(e, 1, T, input, target, err));
    *nats = 0;
    for (int64_t i = 0; i < T; i++) *nats += (double)e->loss[i];
    return ERR_NONE;
}

// Add n numbers of the device up.
static Status add_up(Evaluator *e, double *sum, const float *x, int64_t n, Err *err)
{
    if (!x || n == 0) return ERR_NONE;
    TRY(download(e, x, n, err));
    for (int64_t i = 0; i < n; i++) *sum += (double)e->loss[i];
    return ERR_NONE;
}

static Status add_batch(Evaluator *e, const StreamBatch *s, EvalLoss *out, Err *err)
{
    const Model *m = &e->model;
    const bool lm = m->c.head == HEAD_LM, pretrain = m->c.head == HEAD_PRETRAIN;
    const ModelBatch host = {.B = s->samples,
                             .T = e->block,
                             .input = s->input,
                             .target = s->target,
                             .position = s->position,
                             .seg_lo = s->seg_lo,
                             .sample = s->sample,
                             .type = s->type,
                             .seg_hi = s->seg_hi,
                             .picks = s->picks,
                             .pick_row = s->pick_row,
                             .pick_target = s->pick_target,
                             .seqs = s->seqs,
                             .seq_row = s->seq_row,
                             .seq_target = s->seq_target};
    TRY(batch_put(&e->in, e->cx.device, &host, err));
    const ModelBatch b = batch_part(&e->in, 0, s->samples);
    TRY(model_loss(&e->model, &e->cx, &b, err));
    const int64_t rows = lm ? b.B * b.T : b.picks;
    TRY(add_up(e, &out->nats, m->loss, rows, err));
    out->counted += s->counted;
    if (lm) return ERR_NONE;
    TRY(add_up(e, &out->hits, m->hit, rows, err));
    out->sequences += s->sequences;
    if (!pretrain) return ERR_NONE;
    TRY(add_up(e, &out->nats_seqs, m->loss_seq, b.seqs, err));
    TRY(add_up(e, &out->hits_seqs, m->hit_seq, b.seqs, err));
    out->counted_seqs += s->counted_seqs;
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
        TRY(add_batch(e, &b, out, err));
        done += b.samples;
        on_progress(&e->on, (double)(done * e->block), (double)(samples * e->block));
    }
    if (e->m->c.head == HEAD_LM) out->bytes = info.bytes_per_token * (double)out->counted;
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
        st = run_batch(e, B, T, ids.id + i, ids.id + i + 1, err);
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
