// predict.c -- see predict.h.
//
// SPDX-License-Identifier: MIT
#include "engine/generate/predict.h"
#include "engine/base/assert.h"
#include "engine/base/mem.h"

#include <stdlib.h>

enum { LENGTH_UNIT = 8 }; // rows are this long, or a multiple of it

Status predict_task(const Loaded *m, ExampleTask *task, Err *err)
{
    if (m->c.head == HEAD_CLASSIFY || m->c.head == HEAD_TAG || m->c.head == HEAD_QA) {
        *task = m->c.head == HEAD_CLASSIFY ? EXAMPLE_CLASSIFY
                : m->c.head == HEAD_TAG    ? EXAMPLE_TAG
                                           : EXAMPLE_QA;
        return ERR_NONE;
    }
    const Status st = err_set(err, ERR_USAGE, "the model in %s (%s) neither labels nor answers",
                              m->dir, m->hf.architecture);
    err_hint(err, m->c.head == HEAD_LM
                      ? "a BERT does, after lathe train --task=classify|tag|qa --init_from=DIR"
                      : "lathe train --task=classify|tag|qa --init_from=DIR teaches it; "
                        "lathe predict --embed=mean|cls writes embeddings");
    return st;
}

void predict_labels(const Loaded *m, Labels *out)
{
    _Static_assert((int)HF_LABELS <= (int)LABELS_MAX && (int)HF_LABEL_CAP == (int)LABEL_CAP,
                   "label maps");
    labels_from(out, m->hf.label, (int)m->hf.n_labels);
}

// ---------------------------------------------------------------- open

static bool has_picks(const Predictor *p)
{
    return p->m->c.head == HEAD_TAG;
}

// Numbers that come from the device for a batch, at most.
static size_t raw_numbers(const Predictor *p)
{
    const int64_t rows = p->samples * p->block, C = p->m->c.n_embd;
    const int64_t labels = LT_MAX(p->m->c.n_labels, (int64_t)2);
    return (size_t)(rows * (has_picks(p) ? LT_MAX(C, labels) : C) + p->samples * labels);
}

// `a` lies on the device, `host` does not.
static Status carve(Predictor *p, Arena *a, Arena *host, Err *err)
{
    const int64_t S = p->samples, T = p->block;
    const size_t rows = (size_t)(S * T) * sizeof(int32_t), one = (size_t)S * sizeof(int32_t);
    int32_t **const wide[] = {&p->rows.input,      &p->rows.type,   &p->rows.position,
                              &p->rows.seg_lo,     &p->rows.seg_hi, &p->rows.pick_row,
                              &p->rows.pick_target};
    for (size_t i = 0; i < LT_COUNT(wide); i++) *wide[i] = arena_alloc(host, rows);
    p->rows.seq_row = arena_alloc(host, one);
    p->rows.seq_target = arena_alloc(host, one);
    p->rows.span_target = arena_alloc(host, 2 * one);
    p->sample = arena_alloc(host, (size_t)S * sizeof *p->sample);
    p->raw = arena_alloc(host, raw_numbers(p) * dtype_bytes(p->m->prec.act));
    const BatchShape shape = {.samples = S,
                              .block = T,
                              .micro = S,
                              .segments = true,
                              .bert = true,
                              .picks = has_picks(p) ? T : 0,
                              .seqs = 1};
    batch_build(&p->batch, &shape, a, host);
    const ModelOptions mo = {
        .batch = S, .block = T, .head_rows = T, .picks = has_picks(p) ? S * T : 0, .seqs = S};
    return model_build(&p->model, &p->m->c, &p->m->prec, &mo, &p->m->params, p->m->weights, NULL, a,
                       err);
}

