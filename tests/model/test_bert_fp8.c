// test_bert_fp8.c -- an encoder in FP8: what is fused, recomputed or scaled anew changes nothing
// but rounding.
//
// What FP8 does wrong in general is looked for in test_fp8.c; here, what is different in bert.c: a
// norm's output goes both into FP8 and on as it is, the norm in front of a layer belongs to the
// layer below, dropout is between the first norm and its reader, and dx is added to 16 bits.
//
// SPDX-License-Identifier: MIT
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/model/bert_run.h"

static BertBatch batch; // large

static const Fp8Recipe delayed = {.history = 4};

static BertSetup setup(const char *isa, double dropout)
{
    return (BertSetup){
        .head = HEAD_PRETRAIN, .isa = isa, .precision = "fp8", .dropout = dropout, .fp8 = delayed};
}

// Gradients of a step, in micro-batches, and the update of scales behind it.
static double step(BertRun *r, int parts)
{
    Err err;
    const int32_t no = 0;
    const double loss = bert_gradients_of(r, &batch, parts);
    must(fp8_end_step(&r->fp8, &r->cx, &no, &err), &err);
    r->fp8.started = true;
    return loss;
}

static void expect_same(const BertRun *a, const BertRun *b, const char *what, int i)
{
    const size_t n = (size_t)a->fp8.n;
    if (memcmp(a->grads, b->grads, (size_t)a->params.total * sizeof(float)) != 0)
        fail_msg("%s, step %d: gradients differ", what, i);
    if (memcmp(a->fp8.scale, b->fp8.scale, n * sizeof *a->fp8.scale) != 0)
        fail_msg("%s, step %d: scales differ", what, i);
    if (memcmp(a->fp8.count, b->fp8.count, n * sizeof *a->fp8.count) != 0)
        fail_msg("%s, step %d: counts differ", what, i);
}

static double worst_gradient(const BertRun *fp8, const BertRun *bf16)
{
    double worst = 0;
    for (int i = 0; i < fp8->params.n; i++) {
        const Param *p = &fp8->params.param[i];
        double diff2 = 0, norm2 = 0;
        if (p->rank != 2) continue;
        for (int64_t k = p->offset; k < p->offset + p->count; k++) {
            const double g = (double)bf16->grads[k], d = (double)fp8->grads[k] - g;
            diff2 += d * d;
            norm2 += g * g;
        }
        worst = fmax(worst, sqrt(diff2 / norm2));
    }
    return worst;
}

static void gradients_are_near_those_of_bf16(void **state)
{
    const Golden *g = *state;
    const char *isa[9];
    const int n = all_isas(isa);
    for (int i = 0; i < n; i++) {
        BertRun a, b;
        BertSetup how = setup(isa[i], 0);
        bert_open(&a, g, &how);
        how.precision = "bf16";
        bert_open(&b, g, &how);
        bert_batch(&batch, g, HEAD_PRETRAIN, LAYOUT_PADDED);
        (void)bert_gradients_of(&b, &batch, 1);
        for (int k = 0; k < 3; k++) { // current scales, then delayed ones
            (void)step(&a, 1);
            const double worst = worst_gradient(&a, &b);
            if (k != 1) print_message("  %-12s step %d: off by %.2g\n", isa[i], k, worst);
            if (!(worst < 0.2 && worst > 0)) fail_msg("%s step %d: %.3g", isa[i], k, worst);
        }
        bert_close(&a);
        bert_close(&b);
    }
}

static void recomputing_changes_no_bit_and_counts_once(void **state)
{
    const Golden *g = *state;
    for (int way = 0; way < 4; way++) {
        BertRun a, b;
        BertSetup how = setup("auto", way % 2 ? 0.1 : 0);
        if (way / 2) how.fp8.bf16_first = 1; // layers of both kinds share buffers
        bert_open(&a, g, &how);
        how.recompute = true;
        bert_open(&b, g, &how);
        bert_batch(&batch, g, HEAD_PRETRAIN, LAYOUT_PADDED);
        for (int i = 0; i < 3; i++) {
            assert_true(step(&a, 2) == step(&b, 2));
            expect_same(&a, &b, "recompute", i);
        }
        bert_close(&a);
        bert_close(&b);
    }
}

static void what_ops_write_in_fp8_is_what_a_pass_would(void **state)
{
    const Golden *g = *state;
    const char *isa[9];
    const int n = all_isas(isa);
    for (int i = 0; i < n; i++)
        for (int drop = 0; drop < 2; drop++) {
            BertRun a, b;
            const BertSetup how = setup(isa[i], drop ? 0.1 : 0);
            bert_open(&a, g, &how);
            bert_open(&b, g, &how);
            b.fp8.apart = true;
            bert_batch(&batch, g, HEAD_PRETRAIN, LAYOUT_PACKED);
            for (int k = 0; k < 3; k++) {
                (void)step(&a, 1);
                (void)step(&b, 1);
                for (int64_t s = 0; s < a.fp8.n; s++)
                    if (a.fp8.scale[s].scale != b.fp8.scale[s].scale)
                        fail_msg("%s dropout %d step %d: scale of slot %d", isa[i], drop, k,
                                 (int)s);
                const double d = worst_gradient(&a, &b); // sums of columns have their own order
                if (!(d < 1e-6)) fail_msg("%s step %d: %.3g", isa[i], k, d);
            }
            bert_close(&a);
            bert_close(&b);
        }
}

// Layers in FP8 share buffers; what an evaluation leaves in them is seen by nobody.
static void an_evaluation_changes_nothing(void **state)
{
    const Golden *g = *state;
    Err err;
    BertRun a, b;
    const BertSetup how = setup("auto", 0.1);
    bert_open(&a, g, &how);
    bert_open(&b, g, &how);
    bert_batch(&batch, g, HEAD_PRETRAIN, LAYOUT_PADDED);
    for (int i = 0; i < 3; i++) {
        must(model_loss(&a.m, &a.cx, &batch.b, &err), &err);
        (void)step(&a, 1);
        (void)step(&b, 1);
        expect_same(&a, &b, "evaluation", i);
    }
    bert_close(&a);
    bert_close(&b);
}

int main(void)
{
    static Golden g;
    golden_open(&g);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(gradients_are_near_those_of_bf16, &g),
        cmocka_unit_test_prestate(recomputing_changes_no_bit_and_counts_once, &g),
        cmocka_unit_test_prestate(what_ops_write_in_fp8_is_what_a_pass_would, &g),
        cmocka_unit_test_prestate(an_evaluation_changes_nothing, &g),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    safe_close(&g.f);
    return failed;
}
