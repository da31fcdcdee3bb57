// bert_run.c -- see bert_run.h.
//
// SPDX-License-Identifier: MIT
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/model/bert_run.h"

void must(Status st, const Err *err)
{
    if (st != ERR_NONE) fail_msg("%s", err->text);
}

// ---- the golden file --------------------------------------------------------------------------

const char *head_name(ModelHead head)
{
    static const char *const names[] = {
        [HEAD_PRETRAIN] = "pretrain", [HEAD_MLM] = "mlm", [HEAD_CLASSIFY] = "classify",
        [HEAD_TAG] = "tag",           [HEAD_QA] = "qa",
    };
    return names[head];
}

static const SafeEntry *find(const Golden *g, ModelHead head, const char *name)
{
    char full[160];
    const bool any = head == HEAD_NONE;
    snprintf(full, sizeof full, "%s%s%s", any ? "" : head_name(head), any ? "" : ".", name);
    return safe_find(&g->f, full);
}

const SafeEntry *golden_entry(const Golden *g, ModelHead head, const char *name)
{
    const SafeEntry *e = find(g, head, name);
    if (!e) fail_msg("golden file has no %s of %s", name, head == HEAD_NONE ? "" : head_name(head));
    return e;
}

float golden_float(const SafeEntry *e, int64_t i)
{
    float v;
    memcpy(&v, e->data + 4 * i, 4);
    return v;
}

static int32_t golden_int(const SafeEntry *e, int64_t i)
{
    int32_t v;
    memcpy(&v, e->data + 4 * i, 4);
    return v;
}

bool golden_has(const Golden *g, ModelHead head)
{
    return find(g, head, "loss") != NULL;
}

void golden_open(Golden *g)
{
    Err err;
    char path[PATH_CAP];
    const char *src = getenv("LATHE_SOURCE_DIR");
    const char *over = getenv("LATHE_GOLDEN_BERT"); // made by scripts/golden_bert.py
    if (over)
        snprintf(path, sizeof path, "%s/bert.safetensors", over);
    else
        snprintf(path, sizeof path, "%s/tests/model/golden/bert.safetensors", src ? src : ".");
    must(safe_open(&g->f, path, &err), &err);
    const SafeEntry *c = golden_entry(g, HEAD_NONE, "config");
    int64_t *const to[] = {&g->L, &g->H, &g->C, &g->F, &g->P, &g->V, &g->labels};
    for (size_t i = 0; i < LT_COUNT(to); i++) *to[i] = golden_int(c, (int64_t)i);
    g->T = golden_entry(g, HEAD_NONE, "input_ids")->shape[1];
    const SafeEntry *length = golden_entry(g, HEAD_NONE, "lengths");
    for (int s = 0; s < BERT_SEQS; s++) g->length[s] = golden_int(length, s);
}

// ---- batches ----------------------------------------------------------------------------------

// Sequence s at row `at` of sample `sample`.
static void put_sequence(BertBatch *d, const Golden *g, int s, int64_t sample, int64_t at)
{
    const SafeEntry *ids = golden_entry(g, HEAD_NONE, "input_ids");
    const SafeEntry *types = golden_entry(g, HEAD_NONE, "types");
    d->first[s] = sample * d->b.T + at;
    for (int64_t t = 0; t < g->length[s]; t++) {
        const int64_t row = d->first[s] + t;
        d->input[row] = golden_int(ids, s * g->T + t);
        d->type[row] = golden_int(types, s * g->T + t);
        d->position[row] = (int32_t)t;
        d->lo[row] = (int32_t)at;
        d->hi[row] = (int32_t)(at + g->length[s]);
    }
}

// Padding of a question is looked at, and looks: its softmax has all T rows.
static void put_padding(BertBatch *d, const Golden *g, ModelHead head)
{
    const SafeEntry *ids = golden_entry(g, HEAD_NONE, "input_ids");
    const SafeEntry *types = golden_entry(g, HEAD_NONE, "types");
    for (int s = 0; s < BERT_SEQS && head == HEAD_QA; s++)
        for (int64_t t = g->length[s]; t < g->T; t++) {
            const int64_t row = s * g->T + t;
            d->input[row] = golden_int(ids, row);
            d->type[row] = golden_int(types, row);
            d->position[row] = (int32_t)t;
            d->hi[row] = g->length[s];
        }
}

