// test_fp8_recipe.c -- engine/model/fp8.h: training in FP8 is what the recipe says, follows bf16,
// runs where it is said to run, and takes the memory that was planned.
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

#include "engine/model/fp8_report.h"
#include "tests/model/fp8_run.h"

// ---- the recipe -------------------------------------------------------------------------------

static void ops_that_write_fp8_themselves_give_the_same_bits(void **state)
{
    (void)state;
    static const char *const isa[] = {"baseline", "avx2", "avx512", "avx512_bf16", "amx", "neon"};
    TrainSetup s = setup("fp8", C);
    s.batch_size = 4;
    int tried = 0;
    for (size_t k = 0; k < LT_COUNT(isa); k++) {
        Run a, b;
        if (!open_isa(&a, &s, isa[k], 2)) continue;
        assert_true(open_isa(&b, &s, isa[k], 2));
        b.t.fp8.apart = true;
        for (int i = 0; i < 4; i++) {
            steps(&a, i, i + 1);
            steps(&b, i, i + 1);
            assert_true(a.t.fp8.cast && !b.t.fp8.cast);
            cast_weights(&b);
            expect_same_state(&a, &b, isa[k]);
            expect_same_counts(&a, &b, isa[k]);
        }
        close_run(&a);
        close_run(&b);
        tried++;
    }
    assert_true(tried > 0);
}

static void any_number_of_threads_gives_the_same_bits(void **state)
{
    (void)state;
    Run a, b;
    const TrainSetup s = setup("fp8", C);
    open_threads(&a, &s, 1);
    open_threads(&b, &s, 2);
    steps(&a, 0, 4);
    steps(&b, 0, 4);
    expect_same_state(&a, &b, "threads");
    expect_same_counts(&a, &b, "threads");
    close_run(&a);
    close_run(&b);
}

// The loss of every step from 1; returns the mean of the last ten.
static double curve(const TrainSetup *s, int n, double *loss)
{
    Run r;
    double last = 0;
    open_run(&r, s);
    for (int i = 0; i < n; i++) {
        loss[i] = step(&r, i);
        if (i >= n - 10) last += loss[i] / 10;
    }
    close_run(&r);
    return last;
}

static void the_loss_follows_bf16(void **state)
{
    (void)state;
    enum { N = 60 };
    double loss[N];
    TrainSetup s = setup("bf16", C);
    const double want = curve(&s, N, loss);
    assert_true(want < loss[0] - 1.5); // something is learnt
    s = setup("fp8", C);
    for (int i = 0; i < 3; i++) {
        s.fp8.current = i == 1;
        s.fp8.history = i == 1 ? 0 : HISTORY;
        s.fp8.amax = i == 2 ? FP8_AMAX_MOST_RECENT : FP8_AMAX_MAX;
        s.fp8.margin = i == 2 ? 1 : 0;
        const double got = curve(&s, N, loss);
        if (!(fabs(got - want) < 0.1)) fail_msg("recipe %d: loss %.4f, bf16 %.4f", i, got, want);
    }
}

// With delayed scales all micro-batches of a step have the same ones, and the cut shows in rounding
// only; current scales are of the micro-batch. Both learn the same.
static void a_step_is_nearly_the_same_however_it_is_cut(void **state)
{
    (void)state;
    enum { N = 8 };
    for (int current = 0; current < 2; current++) {
        double whole[N], cut[N];
        TrainSetup s = setup("fp8", C);
        s.fp8.current = current;
        s.fp8.history = current ? 0 : HISTORY;
        curve(&s, N, whole);
        s.batch_size = 2;
        curve(&s, N, cut);
        for (int i = 0; i < N; i++)
            if (!(fabs(whole[i] - cut[i]) < 0.02 * whole[i]))
                fail_msg("step %d: %.5f and %.5f", i, whole[i], cut[i]);
    }
}

