// test_trainer.c -- engine/train/trainer.h: what a step is, whatever it is cut into, and what it is
// not when a number is not finite.
//
// SPDX-License-Identifier: MIT
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/rng.h"
#include "tests/train/trainer_fixture.h"
#include "kernels/ref/ref.h"

enum { S = 8, T = 20, V = 61 };

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
    const ModelConfig c = model_config_gpt2(2, 2, 32, T, V);
    TrainSetup s = trainer_fixture_setup(&c, precision, dropout, 65536);
    s.block_size = T;
    s.batch_size = batch_size;
    s.samples = S;
    s.head_rows = 1000;
    s.document_mask = masked;
    return s;
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
                 {"bf16", 0, 2e-2, false},
                 {"fp16", 0, 3e-3, false}};
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

// ---- steps that are skipped -------------------------------------------------------------------

// Sums squares as the reference does, but call number `at` finds a NaN in element `element`.
// The one state of this file: an op has no other way to know which call it is.
static struct {
    int64_t calls, at, element;
} spoiler;

static Status spoil(const SumSquaresArgs *a, OpCtx *cx, Err *err)
{
    if (spoiler.calls++ == spoiler.at) ((float *)a->x)[spoiler.element] = NAN;
    return sum_squares_ref(a, cx, err);
}

static void spoil_step(Backend *b, int64_t at, int64_t element)
{
    spoiler.calls = 0;
    spoiler.at = at;
    spoiler.element = element;
    ops_add_sum_squares(&b->ops, (Impl_sum_squares){.impl = "spoil", .run = spoil});
}

typedef struct State { // all that training changes
    size_t bytes, copy_bytes;
    char *w, *m, *v, *copy;
} State;

static char *twin(const void *p, size_t bytes)
{
    char *t = malloc(bytes + 1);
    assert_non_null(t);
    memcpy(t, p, bytes);
    return t;
}

static State state_of(const Trainer *t)
{
    const size_t n = (size_t)t->params.total;
    State s = {.bytes = n * sizeof(float), .copy_bytes = n * dtype_bytes(t->setup.prec.param)};
    s.w = twin(t->opt.w, s.bytes);
    s.m = twin(t->opt.m, s.bytes);
    s.v = twin(t->opt.v, s.bytes);
    s.copy = twin(optimizer_weights(&t->opt), s.copy_bytes);
    return s;
}

static void state_free(State s)
{
    free(s.w);
    free(s.m);
    free(s.v);
    free(s.copy);
}

// Frees both.
static void assert_same_state(State a, State b)
{
    assert_memory_equal(a.w, b.w, a.bytes);
    assert_memory_equal(a.m, b.m, a.bytes);
    assert_memory_equal(a.v, b.v, a.bytes);
    assert_memory_equal(a.copy, b.copy, a.copy_bytes);
    state_free(a);
    state_free(b);
}

static void step_on(Trainer *t, int64_t batch, TrainStep *r)
{
    Data d;
    Err err;
    make_data(&d, batch, false);
    must(trainer_step(t, &d.b, r, &err), &err);
}

static const char *const policies[] = {"fp32", "bf16", "fp16"};

static void a_nan_in_one_gradient_leaves_the_weights_alone(void **state)
{
    (void)state;
    for (size_t p = 0; p < LT_COUNT(policies); p++) {
        Trainer t;
        Backend b;
        TrainStep r;
        const TrainSetup s = setup(4, policies[p], 0.1, false);
        open_trainer(&t, &b, &s);
        const Param *last = &t.params.param[t.params.n - 1];
        spoil_step(&b, 1, last->offset + last->count - 1);
        step_on(&t, 0, &r);
        assert_false(r.skipped);
        const State before = state_of(&t);
        step_on(&t, 1, &r);
        assert_true(r.skipped && isfinite(r.loss) && isnan(r.grad_norm));
        assert_string_equal(r.bad, last->name);
        assert_same_state(before, state_of(&t));
        assert_int_equal(t.step, 1);
        assert_int_equal(t.skipped, 1);
        trainer_close(&t);
    }
}

