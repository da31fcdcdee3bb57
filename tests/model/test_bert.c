// test_bert.c -- the encoder against values made with PyTorch and transformers in float64
// (tests/model/golden/README.md): every head's logits, loss and gradients; with the reference
// kernels and every instruction set of this machine; padded, packed and in one row.
//
// SPDX-License-Identifier: MIT
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/model/bert_run.h"

static const ModelHead heads[] = {HEAD_PRETRAIN, HEAD_MLM, HEAD_CLASSIFY, HEAD_TAG, HEAD_QA};

static BertBatch batch; // large

static int layouts_of(ModelHead head)
{
    return head == HEAD_QA ? 1 : LAYOUTS; // an answer is looked for in a sample
}

// ---- logits -----------------------------------------------------------------------------------

static double row_error(const BertRun *r, const void *logits, int64_t at, const SafeEntry *want,
                        int64_t row, int64_t n)
{
    double worst = 0;
    for (int64_t v = 0; v < n; v++) {
        const double got = (double)dtype_load(logits, r->m.prec.act, at + v);
        worst = fmax(worst, fabs(got - (double)golden_float(want, row * n + v)));
    }
    return worst;
}

// Worst distance of the head's logits from the golden ones.
static double logits_error(BertRun *r, const Golden *g, const BertBatch *d)
{
    Err err;
    const void *rows, *seqs;
    const ModelHead head = r->how.head;
    must(model_scores(&r->m, &r->cx, &d->b, &rows, &seqs, &err), &err);
    double worst = 0;
    if (rows) {
        const SafeEntry *want = golden_entry(g, head, "logits.rows");
        const int64_t V = want->shape[2];
        const int64_t step = model_config_has_mlm(&r->m.c) ? model_config_vocab_padded(&r->m.c) : V;
        for (int s = 0; s < BERT_SEQS; s++)
            for (int64_t t = 0; t < (head == HEAD_QA ? g->T : g->length[s]); t++) {
                const int64_t row = d->first[s] + t;
                const int64_t at = head == HEAD_QA ? row : d->pick_of[row];
                if (at >= 0)
                    worst = fmax(worst, row_error(r, rows, at * step, want, s * g->T + t, V));
            }
    }
    if (seqs) {
        const SafeEntry *want = golden_entry(g, head, "logits.seqs");
        const int64_t n = want->shape[1];
        for (int s = 0; s < BERT_SEQS; s++)
            worst = fmax(worst, row_error(r, seqs, d->seq[s] * n, want, s, n));
    }
    assert_true((rows != NULL) == (head != HEAD_CLASSIFY));
    assert_true((seqs != NULL) == (head == HEAD_CLASSIFY || head == HEAD_PRETRAIN));
    return worst;
}

static void logits_equal_hugging_faces(void **state)
{
    const Golden *g = *state;
    const char *isa[9];
    const int n = all_isas(isa);
    for (size_t h = 0; h < LT_COUNT(heads); h++) {
        if (!golden_has(g, heads[h])) continue;
        for (int i = getenv("LATHE_GOLDEN_BERT") ? n - 1 : 0; i < n; i++) {
            double worst = 0;
            BertRun r;
            bert_open(&r, g,
                      &(BertSetup){
                          .head = heads[h], .isa = isa[i], .precision = "fp32", .eval_only = true});
            for (int layout = 0; layout < layouts_of(heads[h]); layout++) {
                bert_batch(&batch, g, heads[h], (BertLayout)layout);
                worst = fmax(worst, logits_error(&r, g, &batch));
                const double loss = bert_loss_of(&r, &batch);
                const double want = (double)golden_float(golden_entry(g, heads[h], "loss"), 0);
                if (!(fabs(loss - want) < 1e-5))
                    fail_msg("%s %s layout %d: loss %.7f, want %.7f", isa[i], head_name(heads[h]),
                             layout, loss, want);
            }
            print_message("  %-12s %-9s logits off by %.1e\n", isa[i], head_name(heads[h]), worst);
            if (!(worst < 5e-5)) fail_msg("%s %s: %.3g", isa[i], head_name(heads[h]), worst);
            bert_close(&r);
        }
    }
}

