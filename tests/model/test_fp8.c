// test_fp8.c -- engine/model/fp8.h: the ways in which delayed scaling is known to go wrong.
//
// What stands against each has a test that fails when it is taken away:
//
//   (a) an infinity enters amax and freezes the scale        an_infinite_element_...
//   (b) a maximum drops NaN, and nobody hears of it          nan_is_counted_...
//   (c) the first step has no scale: its gradients are 0     the_first_step_has_...
//   (d) a micro-batch overwrites the amax before it          micro_batches_raise_...
//   (e) recompute counts twice, or has other scales          recomputing_...
//   (f) scales or inverses are not saved as they are         saved_state_..., damaged_state_...
//   (g) rows that are no tokens enter amax or products       rows_that_are_not_there_...
//   (h) what did not run, or was skipped, rolls              what_does_not_run_..., a_skipped_...
//   (i) slots are numbered by what runs, not by the model    slots_are_a_function_...
//   (j) a weight's amax is lost with a skipped step, or      weights_roll_once_...,
//       is of other weights than the step's                  new_weights_are_...
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

#include "engine/model/fp8_saved.h"
#include "tests/model/fp8_run.h"

// A tensor of 2 x 16 with these three elements through one slot, and the update behind it.
static void through_slot(Run *r, int64_t slot, float a, float b, float c)
{
    Err err;
    float x[32] = {a, b, c};
    uint8_t q[32];
    Fp8QuantizeArgs args = {
        .out = fp8_out(&r->t.fp8, slot, true), .src = x, .R = 2, .C = 16, .ld = 16};
    args.out.q = q;
    args.out.ld_q = 16;
    must(op_fp8_quantize(&r->t.cx, &args, &err), &err);
    const int32_t no = 0;
    must(fp8_end_step(&r->t.fp8, &r->t.cx, &no, &err), &err);
}

static void an_infinite_element_freezes_no_scale(void **state)
{
    (void)state;
    Run r;
    const TrainSetup s = setup("fp8", C);
    open_run(&r, &s);
    const int64_t slot = fp8_slot(1, LINEAR_FC, FP8_X);
    const Fp8State *f = &r.t.fp8;
    through_slot(&r, slot, 7, INFINITY, -3);
    assert_true(f->scale[slot].scale == 448.0f / 7);
    assert_int_equal(f->count[slot].nonfinite, 1);
    through_slot(&r, slot, -INFINITY, INFINITY, 14);
    assert_true(f->scale[slot].scale == 448.0f / 14);
    for (int i = 0; i < HISTORY; i++) through_slot(&r, slot, 2, 1, 0); // the window has gone by
    assert_true(f->scale[slot].scale == 448.0f / 2);
    for (int i = 0; i < HISTORY; i++) assert_true(f->history[slot * HISTORY + i] == 2);
    close_run(&r);
}

static void nan_is_counted_and_hides_nothing(void **state)
{
    (void)state;
    Run r;
    const TrainSetup s = setup("fp8", C);
    open_run(&r, &s);
    const int64_t slot = fp8_slot(0, LINEAR_MLP, FP8_DY);
    through_slot(&r, slot, NAN, 5, NAN);
    assert_int_equal(r.t.fp8.count[slot].nonfinite, 2);
    assert_true(r.t.fp8.scale[slot].scale == 57344.0f / 5);
    through_slot(&r, slot, 5, NAN, 1);
    assert_int_equal(r.t.fp8.count[slot].nonfinite, 3);
    assert_true(r.t.fp8.history[slot * HISTORY + 1] == 5);
    close_run(&r);
}