// Batches 0 1 2 3 4, where the update of 2 is lost, against 0 1 3 4.
static void a_skipped_step_is_a_step_that_never_was(void **state)
{
    (void)state;
    for (size_t p = 0; p < LT_COUNT(policies); p++) {
        Trainer all, some;
        Backend b1, b2;
        TrainStep r;
        Err err;
        TrainSetup s = setup(4, policies[p], 0.1, false);
        must(schedule_init(&s.schedule, "linear", 1e-3, 0, 1, 10, 0, &err), &err);
        open_trainer(&all, &b1, &s);
        open_trainer(&some, &b2, &s);
        spoil_step(&b1, 2, 7);
        for (int64_t i = 0; i < 5; i++) {
            step_on(&all, i, &r);
            assert_int_equal(r.skipped, i == 2);
            assert_int_equal(r.overflow, i == 2 && s.loss_scale > 0);
            if (i == 2) { // the loss scale has halved
                if (s.loss_scale > 0) assert_true(all.scale.scale == 32768);
                must(trainer_set_state(&some, some.step, 0, all.scale, &err), &err);
                continue;
            }
            const double loss = r.loss, lr = r.lr;
            step_on(&some, i, &r);
            assert_true(r.loss == loss && r.lr == lr);
        }
        assert_int_equal(all.step, 4);
        assert_same_state(state_of(&all), state_of(&some));
        trainer_close(&all);
        trainer_close(&some);
    }
}

static void two_steps_in_flight_are_two_steps(void **state)
{
    (void)state;
    for (size_t p = 0; p < LT_COUNT(policies); p++) {
        Trainer one, two;
        Backend b1, b2;
        TrainStep r, q;
        Data d;
        Err err;
        TrainSetup s = setup(4, policies[p], 0.1, false);
        must(schedule_init(&s.schedule, "cosine", 1e-3, 0, 2, 10, 0, &err), &err);
        open_trainer(&one, &b1, &s);
        open_trainer(&two, &b2, &s);
        enum { STEPS = 7 };
        TrainStep want[STEPS];
        for (int64_t i = 0; i < STEPS; i++) {
            if (i == 0) spoil_step(&b1, 3, 5);
            make_data(&d, i, false);
            if (i == 5) d.b.counted = 0; // nothing in it counts
            must(trainer_step(&one, &d.b, &want[i], &err), &err);
        }
        spoil_step(&b2, 3, 5);
        for (int64_t i = 0; i <= STEPS; i++) {
            make_data(&d, i, false);
            if (i == 5) d.b.counted = 0;
            if (i < STEPS) must(trainer_begin(&two, &d.b, &err), &err);
            if (i == 0) continue;
            must(trainer_end(&two, &r, &err), &err);
            q = want[i - 1];
            assert_int_equal(r.skipped, i - 1 == 3 || i - 1 == 5);
            assert_true(r.skipped == q.skipped && r.counted == q.counted && !r.bad == !q.bad);
            if (r.bad) assert_string_equal(r.bad, q.bad);
            assert_memory_equal(&r.loss, &q.loss, sizeof r.loss);
            assert_memory_equal(&r.grad_norm, &q.grad_norm, sizeof r.grad_norm);
            assert_true(r.lr == q.lr && r.loss_scale == q.loss_scale);
        }
        assert_int_equal(trainer_in_flight(&two), 0);
        assert_int_equal(two.step, STEPS - 2);
        assert_int_equal(two.skipped, 2);
        assert_same_state(state_of(&one), state_of(&two));
        trainer_close(&one);
        trainer_close(&two);
    }
}

// ---- the loss scale ---------------------------------------------------------------------------

static void a_loss_scale_from_far_too_high_comes_down(void **state)
{
    (void)state;
    Trainer t, u;
    Backend b1, b2;
    TrainStep r;
    Err err;
    TrainSetup s = setup(4, "fp16", 0, false);
    s.loss_scale = 0x1p40f;
    open_trainer(&t, &b1, &s);
    int64_t i = 0;
    for (double scale = 0x1p40;; scale /= 2, i++) {
        const State before = state_of(&t);
        step_on(&t, i, &r);
        assert_true(r.loss_scale == scale);
        if (!r.skipped) {
            assert_memory_not_equal(before.w, t.opt.w, before.bytes);
            state_free(before);
            break;
        }
        assert_true(r.overflow && isfinite(r.loss) && r.bad);
        assert_same_state(before, state_of(&t));
    }
    assert_in_range(i, 10, 30);
    assert_int_equal(t.step, 1);
    // A run that begins there, with the batch that was not lost.
    s.loss_scale = (float)r.loss_scale;
    open_trainer(&u, &b2, &s);
    step_on(&u, i, &r);
    assert_false(r.skipped);
    must(trainer_set_state(&u, u.step, 0, t.scale, &err), &err);
    for (int64_t k = 1; k < 4; k++) {
        step_on(&t, i + k, &r);
        step_on(&u, i + k, &r);
    }
    assert_same_state(state_of(&t), state_of(&u));
    trainer_close(&t);
    trainer_close(&u);
}