static void put_picks(BertBatch *d, const Golden *g, ModelHead head)
{
    const SafeEntry *target = golden_entry(g, head, "row_target");
    const int64_t P = d->b.picks / d->b.B;
    int64_t used[BERT_SEQS] = {0}; // of each sample
    for (int64_t i = 0; i < d->b.picks; i++) d->pick_row[i] = -1;
    for (int s = 0; s < BERT_SEQS; s++)
        for (int64_t t = 0; t < g->length[s]; t++) {
            const int32_t want = golden_int(target, s * g->T + t);
            if (want == TOKEN_IGNORE) continue;
            const int64_t row = d->first[s] + t, sample = row / d->b.T;
            const int64_t at = sample * P + used[sample]++;
            if (used[sample] > P) fail_msg("%d picks are too few", (int)P);
            d->pick_row[at] = (int32_t)row;
            d->pick_target[at] = want;
            d->pick_of[row] = (int32_t)at;
            d->counted++;
        }
}

static void put_seqs(BertBatch *d, const Golden *g, ModelHead head)
{
    const SafeEntry *target = golden_entry(g, head, "seq_target");
    const int64_t Q = d->b.seqs / d->b.B;
    int64_t used[BERT_SEQS] = {0};
    for (int s = 0; s < BERT_SEQS; s++) {
        const int64_t sample = d->first[s] / d->b.T, at = sample * Q + used[sample]++;
        d->seq[s] = at;
        d->seq_row[at] = (int32_t)d->first[s];
        d->seq_target[at] = golden_int(target, s);
        d->counted_seqs += d->seq_target[at] != TOKEN_IGNORE;
    }
}

void bert_batch(BertBatch *d, const Golden *g, ModelHead head, BertLayout layout)
{
    static const struct {
        int64_t B, sample[BERT_SEQS];
    } how[] = {{3, {0, 1, 2}}, {2, {0, 1, 0}}, {1, {0, 0, 0}}};
    *d = (BertBatch){0};
    const int64_t all = g->length[0] + g->length[1] + g->length[2], B = how[layout].B;
    const int64_t T = layout == LAYOUT_PADDED   ? g->T
                      : layout == LAYOUT_PACKED ? g->length[0] + g->length[2] + 3
                                                : all;
    d->b = (ModelBatch){.B = B, .T = T, .picks = B * T, .seqs = B * (B == 3 ? 1 : 3)};
    if (B * T > BERT_ROWS || d->b.picks > BERT_ROWS) fail_msg("the batch is too large");
    int64_t end[BERT_SEQS] = {0};
    for (int s = 0; s < BERT_SEQS; s++) {
        put_sequence(d, g, s, how[layout].sample[s], end[how[layout].sample[s]]);
        end[how[layout].sample[s]] += g->length[s];
        d->sample[s] = s;
    }
    put_padding(d, g, head);
    for (int i = 0; i < BERT_ROWS; i++) d->pick_target[i] = d->pick_of[i] = TOKEN_IGNORE;
    for (int i = 0; i < 2 * BERT_SEQS; i++) {
        d->seq_row[i] = -1;
        d->seq_target[i] = TOKEN_IGNORE;
    }
    if (find(g, head, "row_target")) put_picks(d, g, head);
    if (find(g, head, "seq_target")) put_seqs(d, g, head);
    if (head == HEAD_QA) {
        const SafeEntry *span = golden_entry(g, head, "span_target");
        for (int i = 0; i < 2 * BERT_SEQS; i++) d->span[i] = golden_int(span, i);
        d->counted = 2 * BERT_SEQS;
    }
    d->b.input = d->input;
    d->b.position = d->position;
    d->b.type = d->type;
    d->b.seg_lo = d->lo;
    d->b.seg_hi = d->hi;
    d->b.sample = d->sample;
    d->b.pick_row = d->pick_row;
    d->b.pick_target = d->pick_target;
    d->b.seq_row = d->seq_row;
    d->b.seq_target = d->seq_target;
    d->b.span_target = d->span;
}

// ---- the model --------------------------------------------------------------------------------

static ModelConfig config_of(const Golden *g, const BertSetup *how)
{
    ModelConfig c = model_config_bert(g->L, g->H, g->C, g->P, g->V);
    c.n_inner = g->F;
    c.head = how->head;
    c.pooler = how->head == HEAD_PRETRAIN || how->head == HEAD_CLASSIFY || how->head == HEAD_NONE;
    c.n_labels = how->head == HEAD_CLASSIFY || how->head == HEAD_TAG ? g->labels : 0;
    c.tie_embeddings = !how->untied;
    c.dropout_embed = c.dropout_attention = c.dropout_residual = how->dropout;
    return c;
}