// A step that is skipped is told of (counts), and otherwise as if it had never been.
static void a_skipped_step_rolls_nothing(void **state)
{
    (void)state;
    Run a, b;
    const TrainSetup s = setup("fp8", C);
    open_run(&a, &s);
    open_run(&b, &s);
    for (int64_t bad = 0; bad < 3; bad += 2) { // the first step, and one that has a history
        steps(&a, bad, bad + 1);
        const Param *p = param(&b, "block.1.mlp.fc.bias");
        const float was = b.t.opt.w[p->offset];
        uint16_t *copy = (uint16_t *)optimizer_weights(&b.t.opt) + p->offset;
        const uint16_t copy_was = *copy;
        b.t.opt.w[p->offset] = NAN;
        *copy = bf16_from_f32(NAN);
        step(&b, 17);
        b.t.opt.w[p->offset] = was;
        *copy = copy_was;
        assert_int_equal(b.t.skipped, 1 + bad / 2);
        assert_true(b.t.fp8.count[fp8_slot(1, LINEAR_MLP, FP8_X)].nonfinite > 0);
        steps(&b, bad, bad + 1);
        expect_same_state(&a, &b, bad ? "a later step" : "the first step");
        steps(&a, bad + 1, bad + 2);
        steps(&b, bad + 1, bad + 2);
        expect_same_state(&a, &b, "the step after it");
    }
    close_run(&a);
    close_run(&b);
}

// A weight's amax, of the bf16 copy.
static float largest_weight(const Run *r, const char *name)
{
    const Param *p = param(r, name);
    const uint16_t *w = (const uint16_t *)optimizer_weights(&r->t.opt) + p->offset;
    float most = 0;
    for (int64_t i = 0; i < p->count; i++) most = fmaxf(most, fabsf(bf16_to_f32(w[i])));
    return most;
}

// Each step's history of a weight gets the amax of the weights that the step computed with, whether
// an update or a pass made their FP8 copies, and however many steps were skipped in between.
static void weights_roll_once_a_step_that_counts(void **state)
{
    (void)state;
    const int64_t slot = fp8_slot(1, LINEAR_PROJ, FP8_W);
    for (int apart = 0; apart < 2; apart++) {
        Run r;
        const TrainSetup s = setup("fp8", C);
        open_run(&r, &s);
        Fp8State *f = &r.t.fp8;
        f->apart = apart;
        const Param *p = param(&r, "block.1.mlp.fc.bias");
        uint16_t *copy = (uint16_t *)optimizer_weights(&r.t.opt) + p->offset;
        for (int i = 0; i < 3; i++) {
            const float used = largest_weight(&r, "block.1.attn.proj.weight");
            const uint16_t was = *copy;
            for (int k = 0; k < i; k++) { // skipped ones
                *copy = bf16_from_f32(NAN);
                step(&r, 50 + k);
                *copy = was;
                assert_true(f->amax[slot] == used && f->amax[slot - 1] == -1);
                assert_int_equal(f->at[slot], i);
            }
            step(&r, i);
            assert_int_equal(f->at[slot], i + 1);
            assert_true(f->history[slot * HISTORY + i] == used && f->last_amax[slot] == used);
            assert_true(f->cast == !apart);
            const float next = largest_weight(&r, "block.1.attn.proj.weight");
            assert_true(f->amax[slot] == (apart ? -1 : next));
        }
        assert_int_equal(r.t.skipped, 3);
        close_run(&r);
    }
}

// Weights that are read or made anew have no FP8 copies until the next step.
static void new_weights_are_cast_again(void **state)
{
    (void)state;
    Run r[2];
    Err err;
    const TrainSetup s = setup("fp8", C);
    for (int k = 0; k < 2; k++) {
        open_run(&r[k], &s);
        steps(&r[k], 0, 2);
        const Param *p = param(&r[k], "block.1.attn.proj.weight");
        for (int64_t i = 0; i < p->count; i++) r[k].t.opt.w[p->offset + i] *= 0.5f;
        must(optimizer_refresh(&r[k].t.opt, &r[k].t.cx, &err), &err);
        assert_true(!r[k].t.fp8.cast);
        const Fp8Weight w = fp8_weight(&r[k].t.fp8, 1, LINEAR_PROJ);
        if (k) memset(w.q, 0x7f, (size_t)(C * C)); // NaN
        if (k) memset(w.qt, 0x7f, (size_t)(C * C));
        steps(&r[k], 2, 3);
        assert_int_equal(r[k].t.skipped, 0);
    }
    expect_same_state(&r[0], &r[1], "new weights");
    close_run(&r[0]);
    close_run(&r[1]);
}

