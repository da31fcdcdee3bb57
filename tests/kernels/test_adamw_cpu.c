// test_adamw_cpu.c -- AdamW over more elements than the matrix test has: from some size on the
// 16-bit copy goes past the caches (vec_adamw.c), which must change no bit.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "kernels/cpu/cpu.h"
#include "kernels/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { SMALL = 1 << 21, LARGE = 2 * SMALL + 4099 };

typedef struct State {
    float *w, *m, *v;
    uint16_t *copy; // starts at no multiple of a cache line
} State;

static State *state_new(void)
{
    State *s = mem_alloc(sizeof *s);
    assert_non_null(s);
    s->w = mem_calloc(3 * (size_t)LARGE, sizeof *s->w);
    s->copy = mem_calloc(LARGE + 2, sizeof *s->copy);
    assert_non_null(s->w);
    assert_non_null(s->copy);
    s->m = s->w + LARGE;
    s->v = s->m + LARGE;
    for (int64_t i = 0; i < LARGE; i++) s->w[i] = (float)(i % 1009) / 1009.0f - 0.5f;
    return s;
}

static void state_free(State *s)
{
    mem_free(s->w);
    mem_free(s->copy);
    mem_free(s);
}

// Elements i0 .. i1-1 by one call.
static void update(Ops *ops, Device *dev, State *s, DType t, const float *grad, int64_t i0,
                   int64_t i1)
{
    Err err;
    OpCtx cx = {.ops = ops, .device = dev};
    const AdamwArgs a = {.w = s->w + i0,
                         .param = s->copy + 1 + i0,
                         .m = s->m + i0,
                         .v = s->v + i0,
                         .grad = grad + i0,
                         .n = i1 - i0,
                         .step = 3,
                         .lr = 1e-2,
                         .beta1 = 0.9,
                         .beta2 = 0.95,
                         .eps = 1e-8,
                         .weight_decay = 0.1,
                         .grad_scale = 1,
                         .param_dtype = t};
    assert_int_equal(op_adamw(&cx, &a, &err), ERR_NONE);
}

static void a_large_range_equals_its_parts(void **state)
{
    (void)state;
    const char *names[8];
    const int n = cpu_list(names);
    float *grad = mem_alloc(LARGE * sizeof *grad);
    assert_non_null(grad);
    for (int64_t i = 0; i < LARGE; i++) grad[i] = (float)(i % 997) / 997.0f - 0.5f;
    for (int k = 0; k < 2 * n; k++) {
        const DType t = k % 2 ? DTYPE_F16 : DTYPE_BF16;
        Ops *ops = mem_alloc(sizeof *ops);
        assert_non_null(ops);
        CpuChoice choice;
        Err err;
        Device dev;
        ops_init(ops);
        assert_int_equal(cpu_open(ops, names[k / 2], &choice, &err), ERR_NONE);
        device_cpu_init(&dev, 2);
        State *whole = state_new(), *parts = state_new();
        update(ops, &dev, whole, t, grad, 0, LARGE);
        update(ops, &dev, parts, t, grad, 0, SMALL);
        update(ops, &dev, parts, t, grad, SMALL, LARGE - 777);
        update(ops, &dev, parts, t, grad, LARGE - 777, LARGE);
        assert_memory_equal(whole->w, parts->w, 3 * (size_t)LARGE * sizeof *whole->w);
        assert_memory_equal(whole->copy, parts->copy, (LARGE + 2) * sizeof *whole->copy);
        for (int64_t i = 0; i < LARGE; i++)
            if (whole->copy[i + 1] !=
                (t == DTYPE_F16 ? f16_from_f32(whole->w[i]) : bf16_from_f32(whole->w[i])))
                fail_msg("%s: copy of element %d", names[k / 2], (int)i);
        assert_true(whole->copy[0] == 0 && whole->copy[LARGE + 1] == 0);
        state_free(whole);
        state_free(parts);
        mem_free(ops);
    }
    mem_free(grad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_large_range_equals_its_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