static void evaluation_is_bf16s_and_leaves_no_trace(void **state)
{
    (void)state;
    Run a, b, c;
    Err err;
    const TrainSetup s = setup("fp8", C), t = setup("bf16", C);
    open_run(&a, &s);
    open_run(&b, &s);
    open_run(&c, &t);
    steps(&a, 0, 2);
    steps(&b, 0, 2);
    memcpy(c.t.opt.w, a.t.opt.w, weights_bytes(&a));
    must(optimizer_refresh(&c.t.opt, &c.t.cx, &err), &err);
    Data d;
    make_data(&d, 40);
    const ModelBatch m = {.B = S, .T = T, .input = d.input, .target = d.target, .sample = d.sample};
    must(model_loss(&a.t.model, &a.t.cx, &m, &err), &err);
    must(model_loss(&c.t.model, &c.t.cx, &m, &err), &err);
    assert_memory_equal(a.t.model.loss, c.t.model.loss, S * T * sizeof(float));
    expect_same_counts(&a, &b, "after an evaluation");
    steps(&a, 2, 4);
    steps(&b, 2, 4);
    expect_same_state(&a, &b, "after an evaluation");
    close_run(&a);
    close_run(&b);
    close_run(&c);
}

// ---- what runs in FP8, and what it takes ------------------------------------------------------

static int products; // that were planned

static size_t count_product(const MatmulFp8Args *a, const OpCtx *cx)
{
    (void)a;
    (void)cx;
    products++;
    return 0;
}

static Status never(const MatmulFp8Args *a, OpCtx *cx, Err *err)
{
    (void)a;
    (void)cx;
    return err_set(err, ERR_UNSUPPORTED, "only counts");
}

static int products_planned(Run *r)
{
    OpPlan plan = {0};
    r->t.cx.plan = &plan;
    products = 0;
    gradients(r, 0, S, 1, true);
    r->t.cx.plan = NULL;
    return products;
}

static void a_layer_has_twelve_fp8_products(void **state)
{
    (void)state;
    for (int64_t bf16 = 0; bf16 <= 2; bf16++) {
        Run r;
        TrainSetup s = setup("fp8", C);
        s.fp8.bf16_first = bf16;
        s.recompute = bf16 == 1;
        open_run(&r, &s);
        ops_add_matmul_fp8(
            &r.b.ops, (Impl_matmul_fp8){.impl = "counts", .scratch = count_product, .run = never});
        const int want = (int)(LAYERS - bf16) * (s.recompute ? 15 : 12); // the second forward has 3
        for (int started = 0; started < 2; started++) {
            r.t.fp8.started = started;
            assert_int_equal(products_planned(&r), want);
        }
        close_run(&r);
    }
}

static int casts; // that were planned

static size_t count_cast(const Fp8QuantizeArgs *a, const OpCtx *cx)
{
    (void)cx;
    casts += a->out.qt && !a->dbias && a->src_dtype == DTYPE_BF16 && a->R >= C && a->C >= C;
    return 0;
}

static Status never_cast(const Fp8QuantizeArgs *a, OpCtx *cx, Err *err)
{
    (void)a;
    (void)cx;
    return err_set(err, ERR_UNSUPPORTED, "only counts");
}

// Once there is a scale, no step casts weights.
static void updates_save_the_cast_of_weights(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) { // by updates, apart, current scaling
        Run r;
        TrainSetup s = setup("fp8", C);
        s.fp8.current = way == 2;
        s.fp8.history = way == 2 ? 0 : HISTORY;
        open_run(&r, &s);
        r.t.fp8.apart = way == 1;
        steps(&r, 0, 2);
        ops_add_fp8_quantize(
            &r.b.ops,
            (Impl_fp8_quantize){.impl = "counts", .scratch = count_cast, .run = never_cast});
        OpPlan plan = {0};
        r.t.cx.plan = &plan;
        casts = 0;
        must(fp8_cast_weights(&r.t.fp8, &r.t.cx, &r.t.model.weights, &(Err){0}), &(Err){0});
        r.t.cx.plan = NULL;
        assert_int_equal(casts, way == 0 ? 0 : LAYERS * LINEAR_COUNT);
        close_run(&r);
    }
}

