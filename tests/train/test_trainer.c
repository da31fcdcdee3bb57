// test_trainer.c -- engine/train/trainer.h: what a step is, whatever it is cut into, and what it is
// not when a number is not finite.
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

#include "engine/base/rng.h"
#include "engine/model/backend.h"
#include "engine/train/trainer.h"

enum { S = 8, T = 20, V = 61 };

static void must(Status st, const Err *err)
{
    if (st != ERR_NONE) fail_msg("%s", err->text);
}

typedef struct Data { // a step's samples, with unequal numbers of counted targets
    int32_t input[S * T], target[S * T], position[S * T], seg_lo[S * T];
    int64_t sample[S];
    StreamBatch b;
} Data;

static void make_data(Data *d, int64_t step, bool masked)
{
    d->b = (StreamBatch){.samples = S, .input = d->input, .target = d->target, .sample = d->sample};
    for (int64_t i = 0; i < S * T; i++) {
        d->input[i] = (int32_t)rng_below(1, (uint64_t)step, (uint64_t)i, V);
        d->target[i] = (d->input[i] * 7 + 3) % V;
        if (rng_below(2, (uint64_t)step, (uint64_t)i, 10) < (uint64_t)(i / T))
            d->target[i] = TOKEN_IGNORE;
        d->position[i] = (int32_t)(i % T < 9 ? i % T : i % T - 9);
        d->seg_lo[i] = i % T < 9 ? 0 : 9;
        d->b.counted += d->target[i] != TOKEN_IGNORE;
    }
    for (int64_t s = 0; s < S; s++) d->sample[s] = step * S + s;
    if (masked) {
        d->b.position = d->position;
        d->b.seg_lo = d->seg_lo;
    }
}

static TrainSetup setup(int64_t batch_size, const char *precision, double dropout, bool masked)
{
    TrainSetup s = {.model = model_config_gpt2(2, 2, 32, T, V),
                    .block_size = T,
                    .batch_size = batch_size,
                    .samples = S,
                    .head_rows = 1000,
                    .document_mask = masked,
                    .beta1 = 0.9,
                    .beta2 = 0.95,
                    .eps = 1e-8,
                    .weight_decay = 0.1,
                    .grad_clip = 1.0,
                    .seed = 5};
    s.model.dropout_embed = s.model.dropout_attention = s.model.dropout_residual = dropout;
    Err err;
    must(precision_from_name(&s.prec, precision, "f32", &err), &err);
    must(schedule_init(&s.schedule, "constant", 1e-3, 0, 0, 10, 0, &err), &err);
    return s;
}

static void open_trainer(Trainer *t, Backend *b, const TrainSetup *s)
{
    Err err;
    must(backend_open(b, "cpu", "auto", 2, &err), &err);
    must(trainer_open(t, s, &b->ops, &b->device, &err), &err);
    must(trainer_init_weights(t, &err), &err);
}

static void losses(const TrainSetup *s, int steps, double *out, bool masked)
{
    Trainer t;
    Backend b;
    Err err;
    open_trainer(&t, &b, s);
    for (int i = 0; i < steps; i++) {
        Data d;
        TrainStep r;
        make_data(&d, i, masked);
        must(trainer_step(&t, &d.b, &r, &err), &err);
        assert_false(r.skipped);
        out[i] = r.loss;
    }
    trainer_close(&t);
}

static void a_step_is_the_same_however_it_is_cut(void **state)
{
    (void)state;
    static const struct {
        const char *precision;
        double dropout, tolerance;
        bool masked;
    } cases[] = {{"fp32", 0, 2e-6, false},
                 {"fp32", 0.3, 2e-6, false},
                 {"fp32", 0.3, 2e-6, true},
                 {"bf16", 0, 2e-2, false}};
    for (size_t c = 0; c < LT_COUNT(cases); c++) {
        double whole[6], cut[6];
        for (int64_t size = 8; size >= 1; size /= 2) {
            const TrainSetup s = setup(size, cases[c].precision, cases[c].dropout, cases[c].masked);
            losses(&s, 6, size == 8 ? whole : cut, cases[c].masked);
            for (int i = 0; i < 6 && size < 8; i++)
                if (!(fabs(whole[i] - cut[i]) <= cases[c].tolerance * whole[i]))
                    fail_msg("case %zu, micro-batch %d, step %d: %.9f against %.9f", c, (int)size,
                             i, cut[i], whole[i]);
        }
    }
}