static void a_loss_scale_grows_after_good_steps(void **state)
{
    (void)state;
    Trainer t;
    Backend b;
    TrainStep r;
    TrainSetup s = setup(8, "fp16", 0, false);
    s.loss_scale = 256;
    s.rule.interval = 2;
    s.rule.growth = 4;
    open_trainer(&t, &b, &s);
    spoil_step(&b, 3, 0); // begins a window anew
    static const double want[] = {256, 256, 1024, 1024, 512, 512, 2048};
    for (int64_t i = 0; i < (int64_t)LT_COUNT(want); i++) {
        step_on(&t, i, &r);
        assert_true(r.loss_scale == want[i]);
    }
    trainer_close(&t);
}

// Where f16 has enough range, the scale is not seen: it is a power of two.
static void a_loss_scale_changes_no_gradient_of_f32(void **state)
{
    (void)state;
    double plain[4], scaled[4];
    TrainSetup s = setup(4, "fp32", 0.1, false);
    losses(&s, 4, plain, false);
    s.loss_scale = 1024;
    s.rule = (LossScaleRule){.growth = 2, .backoff = 0.5f, .interval = 2, .hysteresis = 1};
    losses(&s, 4, scaled, false);
    assert_memory_equal(plain, scaled, sizeof plain);
}

// ---- a recorded step --------------------------------------------------------------------------

// A device with graphs, made of the CPU: each op of `taped` calls the real one, or writes the call
// down while something is recorded.
typedef union OpArgs {
#define OP(name, Args, summary) Args name;
#include "kernels/ops.def"
#undef OP
} OpArgs;

typedef struct Call {
    OpId op; // OP_COUNT: memory is cleared
    OpArgs args;
    void *clear;
    size_t bytes;
} Call;

static struct {
    Ops *real;
    bool recording;
    int records, replays, n;
    Call call[2000];
} tape;

static Status call_real(OpCtx *cx, OpId op, const OpArgs *a, Err *err)
{
    OpCtx real = *cx;
    real.ops = tape.real;
    switch (op) {
#define OP(name, Args, summary)                                                                    \
    case OP_##name:                                                                                \
        return op_##name(&real, &a->name, err);
#include "kernels/ops.def"
#undef OP
    case OP_COUNT: break;
    }
    return ERR_UNSUPPORTED;
}

static void write_down(Call c)
{
    assert_in_range(tape.n, 0, LT_COUNT(tape.call) - 1);
    tape.call[tape.n++] = c;
}