static ModelBatch shaped(const Predictor *p, int64_t B, int64_t T)
{
    const Batch *b = &p->batch;
    return (ModelBatch){.B = B,
                        .T = T,
                        .input = b->input,
                        .position = b->position,
                        .seg_lo = b->seg_lo,
                        .sample = b->sample,
                        .type = b->type,
                        .seg_hi = b->seg_hi,
                        .picks = has_picks(p) ? B * T : 0,
                        .pick_row = b->pick_row,
                        .seqs = B,
                        .seq_row = b->seq_row};
}

static Status run_model(Predictor *p, const ModelBatch *b, PredictWhat what, const void **rows,
                        const void **seqs, Err *err)
{
    return what == PREDICT_LOGITS ? model_scores(&p->model, &p->cx, b, rows, seqs, err)
                                  : model_embed(&p->model, &p->cx, b, rows, seqs, err);
}

// Scratch of the largest and of narrow batches.
static Status measure_scratch(Predictor *p, size_t *bytes, Err *err)
{
    const int64_t narrow = LT_MIN((int64_t)LENGTH_UNIT, p->block);
    const int64_t shape[][2] = {
        {p->samples, p->block}, {1, p->block}, {p->samples, narrow}, {1, narrow}};
    const bool labels =
        p->m->c.head != HEAD_NONE && p->m->c.head != HEAD_PRETRAIN && p->m->c.head != HEAD_MLM;
    OpPlan plan = {0};
    Status st = ERR_NONE;
    p->cx.plan = &plan;
    for (size_t i = 0; i < LT_COUNT(shape) && st == ERR_NONE; i++) {
        const ModelBatch b = shaped(p, shape[i][0], shape[i][1]);
        const void *rows, *seqs;
        st = run_model(p, &b, PREDICT_MEAN, &rows, &seqs, err);
        if (st == ERR_NONE && labels) st = run_model(p, &b, PREDICT_LOGITS, &rows, &seqs, err);
    }
    p->cx.plan = NULL;
    *bytes = plan.scratch_bytes;
    return st;
}

static Status measure(Predictor *p, size_t *arena_bytes, Err *err)
{
    Arena counting, host;
    arena_init_counting(&counting, "prediction");
    arena_init_counting(&host, "prediction on the host");
    TRY(carve(p, &counting, &host, err));
    const Status st = measure_scratch(p, &p->cx.scratch_bytes, err);
    model_free(&p->model);
    *arena_bytes = counting.used;
    p->mem_bytes = counting.used + p->cx.scratch_bytes;
    p->host_bytes = host.used;
    return st;
}

Status predictor_open(Predictor *p, const Loaded *m, Backend *backend, int64_t samples,
                      int64_t block, Err *err)
{
    *p = (Predictor){.m = m, .samples = samples, .block = LT_MIN(block, m->c.n_positions)};
    p->cx = (OpCtx){.ops = &backend->ops, .device = &backend->device};
    size_t bytes;
    TRY(measure(p, &bytes, err));
    TRY(device_alloc(p->cx.device, p->mem_bytes, &p->mem, err));
    p->host_mem = mem_map(p->host_bytes);
    Status st = p->host_mem ? ERR_NONE : mem_err(err, p->host_bytes, "batches");
    if (st == ERR_NONE) {
        Arena real, host;
        arena_init(&real, "prediction", p->mem, bytes);
        arena_init(&host, "prediction on the host", p->host_mem, p->host_bytes);
        p->cx.scratch = (char *)p->mem + bytes;
        st = carve(p, &real, &host, err);
    }
    if (st != ERR_NONE) predictor_close(p);
    return st;
}

void predictor_close(Predictor *p)
{
    if (p->mem) device_free(p->cx.device, p->mem, p->mem_bytes);
    mem_unmap(p->host_mem, p->host_bytes);
    model_free(&p->model);
    mem_free(p->out);
    mem_free(p->at);
    mem_free(p->order);
    *p = (Predictor){0};
}

// ---------------------------------------------------------------- a batch

typedef struct Length { // for sorting; in an order that is the same everywhere
    int64_t n, sample;
} Length;