// How far the weight gradients of the linear layers are from bf16's, in the worst of them.
static double gradient_error(const Run *fp8, const Run *bf16)
{
    double worst = 0;
    for (int i = 0; i < fp8->t.params.n; i++) {
        const Param *p = &fp8->t.params.param[i];
        double diff = 0, norm = 0;
        if (p->block < 1 || p->block > LAYERS || p->rank != 2) continue;
        for (int64_t k = p->offset; k < p->offset + p->count; k++) {
            const double g = (double)bf16->t.grads[k], e = (double)fp8->t.grads[k] - g;
            diff += e * e;
            norm += g * g;
        }
        worst = fmax(worst, sqrt(diff / norm));
    }
    return worst;
}

static void the_first_step_has_gradients_however_small_they_are(void **state)
{
    (void)state;
    Run a, b;
    const TrainSetup s = setup("fp8", C), t = setup("bf16", C);
    open_run(&a, &s);
    open_run(&b, &t);
    for (float scale = 1; scale > 1e-9f; scale /= 1000) {
        gradients(&a, 0, S, scale, true);
        gradients(&b, 0, S, scale, true);
        const double error = gradient_error(&a, &b);
        if (!(error < 0.12)) fail_msg("loss times %g: gradients off by %.3f", (double)scale, error);
    }
    close_run(&a);
    close_run(&b);
}

static void micro_batches_raise_amax_and_never_lower_it(void **state)
{
    (void)state;
    Run r;
    const TrainSetup s = setup("fp8", C);
    open_run(&r, &s);
    steps(&r, 0, 2);
    Fp8State *f = &r.t.fp8;
    float want[SLOTS], alone[S][SLOTS];
    for (int i = 0; i < SLOTS; i++) want[i] = -1;
    for (int m = 0; m < S; m++) {
        for (int i = 0; i < SLOTS; i++) f->amax[i] = -1;
        gradients(&r, m, 1, 0.01f, true);
        for (int i = 0; i < SLOTS; i++) want[i] = fmaxf(want[i], alone[m][i] = f->amax[i]);
    }
    int not_last = 0; // slots whose largest is in another micro-batch than the last
    for (int i = 0; i < SLOTS; i++) not_last += want[i] > alone[S - 1][i];
    assert_true(not_last > SLOTS / 4);
    for (int i = 0; i < SLOTS; i++) f->amax[i] = -1;
    for (int m = 0; m < S; m++) gradients(&r, m, 1, 0.01f, m == 0);
    assert_memory_equal(f->amax, want, sizeof want);
    close_run(&r);
}

// Compute twice, count once, with the scales of the first time.
static void recomputing_changes_no_bit_and_counts_once(void **state)
{
    (void)state;
    for (int current = 0; current < 2; current++) {
        Run a, b;
        TrainSetup s = setup("fp8", C);
        s.batch_size = 4;
        s.model.dropout_embed = s.model.dropout_attention = s.model.dropout_residual = 0.1;
        s.fp8 = (Fp8Recipe){.current = current, .history = current ? 0 : HISTORY, .bf16_last = 1};
        open_run(&a, &s);
        s.recompute = true;
        open_run(&b, &s);
        for (int i = 0; i < 3; i++) {
            steps(&a, i, i + 1);
            steps(&b, i, i + 1);
            expect_same_state(&a, &b, "recompute");
            expect_same_counts(&a, &b, "recompute");
        }
        close_run(&a);
        close_run(&b);
    }
}

