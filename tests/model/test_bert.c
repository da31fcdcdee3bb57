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
    const char *which = "";
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
            which = e > worst ? p->name : which;
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

int main(void)
{
    static Golden g;
    golden_open(&g);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(logits_equal_hugging_faces, &g),
        cmocka_unit_test_prestate(embeddings_equal_hugging_faces, &g),
        cmocka_unit_test_prestate(gradients_equal_hugging_faces, &g),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    safe_close(&g.f);
    return failed;
}