static void load_weights(BertRun *r, const Golden *g)
{
    for (int i = 0; i < r->params.n; i++) {
        const Param *p = &r->params.param[i];
        char name[80];
        const bool own_head = strcmp(p->name, "head.weight") == 0; // untied: starts as the tied one
        snprintf(name, sizeof name, "w.%s", own_head ? "embed.token.weight" : p->name);
        const SafeEntry *e = find(g, HEAD_NONE, name);
        if (!e || e->bytes != 4 * (uint64_t)p->count) e = golden_entry(g, r->how.head, name);
        assert_int_equal(e->bytes, 4 * p->count);
        memcpy(r->w + p->offset, e->data, e->bytes);
    }
    bert_cast(r);
}

void bert_cast(BertRun *r)
{
    for (int64_t i = 0; i < r->params.total; i++) dtype_store(r->cast, r->m.prec.param, i, r->w[i]);
}

static void build(BertRun *r, const Golden *g, const ModelConfig *c, Arena *run, Arena *step)
{
    Err err;
    Precision prec;
    must(precision_from_name(&prec, r->how.precision, "f32", &err), &err);
    const size_t n = (size_t)r->params.total;
    r->w = arena_alloc(run, n * sizeof(float));
    r->grads = arena_alloc(run, n * sizeof(float));
    r->cast = arena_alloc(run, n * sizeof(float));
    if (prec.fp8) fp8_build(&r->fp8, &r->how.fp8, c, run);
    const ModelOptions o = {.batch = 3,
                            .block = g->length[0] + g->length[1] + g->length[2],
                            .train = !r->how.eval_only,
                            .recompute = r->how.recompute,
                            .head_rows = r->how.head_rows ? r->how.head_rows : BERT_ROWS,
                            .picks = BERT_ROWS,
                            .seqs = 2 * BERT_SEQS,
                            .seed = 11,
                            .fp8 = prec.fp8 ? &r->fp8 : NULL};
    must(model_build(&r->m, c, &prec, &o, &r->params, r->cast, r->grads, step, &err), &err);
}

// Scratch of the largest call: every layout, loss and gradients.
static size_t scratch_of(BertRun *r, const Golden *g)
{
    Err err;
    OpPlan plan = {0};
    static BertBatch d;
    r->cx.plan = &plan;
    for (int layout = 0; layout < LAYOUTS; layout++) {
        if (r->how.head == HEAD_QA && layout != LAYOUT_PADDED) continue;
        bert_batch(&d, g, r->how.head, (BertLayout)layout);
        for (int started = 0; started < 2; started++) { // of FP8
            const void *rows, *seqs;
            r->fp8.started = started;
            if (r->how.head == HEAD_NONE) {
                must(model_embed(&r->m, &r->cx, &d.b, &rows, &seqs, &err), &err);
                continue;
            }
            must(model_loss(&r->m, &r->cx, &d.b, &err), &err);
            if (!r->how.head_rows)
                must(model_scores(&r->m, &r->cx, &d.b, &rows, &seqs, &err), &err);
            const ModelLossScale one = {1, 1};
            if (!r->how.eval_only)
                must(model_gradients(&r->m, &r->cx, &d.b, one, true, &err), &err);
        }
    }
    r->fp8.started = false;
    r->cx.plan = NULL;
    return plan.scratch_bytes;
}

void bert_open(BertRun *r, const Golden *g, const BertSetup *how)
{
    Err err;
    CpuChoice choice;
    *r = (BertRun){.how = *how};
    device_cpu_init(&r->device, 2);
    ops_init(&r->ops);
    if (strcmp(how->isa, "ref") != 0) must(cpu_open(&r->ops, how->isa, &choice, &err), &err);
    r->cx = (OpCtx){.ops = &r->ops, .device = &r->device};
    const ModelConfig c = config_of(g, how);
    must(model_config_check(&c, &err), &err);
    must(params_layout(&r->params, &c, &err), &err);
    Arena run, step;
    arena_init_counting(&run, "run");
    arena_init_counting(&step, "step");
    build(r, g, &c, &run, &step);
    r->cx.scratch_bytes = scratch_of(r, g);
    model_free(&r->m);
    const size_t run_bytes = LT_ROUND_UP(run.used, ARENA_ALIGN);
    r->step_bytes = LT_ROUND_UP(step.used, ARENA_ALIGN);
    r->run_mem = aligned_alloc(ARENA_ALIGN, run_bytes);
    r->step_mem = aligned_alloc(ARENA_ALIGN, r->step_bytes);
    r->cx.scratch = aligned_alloc(ARENA_ALIGN, LT_ROUND_UP(r->cx.scratch_bytes, ARENA_ALIGN) + 128);
    if (!r->run_mem || !r->step_mem || !r->cx.scratch) fail_msg("no memory");
    memset(r->run_mem, 0, run_bytes);
    memset(r->step_mem, 0x7f, r->step_bytes); // nothing may read what nothing wrote
    arena_init(&run, "run", r->run_mem, run_bytes);
    arena_init(&step, "step", r->step_mem, r->step_bytes);
    build(r, g, &c, &run, &step);
    if (r->m.prec.fp8) must(fp8_reset(&r->fp8, &r->device, &err), &err);
    for (int i = 0; i < r->params.n; i++) { // gradients are assigned; gaps are 0
        const Param *p = &r->params.param[i];
        memset(r->grads + p->offset, 0x7f, (size_t)p->count * sizeof(float));
    }
    load_weights(r, g);
}