static void embeddings_equal_hugging_faces(void **state)
{
    const Golden *g = *state;
    Err err;
    const SafeEntry *trunk = golden_entry(g, HEAD_NONE, "trunk");
    const SafeEntry *pool = golden_entry(g, HEAD_NONE, "pooled");
    for (int layout = 0; layout < LAYOUTS && golden_has(g, HEAD_MLM); layout++) {
        BertRun r;
        const void *rows, *pooled;
        double worst = 0;
        bert_open(
            &r, g,
            &(BertSetup){.head = HEAD_NONE, .isa = "auto", .precision = "fp32", .eval_only = true});
        bert_batch(&batch, g, HEAD_PRETRAIN, (BertLayout)layout);
        must(model_embed(&r.m, &r.cx, &batch.b, &rows, &pooled, &err), &err);
        for (int s = 0; s < BERT_SEQS; s++) {
            for (int64_t t = 0; t < g->length[s]; t++)
                worst = fmax(worst, row_error(&r, rows, (batch.first[s] + t) * g->C, trunk,
                                              s * g->T + t, g->C));
            worst = fmax(worst, row_error(&r, pooled, batch.seq[s] * g->C, pool, s, g->C));
        }
        if (!(worst < 2e-5)) fail_msg("layout %d: %.3g", layout, worst);
        bert_close(&r);
    }
}

// ---- gradients --------------------------------------------------------------------------------

typedef struct Distance {
    double by_max, by_norm;
} Distance;

// QA's softmax over rows cancels what is the same in all of them: its gradient is rounding.
static bool is_cancelled(const Golden *g, ModelHead head, const Param *p)
{
    char last[80];
    snprintf(last, sizeof last, "block.%d.norm2.bias", (int)g->L - 1);
    return head == HEAD_QA && (strcmp(p->name, "qa.bias") == 0 || strcmp(p->name, last) == 0);
}

// Left out: the bias of keys, which softmax cancels, too.
static Distance distance(const Golden *g, const BertRun *r, const Param *p)
{
    char name[80];
    snprintf(name, sizeof name, "grad.%s", p->name);
    const SafeEntry *e = golden_entry(g, r->how.head, name);
    const bool keys = strstr(p->name, "attn.qkv.bias") != NULL;
    double max_abs = 0, max_ref = 0, diff2 = 0, ref2 = 0;
    assert_int_equal(e->bytes, 4 * p->count);
    for (int64_t i = 0; i < p->count; i++) {
        if (keys && i >= g->C && i < 2 * g->C) continue;
        const double want = (double)golden_float(e, i);
        const double d = (double)r->grads[p->offset + i] - want;
        max_abs = fmax(max_abs, fabs(d));
        max_ref = fmax(max_ref, fabs(want));
        diff2 += d * d;
        ref2 += want * want;
    }
    return (Distance){max_abs / max_ref, sqrt(diff2 / ref2)};
}

static void check_gradients(const Golden *g, const BertSetup *how, int parts, double by_max,
                            double by_norm)
{
    double worst = 0;
    char which[PARAM_NAME_CAP] = "";
    for (int layout = 0; layout < layouts_of(how->head); layout++) {
        BertRun r;
        bert_open(&r, g, how);
        bert_batch(&batch, g, how->head, (BertLayout)layout);
        const double loss = bert_gradients_of(&r, &batch, parts);
        const double want = (double)golden_float(golden_entry(g, how->head, "loss"), 0);
        if (!(fabs(loss - want) < (by_max < 1e-3 ? 1e-5 : 3e-2)))
            fail_msg("%s %s %s layout %d: loss %.7f, want %.7f", how->isa, how->precision,
                     head_name(how->head), layout, loss, want);
        for (int i = 0; i < r.params.n; i++) {
            const Param *p = &r.params.param[i];
            if (is_cancelled(g, how->head, p)) {
                for (int64_t k = 0; k < p->count; k++)
                    assert_true(fabsf(r.grads[p->offset + k]) < 1e-2f);
                continue;
            }
            const Distance d = distance(g, &r, p);
            const double e = by_max < 1e-3 ? d.by_max : d.by_norm;
            if (e > worst) memcpy(which, p->name, sizeof which);
            worst = fmax(worst, e);
            if (!(d.by_max <= by_max) || !(d.by_norm <= by_norm))
                fail_msg("%s %s %s layout %d: gradient of %s: max %.3g, norm %.3g", how->isa,
                         how->precision, head_name(how->head), layout, p->name, d.by_max,
                         d.by_norm);
        }
        bert_close(&r);
    }
    print_message("  %-12s %s %-9s worst gradient off by %.1e (%s)\n", how->isa, how->precision,
                  head_name(how->head), worst, which);
}