static void saved_state_goes_on_as_if_never_saved(void **state)
{
    (void)state;
    Run a;
    Err err;
    Fp8Saved saved;
    const TrainSetup s = setup("fp8", C);
    open_run(&a, &s);
    for (int64_t done = 2; done <= 8; done += 6) { // less than the history, and more
        Run b;
        steps(&a, a.t.step, done);
        must(fp8_saved_open(&saved, &a.t.fp8, &err), &err);
        must(fp8_saved_take(&saved, &a.t.fp8, a.t.device, &err), &err);
        open_run(&b, &s);
        memcpy(b.t.opt.w, a.t.opt.w, weights_bytes(&a));
        memcpy(b.t.opt.m, a.t.opt.m, weights_bytes(&a));
        memcpy(b.t.opt.v, a.t.opt.v, weights_bytes(&a));
        must(optimizer_refresh(&b.t.opt, &b.t.cx, &err), &err);
        must(fp8_saved_put(&saved, &b.t.fp8, b.t.device, "here", &err), &err);
        b.t.fp8.started = true;
        must(trainer_set_state(&b.t, done, 0, (LossScale){.scale = 1}, &err), &err);
        assert_true(a.t.fp8.cast && !b.t.fp8.cast);
        cast_weights(&b);
        expect_same_state(&a, &b, "restored");
        steps(&a, done, done + 2);
        steps(&b, done, done + 2);
        expect_same_state(&a, &b, "two steps later");
        close_run(&b);
        fp8_saved_close(&saved);
    }
    close_run(&a);
}

static void damaged_state_is_refused(void **state)
{
    (void)state;
    Run a;
    Err err;
    Fp8Saved v;
    const TrainSetup s = setup("fp8", C);
    open_run(&a, &s);
    must(fp8_saved_open(&v, &a.t.fp8, &err), &err);
    const struct {
        float scale, inv, history;
        int32_t at;
    } bad[] = {{0, 1, 1, 0},  {INFINITY, 1, 1, 0}, {1, NAN, 1, 0},
               {1, -1, 1, 0}, {1, 1, NAN, 0},      {1, 1, -1, 0},
               {1, 1, 1, -1}, {1, 1, 1, HISTORY},  {1, 1, INFINITY, 0}};
    for (size_t i = 0; i < LT_COUNT(bad); i++) {
        must(fp8_saved_take(&v, &a.t.fp8, a.t.device, &err), &err);
        v.scale[5].scale = bad[i].scale;
        v.scale[5].inv = bad[i].inv;
        v.history[5 * HISTORY + 2] = bad[i].history;
        v.at[5] = bad[i].at;
        assert_int_equal(fp8_saved_put(&v, &a.t.fp8, a.t.device, "here", &err), ERR_FORMAT);
        assert_non_null(strstr(err.text, "slot 5"));
    }
    fp8_saved_close(&v);
    close_run(&a);
}

// What lies in buffers behind the rows of a micro-batch is never seen: 20 rows, transposes of 32.
static void rows_that_are_not_there_change_nothing(void **state)
{
    (void)state;
    Run a, b;
    const TrainSetup s = setup("fp8", C);
    open_run(&a, &s);
    open_run(&b, &s);
    for (int later = 0; later < 2; later++) {
        memset(b.t.step_mem, 0x7f, b.t.plan.step.used); // NaN in E4M3, E5M2; 1e38 in bf16
        gradients(&a, 3, 1, 0.05f, true);
        gradients(&b, 3, 1, 0.05f, true);
        assert_memory_equal(a.t.grads, b.t.grads, weights_bytes(&a));
        assert_memory_equal(a.t.fp8.amax, b.t.fp8.amax, SLOTS * sizeof(float));
        expect_same_counts(&a, &b, "dirty buffers");
        const uint8_t *xt = b.t.model.layer[1].xt[LINEAR_FC];
        for (int c = 0; c < C; c++)
            for (int n = T; n < fp8_ld(T); n++)
                if (xt[c * fp8_ld(T) + n] != 0) fail_msg("row %d, element %d is not 0", c, n);
        steps(&a, 0, 2);
        steps(&b, 0, 2);
    }
    close_run(&a);
    close_run(&b);
}