void bert_close(BertRun *r)
{
    model_free(&r->m);
    params_free(&r->params);
    free(r->run_mem);
    free(r->step_mem);
    free(r->cx.scratch);
    *r = (BertRun){0};
}

// ---- losses -----------------------------------------------------------------------------------

typedef struct Sums {
    double row, seq;
} Sums;

static void add_losses(const BertRun *r, const ModelBatch *b, Sums *s)
{
    const int64_t rows = r->how.head == HEAD_QA ? 2 * b->B : b->picks;
    for (int64_t i = 0; r->m.loss && i < rows; i++) s->row += (double)r->m.loss[i];
    for (int64_t i = 0; r->m.loss_seq && i < b->seqs; i++) s->seq += (double)r->m.loss_seq[i];
}

static double mean(const BertBatch *d, Sums s)
{
    return (d->counted ? s.row / (double)d->counted : 0) +
           (d->counted_seqs ? s.seq / (double)d->counted_seqs : 0);
}

double bert_loss_of(BertRun *r, const BertBatch *d)
{
    Err err;
    Sums s = {0};
    must(model_loss(&r->m, &r->cx, &d->b, &err), &err);
    add_losses(r, &d->b, &s);
    return mean(d, s);
}

// Sample i of the batch alone.
static ModelBatch one_sample(const BertBatch *d, int64_t i, int32_t *picks, int32_t *seqs)
{
    ModelBatch b = d->b;
    const int64_t T = b.T, P = b.picks / b.B, Q = b.seqs / b.B;
    for (int64_t k = 0; k < P; k++) {
        const int32_t row = d->pick_row[i * P + k];
        picks[k] = row < 0 ? -1 : (int32_t)(row - i * T);
    }
    for (int64_t k = 0; k < Q; k++) {
        const int32_t row = d->seq_row[i * Q + k];
        seqs[k] = row < 0 ? -1 : (int32_t)(row - i * T);
    }
    b.B = 1;
    b.picks = P;
    b.seqs = Q;
    b.input += i * T;
    b.position += i * T;
    b.type += i * T;
    b.seg_lo += i * T;
    b.seg_hi += i * T;
    b.sample += i;
    b.pick_row = picks;
    b.pick_target += i * P;
    b.seq_row = seqs;
    b.seq_target += i * Q;
    return b;
}

double bert_gradients_of(BertRun *r, const BertBatch *d, int parts)
{
    Err err;
    Sums s = {0};
    const ModelLossScale scale = {.row = d->counted ? (float)(1.0 / (double)d->counted) : 0,
                                  .seq =
                                      d->counted_seqs ? (float)(1.0 / (double)d->counted_seqs) : 0};
    if (parts == 1) {
        must(model_gradients(&r->m, &r->cx, &d->b, scale, true, &err), &err);
        add_losses(r, &d->b, &s);
        return mean(d, s);
    }
    for (int64_t i = 0; i < d->b.B; i++) {
        int32_t picks[BERT_ROWS], seqs[2 * BERT_SEQS], span[2];
        ModelBatch b = one_sample(d, i, picks, seqs);
        for (int k = 0; k < 2; k++) span[k] = d->span[k * d->b.B + i];
        b.span_target = span;
        must(model_gradients(&r->m, &r->cx, &b, scale, i == 0, &err), &err);
        add_losses(r, &b, &s);
    }
    return mean(d, s);
}

int all_isas(const char *names[9])
{
    names[0] = "ref";
    return 1 + cpu_list(names + 1);
}