static void gradients_equal_hugging_faces(void **state)
{
    const Golden *g = *state;
    const char *isa[9];
    const int n = all_isas(isa);
    for (size_t h = 0; h < LT_COUNT(heads); h++) {
        if (!golden_has(g, heads[h])) continue;
        for (int i = getenv("LATHE_GOLDEN_BERT") ? n - 1 : 0; i < n; i++) {
            check_gradients(g, &(BertSetup){.head = heads[h], .isa = isa[i], .precision = "fp32"},
                            1, 2e-5, 2e-5);
            check_gradients(g, &(BertSetup){.head = heads[h], .isa = isa[i], .precision = "bf16"},
                            1, 1.0, 4e-2);
        }
        check_gradients(g, &(BertSetup){.head = heads[h], .isa = isa[n - 1], .precision = "fp16"},
                        1, 1.0, 1e-2);
        check_gradients(g, &(BertSetup){.head = heads[h], .isa = isa[n - 1], .precision = "fp32"},
                        2, 2e-5, 2e-5);
        check_gradients(
            g,
            &(BertSetup){.head = heads[h], .isa = isa[n - 1], .precision = "fp32", .head_rows = 7},
            1, 2e-5, 2e-5);
    }
}

// ---- what must make no difference -------------------------------------------------------------

static size_t grads_bytes(const BertRun *r)
{
    return (size_t)r->params.total * sizeof(float);
}

static void recomputing_changes_no_bit(void **state)
{
    const Golden *g = *state;
    static const char *const precision[] = {"fp32", "bf16", "fp16"};
    for (size_t p = 0; p < LT_COUNT(precision); p++) {
        BertRun a, b;
        BertSetup how = {
            .head = HEAD_PRETRAIN, .isa = "auto", .precision = precision[p], .dropout = 0.1};
        bert_open(&a, g, &how);
        how.recompute = true;
        bert_open(&b, g, &how);
        assert_true(b.step_bytes < a.step_bytes);
        bert_batch(&batch, g, HEAD_PRETRAIN, LAYOUT_PADDED);
        assert_true(bert_gradients_of(&a, &batch, 1) == bert_gradients_of(&b, &batch, 1));
        assert_memory_equal(a.grads, b.grads, grads_bytes(&a));
        bert_close(&a);
        bert_close(&b);
    }
}

static void same_bits_for_any_number_of_threads(void **state)
{
    const Golden *g = *state;
    const char *isa[9];
    const int n = all_isas(isa);
    for (int i = 0; i < n && !getenv("LATHE_GOLDEN_BERT"); i++) {
        BertRun a, b;
        const BertSetup how = {
            .head = HEAD_PRETRAIN, .isa = isa[i], .precision = "bf16", .dropout = 0.1};
        bert_open(&a, g, &how);
        bert_open(&b, g, &how);
        b.device.threads = 1;
        bert_batch(&batch, g, HEAD_PRETRAIN, LAYOUT_PACKED);
        assert_true(bert_gradients_of(&a, &batch, 1) == bert_gradients_of(&b, &batch, 1));
        assert_memory_equal(a.grads, b.grads, grads_bytes(&a));
        bert_close(&a);
        bert_close(&b);
    }
}

// |a - b| / |b| over parameter p of two flat buffers.
static double difference(const float *a, const float *b, const Param *p)
{
    double diff2 = 0, ref2 = 0;
    for (int64_t i = p->offset; i < p->offset + p->count; i++) {
        const double d = (double)a[i] - (double)b[i];
        diff2 += d * d;
        ref2 += (double)b[i] * (double)b[i];
    }
    return sqrt(diff2 / fmax(ref2, 1e-12));
}

// The bias of keys has no gradient, and what cancels in QA neither.
static bool is_rounding(const Golden *g, ModelHead head, const Param *p)
{
    return strstr(p->name, "attn.qkv.bias") || is_cancelled(g, head, p);
}

// Dropout is a function of sample and place in it, the heads' too.
static void micro_batches_change_rounding_only(void **state)
{
    const Golden *g = *state;
    for (size_t h = 0; h < LT_COUNT(heads); h++) {
        if (!golden_has(g, heads[h])) continue;
        BertRun a, b;
        const BertSetup how = {
            .head = heads[h], .isa = "auto", .precision = "fp32", .dropout = 0.2};
        bert_open(&a, g, &how);
        bert_open(&b, g, &how);
        bert_batch(&batch, g, heads[h], LAYOUT_PADDED);
        const double whole = bert_gradients_of(&a, &batch, 1);
        const double parts = bert_gradients_of(&b, &batch, 2);
        if (!(fabs(whole - parts) < 1e-5)) fail_msg("%s", head_name(heads[h]));
        for (int i = 0; i < a.params.n; i++) {
            const Param *p = &a.params.param[i];
            const double d = difference(a.grads, b.grads, p);
            if (!is_rounding(g, heads[h], p) && !(d < 1e-5))
                fail_msg("%s: %s differs by %.3g", head_name(heads[h]), p->name, d);
        }
        bert_close(&a);
        bert_close(&b);
    }
}