static void dropout_and_masks_change_the_loss(void **state)
{
    (void)state;
    double plain[2], dropped[2], masked[2];
    const TrainSetup a = setup(8, "fp32", 0, false), b = setup(8, "fp32", 0.3, false);
    const TrainSetup c = setup(8, "fp32", 0, true);
    losses(&a, 2, plain, false);
    losses(&b, 2, dropped, false);
    losses(&c, 2, masked, true);
    assert_true(plain[1] != dropped[1] && plain[1] != masked[1]);
}

static void recomputing_changes_no_loss(void **state)
{
    (void)state;
    double kept[4], again[4];
    TrainSetup s = setup(4, "fp32", 0.2, false);
    losses(&s, 4, kept, false);
    s.recompute = true;
    losses(&s, 4, again, false);
    assert_memory_equal(kept, again, sizeof kept);
}

static void a_step_that_is_not_finite_changes_nothing(void **state)
{
    (void)state;
    Trainer t;
    Backend b;
    Err err;
    const TrainSetup s = setup(8, "fp32", 0, false);
    open_trainer(&t, &b, &s);
    Data d;
    TrainStep r;
    make_data(&d, 0, false);
    must(trainer_step(&t, &d.b, &r, &err), &err);
    const Param *p = NULL;
    for (int i = 0; i < t.params.n; i++)
        if (strcmp(t.params.param[i].name, "block.1.mlp.fc.bias") == 0) p = &t.params.param[i];
    assert_non_null(p);
    t.opt.w[p->offset] = NAN;
    const size_t bytes = (size_t)t.params.total * sizeof(float);
    float *w = malloc(bytes), *m = malloc(bytes);
    assert_true(w && m);
    memcpy(w, t.opt.w, bytes);
    memcpy(m, t.opt.m, bytes);
    must(trainer_step(&t, &d.b, &r, &err), &err);
    assert_true(r.skipped && r.bad != NULL);
    assert_int_equal(t.step, 1);
    assert_int_equal(t.skipped, 1);
    assert_memory_equal(w, t.opt.w, bytes);
    assert_memory_equal(m, t.opt.m, bytes);
    t.opt.w[p->offset] = 0;
    must(trainer_step(&t, &d.b, &r, &err), &err);
    assert_false(r.skipped);
    assert_int_equal(t.step, 2);
    for (int i = 0; i < S * T; i++) d.target[i] = TOKEN_IGNORE;
    d.b.counted = 0;
    must(trainer_step(&t, &d.b, &r, &err), &err);
    assert_true(r.skipped);
    assert_int_equal(t.step, 2);
    free(w);
    free(m);
    trainer_close(&t);
}

static void plan_holds_for_shapes_no_machine_has(void **state)
{
    (void)state;
    Backend b;
    Err err;
    TrainPlan p;
    TrainSetup s = setup(8, "bf16", 0, false);
    must(backend_open(&b, "cpu", "auto", 2, &err), &err);
    s.model = model_config_gpt2(96, 96, 12288, 2048, 50257); // GPT-3 175B
    s.block_size = 2048;
    s.samples = 1024;
    must(train_plan(&p, &s, &b.ops, &b.device, &err), &err);
    assert_true(p.n_params > 174000000000 && p.n_params < 176000000000);
    assert_true(p.total_bytes > 16ull * 174000000000ull); // weights, moments, gradients at least
    assert_true(fabs(p.flops_a_token / (6.0 * (double)p.n_params) - 1) < 0.05);
    s.model = model_config_gpt2(12, 12, 768, 1024, 50257);
    s.block_size = 1024;
    s.samples = 8;
    must(train_plan(&p, &s, &b.ops, &b.device, &err), &err);
    assert_int_equal(p.n_params, 124439808);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_the_same_however_it_is_cut),
        cmocka_unit_test(dropout_and_masks_change_the_loss),
        cmocka_unit_test(recomputing_changes_no_loss),
        cmocka_unit_test(a_step_that_is_not_finite_changes_nothing),
        cmocka_unit_test(plan_holds_for_shapes_no_machine_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