static int by_length(const void *a, const void *b)
{
    const Length *x = a, *y = b;
    if (x->n != y->n) return x->n < y->n ? -1 : 1;
    return x->sample < y->sample ? -1 : x->sample > y->sample;
}

static int32_t *behind(int32_t *array, int64_t n)
{
    return array ? array + n : NULL;
}

// Samples order[0 .. B) into a batch of rows as long as the longest needs.
static Status put_samples(Predictor *p, const Examples *e, const int64_t *order, int64_t B,
                          ModelBatch *out, Err *err)
{
    const ExampleRow *r = &p->rows;
    int64_t T = 1, P = 0;
    for (int64_t i = 0; i < B; i++) {
        T = LT_MAX(T, e->sample[order[i]].n);
        P = LT_MAX(P, e->sample[order[i]].picks);
    }
    T = LT_MIN(LT_ROUND_UP(T, LENGTH_UNIT), p->block);
    const bool picks = has_picks(p) && e->o.task == EXAMPLE_TAG;
    for (int64_t i = 0; i < B; i++) {
        const ExampleRow to = {.input = r->input + i * T,
                               .type = r->type + i * T,
                               .position = r->position + i * T,
                               .seg_lo = r->seg_lo + i * T,
                               .seg_hi = r->seg_hi + i * T,
                               .pick_row = behind(r->pick_row, i * P),
                               .pick_target = behind(r->pick_target, i * P),
                               .seq_row = r->seq_row + i,
                               .seq_target = r->seq_target + i,
                               .span_target = r->span_target + 2 * i};
        examples_put(e, order[i], T, P, &to);
        r->seq_row[i] = 0;
        p->sample[i] = 0;
    }
    const ModelBatch host = {.B = B,
                             .T = T,
                             .input = r->input,
                             .position = r->position,
                             .seg_lo = r->seg_lo,
                             .sample = p->sample,
                             .type = r->type,
                             .seg_hi = r->seg_hi,
                             .picks = picks ? P : 0,
                             .pick_row = picks ? r->pick_row : NULL,
                             .seqs = 1,
                             .seq_row = r->seq_row};
    TRY(batch_put(&p->batch, p->cx.device, &host, err));
    *out = batch_part(&p->batch, 0, B);
    return ERR_NONE;
}

static Status fetch(Predictor *p, const void *from, int64_t n, Err *err)
{
    ASSERT(from && (size_t)n <= raw_numbers(p), "%lld numbers", (long long)n);
    return device_download(p->cx.device, p->raw, from, (size_t)n * dtype_bytes(p->m->prec.act),
                           err);
}

// Numbers [from, from + n) of what was fetched.
static void take(const Predictor *p, int64_t from, int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i++) to[i] = dtype_load(p->raw, p->m->prec.act, from + i);
}

static void take_mean(const Predictor *p, int64_t row, int32_t n, float *to)
{
    const int64_t C = p->m->c.n_embd;
    for (int64_t c = 0; c < C; c++) {
        double sum = 0;
        for (int64_t t = 0; t < n; t++)
            sum += (double)dtype_load(p->raw, p->m->prec.act, (row + t) * C + c);
        to[c] = (float)(sum / n);
    }
}