// ---- what no golden value shows ---------------------------------------------------------------

// With dropout, the loss must change along each block's gradient as that gradient says.
static void gradients_are_slopes_with_dropout(void **state)
{
    const Golden *g = *state;
    for (size_t h = 0; h < LT_COUNT(heads) && !getenv("LATHE_GOLDEN_BERT"); h++) {
        BertRun r;
        bert_open(
            &r, g,
            &(BertSetup){.head = heads[h], .isa = "auto", .precision = "fp32", .dropout = 0.3});
        bert_batch(&batch, g, heads[h], LAYOUT_PADDED);
        (void)bert_gradients_of(&r, &batch, 1);
        float *const grad = malloc(grads_bytes(&r)), *const was = malloc(grads_bytes(&r));
        if (!grad || !was) fail_msg("no memory");
        memcpy(grad, r.grads, grads_bytes(&r));
        memcpy(was, r.w, grads_bytes(&r));
        for (int k = 0; k < r.params.n_block; k++) {
            const ParamBlock *b = &r.params.block[k];
            double norm2 = 0, loss[2];
            for (int64_t i = b->offset; i < b->offset + b->count; i++)
                norm2 += (double)grad[i] * (double)grad[i];
            const double step = 2e-3 / sqrt(norm2);
            for (int side = 0; side < 2; side++) {
                memcpy(r.w, was, grads_bytes(&r));
                for (int64_t i = b->offset; i < b->offset + b->count; i++)
                    r.w[i] += (float)(side ? step : -step) * grad[i];
                bert_cast(&r);
                loss[side] = bert_gradients_of(&r, &batch, 1);
            }
            const double slope = (loss[1] - loss[0]) / (2 * step) / norm2;
            if (!(fabs(slope - 1) < 1e-2))
                fail_msg("%s block %d: slope %.5f of 1", head_name(heads[h]), k, slope);
        }
        free(grad);
        free(was);
        bert_close(&r);
    }
}

static int best_of(const SafeEntry *e, int64_t row, int64_t n)
{
    int best = 0;
    for (int v = 1; v < n; v++)
        if (golden_float(e, row * n + v) > golden_float(e, row * n + best)) best = v;
    return best;
}

static void hits_are_targets_that_are_the_first_choice(void **state)
{
    const Golden *g = *state;
    Err err;
    BertRun r;
    const ModelHead head = HEAD_PRETRAIN;
    const SafeEntry *rows = golden_entry(g, head, "logits.rows");
    const SafeEntry *seqs = golden_entry(g, head, "logits.seqs");
    bert_open(&r, g,
              &(BertSetup){.head = head, .isa = "auto", .precision = "fp32", .head_rows = 9});
    bert_batch(&batch, g, head, LAYOUT_PACKED);
    for (int s = 0; s < BERT_SEQS; s++) // every other target is a hit
        for (int64_t t = 0; t < g->length[s]; t++) {
            const int at = batch.pick_of[batch.first[s] + t];
            if (at >= 0 && t % 2) batch.pick_target[at] = best_of(rows, s * g->T + t, g->V);
        }
    must(model_loss(&r.m, &r.cx, &batch.b, &err), &err);
    int64_t hits = 0, misses = 0;
    for (int s = 0; s < BERT_SEQS; s++) {
        for (int64_t t = 0; t < g->length[s]; t++) {
            const int at = batch.pick_of[batch.first[s] + t];
            if (at < 0) continue;
            const bool hit = best_of(rows, s * g->T + t, g->V) == batch.pick_target[at];
            assert_true(r.m.hit[at] == (hit ? 1.0f : 0.0f));
            hits += hit;
            misses += !hit;
        }
        const int64_t at = batch.seq[s];
        assert_true(r.m.hit_seq[at] == (batch.seq_target[at] == best_of(seqs, s, 2) ? 1.0f : 0.0f));
    }
    assert_true(hits > 2 && misses > 2);
    for (int64_t i = 0; i < batch.b.picks; i++)
        if (batch.pick_row[i] < 0) assert_true(r.m.hit[i] == 0 && r.m.loss[i] == 0);
    bert_close(&r);
}

