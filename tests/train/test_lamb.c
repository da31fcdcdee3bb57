// test_lamb.c -- ten steps of the optimizer with LAMB: equal to an independent float64 computation
// (scripts/golden_lamb.py), from gradients and weights that both make by one formula.
//
// SPDX-License-Identifier: MIT
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/mem.h"
#include "engine/model/backend.h"
#include "engine/train/optimizer.h"
#include "engine/train/schedule.h"
#include "tests/train/golden_lamb.h"

enum { STEPS = 10, TENSORS = (int)LT_COUNT(golden_lamb_name) };

static void must(Status st, const Err *err)
{
    if (st != ERR_NONE) fail_msg("%s", err->text);
}

typedef struct Training {
    Backend backend;
    ParamSet params;
    Optimizer opt;
    Arena arena;
    void *memory, *scratch;
    size_t bytes;
    float *grads;
    OpCtx cx;
} Training;

// As values() of scripts/golden_lamb.py.
static float value(const char *name, uint32_t step, uint32_t i)
{
    uint32_t h = 2166136261u;
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 16777619u;
    uint32_t x = (h + 7919u * step + i) * 2654435761u;
    x = (x ^ x >> 15) * 2246822519u;
    return (float)((int)((x >> 8) % 2047u) - 1023) / 1024.0f;
}

// Gaps and padded rows hold what no step may read or change.
static void fill(const ParamSet *s, float *x, uint32_t step)
{
    for (int i = 0; i < s->n; i++) {
        const Param *p = &s->param[i];
        float scale = step == 0 ? 1 : step % 3 == 0 ? 0x1p-6f : 0.25f;
        if (strcmp(p->name, step ? "embed.position.weight" : "embed.type.weight") == 0) scale = 0;
        for (int64_t k = 0; k < p->count; k++)
            x[p->offset + k] = value(p->name, step, (uint32_t)k) * scale;
    }
}

static void build(Training *t, const Precision *p, Arena *arena)
{
    optimizer_build(&t->opt, &t->params, p, true, arena);
    t->opt.beta1 = 0.9;
    t->opt.beta2 = 0.999;
    t->opt.eps = 1e-6;
    t->opt.weight_decay = 0.01;
    t->opt.clip = 1;
    t->grads = arena_alloc(arena, (size_t)t->params.total * sizeof(float));
}

static void take(Training *t, const char *precision, const char *impl, int threads)
{
    Err err;
    Precision p;
    Arena count;
    OpPlan plan = {0};
    memset(t, 0, sizeof *t);
    const ModelConfig c = model_config_bert(1, 1, 4, 5, 7);
    must(backend_open(&t->backend, "cpu", "auto", threads, &err), &err);
    if (impl) must(ops_force(&t->backend.ops, "lamb", impl, &err), &err);
    must(precision_from_name(&p, precision, "f32", &err), &err);
    must(params_layout(&t->params, &c, &err), &err);
    arena_init_counting(&count, "test");
    t->cx = (OpCtx){.ops = &t->backend.ops, .device = &t->backend.device, .plan = &plan};
    build(t, &p, &count);
    must(optimizer_step(&t->opt, &t->cx, t->grads, &err), &err);
    t->bytes = count.used;
    t->memory = mem_map(t->bytes);
    t->scratch = mem_map(plan.scratch_bytes);
    assert_true(t->memory && t->scratch);
    t->cx.plan = NULL;
    t->cx.scratch = t->scratch;
    t->cx.scratch_bytes = plan.scratch_bytes;
    arena_init(&t->arena, "test", t->memory, t->bytes);
    build(t, &p, &t->arena);
    fill(&t->params, t->opt.w, 0);
    must(optimizer_refresh(&t->opt, &t->cx, &err), &err);
    must(optimizer_start(&t->opt, t->cx.device, 0, (LossScale){.scale = 1}, &err), &err);
}

static void give_back(Training *t)
{
    mem_unmap(t->memory, t->bytes);
    mem_unmap(t->scratch, t->cx.scratch_bytes);
    params_free(&t->params);
    backend_close(&t->backend);
}

static void ten_steps(Training *t)
{
    Err err;
    Schedule s;
    must(schedule_init(&s, "poly", 0.05, 0.005, 2, STEPS, 0, &err), &err);
    s.power = 2;
    for (int64_t i = 0; i < STEPS; i++) {
        const double lr[2] = {schedule_at(&s, i), schedule_at(&s, i + 1)};
        fill(&t->params, t->grads, (uint32_t)(i + 1));
        *t->opt.loss = 1;
        must(optimizer_rates(&t->opt, t->cx.device, i, lr, &err), &err);
        must(optimizer_step(&t->opt, &t->cx, t->grads, &err), &err);
        const double norm = t->opt.gate->norm;
        assert_true(t->opt.gate->skip == 0 && t->opt.gate->t == i + 1);
        assert_true(fabs(norm / golden_lamb_norm[i] - 1) < 1e-8);
    }
}