static Status run_batch(Predictor *p, const Judge *j, const int64_t *order, int64_t B,
                        int64_t first, PredictWhat what, Err *err)
{
    const Examples *e = j->e;
    ModelBatch b;
    const void *rows, *seqs;
    TRY(put_samples(p, e, order, B, &b, err));
    TRY(run_model(p, &b, what, &rows, &seqs, err));
    const bool of_seq = what == PREDICT_LOGITS && p->m->c.head == HEAD_CLASSIFY;
    const int64_t each = what != PREDICT_LOGITS    ? p->m->c.n_embd // numbers of a row
                         : p->m->c.head == HEAD_QA ? 2
                                                   : p->m->c.n_labels;
    const bool of_pick = what == PREDICT_LOGITS && has_picks(p);
    const int64_t n = of_seq ? B : of_pick ? b.picks : B * b.T;
    TRY(fetch(p, of_seq ? seqs : rows, n * each, err));
    for (int64_t i = 0; i < B; i++) {
        const int64_t at = order[i] - first;
        float *to = p->out + p->at[at];
        const int64_t row = of_seq ? i : n / B * i;
        if (what == PREDICT_MEAN)
            take_mean(p, row, e->sample[order[i]].n, to);
        else
            take(p, row * each, p->at[at + 1] - p->at[at], to);
    }
    return ERR_NONE;
}

// Room for the results of n samples, and where each begins.
static Status make_room(Predictor *p, const Judge *j, int64_t first, int64_t n, PredictWhat what,
                        Err *err)
{
    if (n + 1 > p->cap_at) {
        const size_t bytes = (size_t)(n + 1) * sizeof *p->at;
        int64_t *at = mem_realloc(p->at, bytes);
        if (at) p->at = at;
        int64_t *order = at ? mem_realloc(p->order, bytes) : NULL;
        if (!order) return mem_err(err, bytes, "predictions");
        p->order = order;
        p->cap_at = n + 1;
    }
    int64_t total = 0;
    for (int64_t i = 0; i < n; i++) {
        p->at[i] = total;
        total += what == PREDICT_LOGITS ? judge_logits(j, first + i) : p->m->c.n_embd;
    }
    p->at[n] = total;
    if (total <= p->cap_out) return ERR_NONE;
    float *out = mem_realloc(p->out, (size_t)total * sizeof *out);
    if (!out) return mem_err(err, (size_t)total * sizeof *out, "predictions");
    p->out = out;
    p->cap_out = total;
    return ERR_NONE;
}

static Status order_samples(Predictor *p, const Examples *e, int64_t first, int64_t n, Err *err)
{
    Length *l = mem_alloc((size_t)n * sizeof *l);
    if (!l) return mem_err(err, (size_t)n * sizeof *l, "predictions");
    for (int64_t i = 0; i < n; i++) l[i] = (Length){e->sample[first + i].n, first + i};
    qsort(l, (size_t)n, sizeof *l, by_length);
    for (int64_t i = 0; i < n; i++) p->order[i] = l[i].sample;
    mem_free(l);
    return ERR_NONE;
}

Status predictor_run(Predictor *p, const Judge *j, int64_t first, int64_t n, PredictWhat what,
                     Err *err)
{
    TRY(make_room(p, j, first, n, what, err));
    TRY(order_samples(p, j->e, first, n, err));
    for (int64_t i = 0; i < n; i += p->samples)
        TRY(run_batch(p, j, p->order + i, LT_MIN(p->samples, n - i), first, what, err));
    return ERR_NONE;
}

// ---------------------------------------------------------------- scores

static Status score_all(Predictor *p, Judge *j, const OnProgress *on, Score *out, Err *err)
{
    const Examples *e = j->e;
    for (int64_t first = 0; first < e->samples; first += PREDICT_CHUNK) {
        const int64_t n = LT_MIN((int64_t)PREDICT_CHUNK, e->samples - first);
        TRY(predictor_run(p, j, first, n, PREDICT_LOGITS, err));
        for (int64_t i = 0; i < n; i++)
            TRY(score_sample(out, j, first + i, p->out + p->at[i], err));
        on_progress(on, (double)(first + n), (double)e->samples);
    }
    return ERR_NONE;
}

Status predictor_score(Predictor *p, const Examples *e, const OnProgress *on, Score *out, Err *err)
{
    Judge j;
    score_init(out, e);
    judge_open(&j, e, (int)p->m->c.n_labels);
    const Status st = score_all(p, &j, on, out, err);
    judge_close(&j);
    return st;
}