// All gradients are assigned, zeros where nothing is learned.
static void a_batch_that_teaches_nothing_has_no_gradient(void **state)
{
    const Golden *g = *state;
    for (size_t h = 0; h < LT_COUNT(heads) - 1; h++) { // not QA
        if (!golden_has(g, heads[h])) continue;
        for (int no_rows = 0; no_rows < 2; no_rows++) {
            BertRun r;
            bert_open(&r, g, &(BertSetup){.head = heads[h], .isa = "auto", .precision = "fp32"});
            bert_batch(&batch, g, heads[h], LAYOUT_PADDED);
            for (int i = 0; i < BERT_ROWS; i++) {
                batch.pick_row[i] = -1;
                batch.pick_target[i] = TOKEN_IGNORE;
            }
            for (int i = 0; i < 2 * BERT_SEQS; i++) batch.seq_target[i] = TOKEN_IGNORE;
            batch.counted = batch.counted_seqs = 0;
            if (no_rows) batch.b.picks = batch.b.seqs = 0;
            (void)bert_gradients_of(&r, &batch, 1);
            for (int64_t i = 0; i < r.params.total; i++) assert_true(r.grads[i] == 0);
            bert_close(&r);
        }
    }
}

static const Param *param(const BertRun *r, const char *name)
{
    for (int i = 0; i < r->params.n; i++)
        if (strcmp(r->params.param[i].name, name) == 0) return &r->params.param[i];
    fail_msg("no parameter %s", name);
    return NULL;
}

static void an_output_matrix_of_its_own_takes_its_part_of_the_gradient(void **state)
{
    const Golden *g = *state;
    BertRun a, b;
    BertSetup how = {.head = HEAD_PRETRAIN, .isa = "auto", .precision = "fp32"};
    bert_open(&a, g, &how);
    how.untied = true;
    bert_open(&b, g, &how);
    bert_batch(&batch, g, HEAD_PRETRAIN, LAYOUT_PADDED);
    assert_true(bert_gradients_of(&a, &batch, 1) == bert_gradients_of(&b, &batch, 1));
    const float *tied = a.grads + param(&a, "embed.token.weight")->offset;
    const float *own = b.grads + param(&b, "head.weight")->offset;
    const float *tokens = b.grads + param(&b, "embed.token.weight")->offset;
    for (int64_t i = 0; i < g->V * g->C; i++)
        assert_true(fabsf(own[i] + tokens[i] - tied[i]) < 1e-5f);
    bert_close(&a);
    bert_close(&b);
}

static void parameters_are_as_many_as_berts(void **state)
{
    (void)state;
    static const struct {
        int64_t L, H, C;
        ModelHead head;
        int64_t want;
    } of[] = {{12, 12, 768, HEAD_PRETRAIN, 110106428}, // transformers' count, V = 30522
              {12, 12, 768, HEAD_MLM, 109514298},
              {24, 16, 1024, HEAD_PRETRAIN, 336226108}};
    for (size_t i = 0; i < LT_COUNT(of); i++) {
        Err err;
        ParamSet s;
        ModelConfig c = model_config_bert(of[i].L, of[i].H, of[i].C, 512, 30522);
        c.head = of[i].head;
        c.pooler = of[i].head == HEAD_PRETRAIN;
        must(model_config_check(&c, &err), &err);
        must(params_layout(&s, &c, &err), &err);
        assert_int_equal(s.n_params, of[i].want);
        params_free(&s);
    }
}

int main(void)
{
    static Golden g;
    golden_open(&g);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(logits_equal_hugging_faces, &g),
        cmocka_unit_test_prestate(embeddings_equal_hugging_faces, &g),
        cmocka_unit_test_prestate(gradients_equal_hugging_faces, &g),
        cmocka_unit_test_prestate(recomputing_changes_no_bit, &g),
        cmocka_unit_test_prestate(same_bits_for_any_number_of_threads, &g),
        cmocka_unit_test_prestate(micro_batches_change_rounding_only, &g),
        cmocka_unit_test_prestate(gradients_are_slopes_with_dropout, &g),
        cmocka_unit_test_prestate(hits_are_targets_that_are_the_first_choice, &g),
        cmocka_unit_test_prestate(a_batch_that_teaches_nothing_has_no_gradient, &g),
        cmocka_unit_test_prestate(an_output_matrix_of_its_own_takes_its_part_of_the_gradient, &g),
        cmocka_unit_test(parameters_are_as_many_as_berts),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    safe_close(&g.f);
    return failed;
}