// Samples without counted targets do not touch the scales of gradients.
static void ignored_samples_scale_no_gradient(void **state)
{
    (void)state;
    Run r;
    Err err;
    const TrainSetup s = setup("fp8", C);
    open_run(&r, &s);
    steps(&r, 0, 1);
    static Data d;
    make_data(&d, 0);
    for (int i = T; i < S * T; i++) d.target[i] = TOKEN_IGNORE;
    float amax[2][SLOTS];
    for (int k = 0; k < 2; k++) {
        const ModelBatch m = {
            .B = k ? S : 1, .T = T, .input = d.input, .target = d.target, .sample = d.sample};
        for (int i = 0; i < SLOTS; i++) r.t.fp8.amax[i] = -1;
        const ModelLossScale scale = {.row = 0.05f};
        must(model_gradients(&r.t.model, &r.t.cx, &m, scale, true, &err), &err);
        memcpy(amax[k], r.t.fp8.amax, sizeof amax[k]);
    }
    for (int i = FP8_DY; i < SLOTS; i += FP8_KINDS) assert_true(amax[0][i] == amax[1][i]);
    close_run(&r);
}

static void what_does_not_run_does_not_roll(void **state)
{
    (void)state;
    Run r;
    TrainSetup s = setup("fp8", C);
    s.fp8.bf16_first = s.fp8.bf16_last = 1;
    open_run(&r, &s);
    steps(&r, 0, 3);
    const Fp8State *f = &r.t.fp8;
    for (int i = 0; i < SLOTS; i++) {
        const bool runs = i / FP8_SLOTS_A_LAYER == 1;
        assert_int_equal(f->at[i], runs ? 3 : 0);
        assert_true((f->amax[i] == -1) == !(runs && i % FP8_KINDS == FP8_W)); // weights: the next
        for (int k = 0; k < HISTORY; k++)
            assert_true((f->history[i * HISTORY + k] > 0) == (runs && k < 3));
        assert_true(runs == (f->scale[i].scale != 1));
        assert_true(runs == (f->last_amax[i] >= 0));
    }
    close_run(&r);
}

static void slots_are_a_function_of_the_model_alone(void **state)
{
    (void)state;
    int64_t at = 0;
    for (int64_t l = 0; l < LAYERS; l++)
        for (int i = 0; i < LINEAR_COUNT; i++)
            for (int k = 0; k < FP8_KINDS; k++)
                assert_int_equal(fp8_slot(l, (LinearId)i, (Fp8Kind)k), at++);
    const Fp8Recipe recipes[] = {{.history = 4},
                                 {.current = true},
                                 {.history = 9, .bf16_first = 1, .amax = FP8_AMAX_MOST_RECENT},
                                 {.history = 4, .bf16_first = 2, .bf16_last = 2}};
    for (size_t i = 0; i < LT_COUNT(recipes); i++) {
        Arena arena;
        Fp8State f;
        const ModelConfig c = model_config_gpt2(LAYERS, 2, C, T, V);
        arena_init_counting(&arena, "run");
        fp8_build(&f, &recipes[i], &c, &arena);
        assert_int_equal(f.n, SLOTS);
        assert_ptr_equal(fp8_out(&f, 17, true).amax, f.amax + 17);
        assert_ptr_equal(fp8_out(&f, 17, true).scale, f.scale + 17);
        assert_int_equal(fp8_out(&f, 17, true).dtype, DTYPE_E5M2);
        assert_int_equal(fp8_out(&f, 16, true).dtype, DTYPE_E4M3);
        assert_null(fp8_out(&f, 17, false).amax);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_infinite_element_freezes_no_scale),
        cmocka_unit_test(nan_is_counted_and_hides_nothing),
        cmocka_unit_test(a_skipped_step_rolls_nothing),
        cmocka_unit_test(weights_roll_once_a_step_that_counts),
        cmocka_unit_test(new_weights_are_cast_again),
        cmocka_unit_test(the_first_step_has_gradients_however_small_they_are),
        cmocka_unit_test(micro_batches_raise_amax_and_never_lower_it),
        cmocka_unit_test(recomputing_changes_no_bit_and_counts_once),
        cmocka_unit_test(saved_state_goes_on_as_if_never_saved),
        cmocka_unit_test(damaged_state_is_refused),
        cmocka_unit_test(rows_that_are_not_there_change_nothing),
        cmocka_unit_test(ignored_samples_scale_no_gradient),
        cmocka_unit_test(what_does_not_run_does_not_roll),
        cmocka_unit_test(slots_are_a_function_of_the_model_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