static void layers_that_do_not_fit_run_in_bf16_and_are_named(void **state)
{
    (void)state;
    Run a, b;
    Err err;
    Buf text = {0};
    TrainSetup s = setup("fp8", 24), t = setup("bf16", 24);
    open_run(&a, &s);
    open_run(&b, &t);
    steps(&a, 0, 2);
    steps(&b, 0, 2);
    assert_memory_equal(a.t.opt.w, b.t.opt.w, weights_bytes(&a));
    close_run(&a);
    close_run(&b);
    must(fp8_text(&s.fp8, &s.model, &text, &err), &err);
    assert_non_null(strstr(text.data, "no layer: n_embd = 24"));
    s = setup("fp8", C);
    s.fp8.bf16_first = 1;
    buf_clear(&text);
    must(fp8_text(&s.fp8, &s.model, &text, &err), &err);
    assert_non_null(strstr(text.data, "layers 1-2: qkv, proj, fc, mlp"));
    assert_non_null(strstr(text.data, "layer 0 in bf16: fp8.bf16_first = 1"));
    buf_free(&text);
}

static size_t part_bytes(const Arena *a, const char *name)
{
    for (int i = 0; i < a->n_part; i++)
        if (strcmp(a->parts[i].name, name) == 0) return a->parts[i].bytes;
    return 0;
}

static void saved_inputs_take_less_memory_than_in_bf16(void **state)
{
    (void)state;
    Backend b;
    Err err;
    TrainPlan plan[2];
    must(backend_open(&b, "cpu", "auto", 2, &err), &err);
    for (int fp8 = 0; fp8 < 2; fp8++) {
        TrainSetup s = setup(fp8 ? "fp8" : "bf16", C);
        s.model = model_config_gpt2(12, 12, 768, 1024, 50257);
        s.block_size = 1024;
        must(train_plan(&plan[fp8], &s, &b.ops, &b.device, &err), &err);
    }
    // Of every row and layer: 4C + 2F bytes of ln1, ln2 and fcg in bf16, 3C + F in FP8.
    const size_t saved = (size_t)S * 1024 * 12 * 5 * 768;
    assert_int_equal(
        part_bytes(&plan[0].step, "activations") - part_bytes(&plan[1].step, "activations"), saved);
    assert_int_equal(part_bytes(&plan[1].run, "FP8 weights"), 2 * 12 * 12 * 768 * 768);
    assert_true(plan[1].total_bytes < plan[0].total_bytes);
    assert_true(fabs(plan[1].flops_a_step / plan[0].flops_a_step - 1) < 0.02);
    backend_close(&b);
}

static void the_report_has_what_happened(void **state)
{
    (void)state;
    Run r;
    Err err;
    Buf text = {0};
    Fp8Report f;
    TrainSetup s = setup("fp8", C);
    s.fp8.bf16_first = 2;
    s.fp8.margin = -3; // eight times too large a scale: much is clamped
    open_run(&r, &s);
    steps(&r, 0, 3);
    const int64_t slot = fp8_slot(2, LINEAR_QKV, FP8_X);
    must(fp8_report_take(&f, &r.t.fp8, r.t.device, &err), &err);
    assert_true(f.amax[0] == -1 && f.count[0].saturated == 0);
    assert_true(f.amax[slot] == r.t.fp8.history[slot * HISTORY + 2]);
    assert_true(f.count[slot].saturated > 0 && f.count[slot].nonfinite == 0);
    assert_int_equal(r.t.fp8.count[slot].saturated, 0);
    must(fp8_report_json(&f, &r.t.fp8, &text, &err), &err);
    assert_non_null(
        strstr(text.data, "\"layers\":[2],\"tensors\":[\"qkv.x\",\"qkv.w\",\"qkv.dy\""));
    must(fp8_report_table(&f, &r.t.fp8, &text, &err), &err);
    buf_free(&text);
    fp8_report_close(&f);
    close_run(&r);
}

int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_that_write_fp8_themselves_give_the_same_bits),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(the_loss_follows_bf16),
        cmocka_unit_test(a_step_is_nearly_the_same_however_it_is_cut),
        cmocka_unit_test(evaluation_is_bf16s_and_leaves_no_trace),
        cmocka_unit_test(a_layer_has_twelve_fp8_products),
        cmocka_unit_test(updates_save_the_cast_of_weights),
        cmocka_unit_test(layers_that_do_not_fit_run_in_bf16_and_are_named),
        cmocka_unit_test(saved_inputs_take_less_memory_than_in_bf16),
        cmocka_unit_test(the_report_has_what_happened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