#define OP(name, Args, summary)                                                                    \
    static size_t taped_##name##_scratch(const Args *a, const OpCtx *cx)                           \
    {                                                                                              \
        OpPlan plan = {0};                                                                         \
        OpCtx real = {.ops = tape.real, .device = cx->device, .plan = &plan};                      \
        return op_##name(&real, a, NULL) == ERR_NONE ? plan.scratch_bytes : 0;                     \
    }                                                                                              \
    static Status taped_##name(const Args *a, OpCtx *cx, Err *err)                                 \
    {                                                                                              \
        const OpArgs all = {.name = *a};                                                           \
        if (!tape.recording) return call_real(cx, OP_##name, &all, err);                           \
        write_down((Call){.op = OP_##name, .args = all});                                          \
        return ERR_NONE;                                                                           \
    }
#include "kernels/ops.def"
#undef OP

static OpCtx *taped_cx(Device *d)
{
    return (OpCtx *)d->state;
}

static Status tape_record(Device *d, Err *err)
{
    (void)d;
    (void)err;
    tape.recording = true;
    tape.n = 0;
    tape.records++;
    return ERR_NONE;
}

static Status tape_end(Device *d, DeviceGraph **out, Err *err)
{
    (void)d;
    (void)err;
    tape.recording = false;
    *out = (DeviceGraph *)(void *)&tape;
    return ERR_NONE;
}

static Status tape_replay(Device *d, DeviceGraph *g, Err *err)
{
    assert_ptr_equal(g, &tape);
    tape.replays++;
    for (int i = 0; i < tape.n; i++) {
        const Call *c = &tape.call[i];
        if (c->op == OP_COUNT)
            memset(c->clear, 0, c->bytes);
        else
            TRY(call_real(taped_cx(d), c->op, &c->args, err));
    }
    return ERR_NONE;
}

static Status tape_zero(Device *d, void *p, size_t bytes, Err *err)
{
    (void)d;
    (void)err;
    if (tape.recording)
        write_down((Call){.op = OP_COUNT, .clear = p, .bytes = bytes});
    else
        memset(p, 0, bytes);
    return ERR_NONE;
}

static void tape_free(Device *d, DeviceGraph *g)
{
    (void)d;
    assert_ptr_equal(g, &tape);
}

static void open_taped(Trainer *t, Backend *b, Ops *real, DeviceVtable *v, const TrainSetup *s)
{
    Err err;
    must(backend_open(b, "cpu", "auto", 2, &err), &err);
    *real = b->ops;
    memset(&tape, 0, sizeof tape);
    tape.real = real;
#define OP(name, Args, summary)                                                                    \
    ops_add_##name(                                                                                \
        &b->ops,                                                                                   \
        (Impl_##name){.impl = "taped", .scratch = taped_##name##_scratch, .run = taped_##name});
#include "kernels/ops.def"
#undef OP
    *v = *b->device.v;
    v->zero = tape_zero;
    v->record = tape_record;
    v->record_end = tape_end;
    v->replay = tape_replay;
    v->graph_free = tape_free;
    b->device.v = v;
    b->device.state = (DeviceState *)(void *)&t->cx;
    must(trainer_open(t, s, &b->ops, &b->device, &err), &err);
    must(trainer_init_weights(t, &err), &err);
}

static void a_recorded_step_is_the_step(void **state)
{
    (void)state;
    static Ops real;
    Trainer plain, taped;
    Backend b1, b2;
    DeviceVtable v;
    TrainStep want, r;
    Data d;
    Err err;
    TrainSetup s = setup(4, "fp16", 0.1, false);
    s.loss_scale = 0x1p24f; // overflows at first
    int before = 0;
    s.rule.interval = 3;
    must(schedule_init(&s.schedule, "cosine", 1e-3, 0, 2, 20, 0, &err), &err);
    open_trainer(&plain, &b1, &s);
    s.graph = true;
    open_taped(&taped, &b2, &real, &v, &s);
    for (int64_t i = 0; i < 16; i++) {
        make_data(&d, i < 12 ? 3 : i, false); // the same number of counted targets, then others
        d.b.sample = d.sample;
        for (int64_t k = 0; k < S; k++) d.sample[k] = i * S + k;
        must(trainer_step(&plain, &d.b, &want, &err), &err);
        must(trainer_step(&taped, &d.b, &r, &err), &err);
        before += r.skipped && plain.step == 0;
        assert_true(r.skipped == want.skipped && r.loss_scale == want.loss_scale);
        assert_memory_equal(&r.loss, &want.loss, sizeof r.loss);
        assert_memory_equal(&r.grad_norm, &want.grad_norm, sizeof r.grad_norm);
    }
    assert_true(plain.skipped > 0 && plain.step > 8);
    assert_int_equal(tape.replays, 15 - before); // all but those up to the first that counted
    assert_in_range(tape.records, 2, 5);
    assert_same_state(state_of(&plain), state_of(&taped));
    trainer_close(&plain);
    trainer_close(&taped);
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
        cmocka_unit_test(a_nan_in_one_gradient_leaves_the_weights_alone),
        cmocka_unit_test(a_skipped_step_is_a_step_that_never_was),
        cmocka_unit_test(two_steps_in_flight_are_two_steps),
        cmocka_unit_test(a_loss_scale_from_far_too_high_comes_down),
        cmocka_unit_test(a_loss_scale_grows_after_good_steps),
        cmocka_unit_test(a_loss_scale_changes_no_gradient_of_f32),
        cmocka_unit_test(a_recorded_step_is_the_step),
        cmocka_unit_test(plan_holds_for_shapes_no_machine_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