static const Param *param_named(const ParamSet *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->param[i].name, name) == 0) return &s->param[i];
    fail_msg("no parameter %s", name);
    return NULL;
}

static void assert_golden(const Training *t, const char *what, const float *got, const float *want)
{
    int64_t at = 0;
    assert_int_equal(t->params.n, TENSORS);
    for (int i = 0; i < TENSORS; i++) {
        const Param *p = param_named(&t->params, golden_lamb_name[i]);
        for (int64_t k = 0; k < p->count; k++, at++) {
            const double w = (double)want[at], d = fabs((double)got[p->offset + k] - w);
            if (!(d <= 4e-7 * (1 + fabs(w))))
                fail_msg("%s of %s, element %d: %.9g, not %.9g", what, p->name, (int)k,
                         (double)got[p->offset + k], w);
        }
    }
    assert_int_equal(at, LT_COUNT(golden_lamb_w));
}

static void ten_steps_equal_an_independent_implementation(void **state)
{
    (void)state;
    static const char *const impl[] = {"ref", NULL};
    for (size_t i = 0; i < LT_COUNT(impl); i++) {
        Training t;
        take(&t, "fp32", impl[i], 2);
        ten_steps(&t);
        assert_golden(&t, "w", t.opt.w, golden_lamb_w);
        assert_golden(&t, "m", t.opt.m, golden_lamb_m);
        assert_golden(&t, "v", t.opt.v, golden_lamb_v);
        give_back(&t);
    }
}

static void copies_are_rounded_weights_and_threads_change_nothing(void **state)
{
    (void)state;
    Training a;
    take(&a, "fp32", NULL, 1);
    ten_steps(&a);
    static const char *const precision[] = {"bf16", "fp16"};
    for (size_t i = 0; i < LT_COUNT(precision); i++) {
        Training b;
        take(&b, precision[i], NULL, 3);
        ten_steps(&b);
        const size_t n = (size_t)a.params.total;
        assert_memory_equal(a.opt.w, b.opt.w, n * sizeof(float));
        assert_memory_equal(a.opt.m, b.opt.m, n * sizeof(float));
        assert_memory_equal(a.opt.v, b.opt.v, n * sizeof(float));
        for (size_t k = 0; k < n; k++) {
            const uint16_t want = i ? f16_from_f32(b.opt.w[k]) : bf16_from_f32(b.opt.w[k]);
            assert_int_equal(((const uint16_t *)b.opt.copy)[k], want);
        }
        give_back(&b);
    }
    give_back(&a);
}

// Gaps and padding belong to none and are 0 before and after; q, k and v are three.
static void segments_are_the_tensors_of_the_model(void **state)
{
    (void)state;
    Training t;
    int64_t end = 0, chunk = 0, covered = 0;
    take(&t, "fp32", NULL, 1);
    assert_int_equal(t.opt.n_segment, TENSORS + 4);
    for (int64_t i = 0; i < t.opt.n_segment; i++) {
        const LambSegment *s = &t.opt.segment[i];
        assert_true(s->from >= end && s->n > 0 && s->chunk == chunk && s->chunks == 1);
        end = s->from + s->n;
        chunk += s->chunks;
        covered += s->n;
    }
    assert_true(end <= t.params.total && chunk == t.opt.n_chunk);
    assert_int_equal(covered, t.params.n_params);
    ten_steps(&t);
    const Param *token = param_named(&t.params, "embed.token.weight");
    for (int64_t k = token->count; k < 128 * 4; k++) // padded rows
        assert_true(t.opt.w[token->offset + k] == 0 && t.opt.m[token->offset + k] == 0);
    give_back(&t);
}

static void a_skipped_step_changes_nothing(void **state)
{
    (void)state;
    Training t;
    Err err;
    const double lr[2] = {0.1, 0.1};
    take(&t, "bf16", NULL, 2);
    const size_t bytes = (size_t)t.params.total * sizeof(float);
    float *w = mem_alloc(bytes);
    assert_non_null(w);
    memcpy(w, t.opt.w, bytes);
    fill(&t.params, t.grads, 1);
    t.grads[3] = NAN;
    *t.opt.loss = 1;
    must(optimizer_rates(&t.opt, t.cx.device, 0, lr, &err), &err);
    must(optimizer_step(&t.opt, &t.cx, t.grads, &err), &err);
    assert_true(t.opt.gate->skip == 1 && t.opt.gate->t == 0 && t.opt.gate->bad == 3);
    assert_memory_equal(w, t.opt.w, bytes);
    for (int64_t i = 0; i < t.params.total; i++) assert_true(t.opt.m[i] == 0 && t.opt.v[i] == 0);
    mem_free(w);
    give_back(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_steps_equal_an_independent_implementation),
        cmocka_unit_test(copies_are_rounded_weights_and_threads_change_nothing),
        cmocka_unit_test(segments_are_the_tensors_of_the_model),
        cmocka_unit_test(a_skipped_step_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
