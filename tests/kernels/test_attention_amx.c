// test_attention_amx.c -- kernels/cpu/attention_*_amx.c against the reference.
//
// Random shapes, strides, masks and threads. Gaps between rows hold NaN and must come back
// untouched; keys that nobody sees are NaN in k and v and must not be noticed.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <stdio.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { NOTHING = 0x7fc1 }; // a bf16 NaN: gaps, unseen keys

typedef struct Case {
    int64_t B, H, Tq, Tk, D, q_pos0, window, pad;
    bool causal, segments, drop;
    int threads;
} Case;

static uint32_t rnd_state = 1;
static int rnd(int n)
{
    rnd_state = rnd_state * 1664525u + 1013904223u;
    return (int)((rnd_state >> 8) % (uint32_t)n);
}
static void *need(size_t bytes)
{
    void *p = mem_alloc(bytes + 64);
    assert_non_null(p);
    return p;
}

// B x T rows of n values, rows `ld` apart; gaps are NOTHING.
static uint16_t *tensor(int64_t B, int64_t T, int64_t n, int64_t ld)
{
    uint16_t *p = need((size_t)(B * T * ld) * 2);
    for (int64_t i = 0; i < B * T * ld; i++)
        p[i] = i % ld < n ? bf16_from_f32((float)rnd(4001) / 1000.0f - 2.0f) : NOTHING;
    return p;
}
static uint16_t *empty(int64_t elements)
{
    uint16_t *p = need((size_t)elements * 2);
    for (int64_t i = 0; i < elements; i++) p[i] = NOTHING;
    return p;
}

static Ops *table(const char *impl)
{
    Ops *ops = need(sizeof *ops);
    Err err;
    CpuChoice choice;
    ops_init(ops);
    if (strcmp(impl, "amx") == 0) assert_int_equal(cpu_open(ops, "amx", &choice, &err), ERR_NONE);
    assert_int_equal(ops_force(ops, "attention_fwd", impl, &err), ERR_NONE);
    assert_int_equal(ops_force(ops, "attention_bwd", impl, &err), ERR_NONE);
    return ops;
}

#define RUN(name, Args)                                                                            \
    static void run_##name(const char *impl, const Args *a, int threads)                           \
    {                                                                                              \
        Ops *ops = table(impl);                                                                    \
        Device dev;                                                                                \
        Err err;                                                                                   \
        OpPlan plan = {0};                                                                         \
        device_cpu_init(&dev, threads);                                                            \
        OpCtx cx = {.ops = ops, .device = &dev, .plan = &plan};                                    \
        assert_int_equal(op_##name(&cx, a, &err), ERR_NONE);                                       \
        cx = (OpCtx){.ops = ops, .device = &dev, .scratch_bytes = plan.scratch_bytes};             \
        cx.scratch = need(cx.scratch_bytes);                                                       \
        memset(cx.scratch, 0xff, cx.scratch_bytes + 64);                                           \
        assert_int_equal(op_##name(&cx, a, &err), ERR_NONE);                                       \
        for (int i = 0; i < 64; i++)                                                               \
            assert_int_equal(((unsigned char *)cx.scratch)[cx.scratch_bytes + (size_t)i], 0xff);   \
        mem_free(cx.scratch);                                                                      \
        mem_free(ops);                                                                             \
    }
RUN(attention_fwd, AttentionFwdArgs)
RUN(attention_bwd, AttentionBwdArgs)

static void describe(char *to, size_t n, const Case *c)
{
    snprintf(to, n,
             "B%d H%d Tq%d Tk%d D%d pos%d window%d pad%d causal%d segments%d drop%d threads%d",
             (int)c->B, (int)c->H, (int)c->Tq, (int)c->Tk, (int)c->D, (int)c->q_pos0,
             (int)c->window, (int)c->pad, c->causal, c->segments, c->drop, c->threads);
}

// Largest difference relative to the largest value; gaps must be equal.
static void compare(const char *what, const char *text, const uint16_t *got, const uint16_t *want,
                    int64_t rows, int64_t n, int64_t ld, double tol)
{
    double most = 1e-3, off = 0;
    for (int64_t i = 0; i < rows * ld; i++) {
        if (i % ld >= n) {
            if (got[i] != want[i]) fail_msg("%s: %s: gap written at %d", text, what, (int)i);
            continue;
        }
        const double g = (double)bf16_to_f32(got[i]), w = (double)bf16_to_f32(want[i]);
        if (!(fabs(g - w) < 1e30))
            fail_msg("%s: %s is %g at %d, expected %g", text, what, g, (int)i, w);
        most = LT_MAX(most, fabs(w));
        off = LT_MAX(off, fabs(g - w));
    }
    if (off > tol * most) fail_msg("%s: %s is off by %g of %g", text, what, off, most);
}

// Documents of random length, some with nothing to see, inside [10, T - 5) when there is room.
static void segments(int32_t *lo, int32_t *hi, const Case *c)
{
    for (int64_t b = 0; b < c->B; b++) {
        int32_t at = c->Tk > 40 ? 10 : 0, end = at;
        for (int64_t i = 0; i < c->Tq; i++) {
            if (i >= end) {
                at = LT_MAX(end, at);
                end = at + 1 + rnd(60);
            }
            lo[b * c->Tq + i] = at;
            hi[b * c->Tq + i] =
                rnd(20) == 0 ? at : LT_MIN(end, (int32_t)(c->Tk > 40 ? c->Tk - 5 : c->Tk));
        }
    }
}

// The first and last key that anybody sees in sample b; the others become NaN.
static void hide_unseen(uint16_t *k, uint16_t *v, const Case *c, const AttentionMask *m,
                        int64_t row)
{
    for (int64_t b = 0; b < c->B; b++) {
        int64_t first = c->Tk, last = -1;
        for (int64_t i = 0; i < c->Tq; i++) {
            int64_t lo = m->seg_lo ? m->seg_lo[b * c->Tq + i] : 0;
            int64_t hi = m->seg_hi ? m->seg_hi[b * c->Tq + i] : c->Tk;
            if (m->causal) hi = LT_MIN(hi, c->q_pos0 + i + 1);
            if (m->window) lo = LT_MAX(lo, c->q_pos0 + i - m->window + 1);
            if (lo >= hi) continue;
            first = LT_MIN(first, lo);
            last = LT_MAX(last, hi - 1);
        }
        for (int64_t j = 0; j < c->Tk; j++)
            if (j < first || j > last)
                for (int64_t d = 0; d < c->H * c->D; d++)
                    k[(b * c->Tk + j) * row + d] = v[(b * c->Tk + j) * row + d] = NOTHING;
    }
}

static void check_case(const Case *c)
{
    char text[160];
    describe(text, sizeof text, c);
    const int64_t n = c->H * c->D, row = n + c->pad, out_row = n + c->pad / 2;
    uint16_t *q = tensor(c->B, c->Tq, n, row), *k = tensor(c->B, c->Tk, n, row);
    uint16_t *v = tensor(c->B, c->Tk, n, row), *dout = tensor(c->B, c->Tq, n, out_row);
    int32_t *lo = need((size_t)(c->B * c->Tq) * 4), *hi = need((size_t)(c->B * c->Tq) * 4);
    const AttentionMask mask = {.seg_lo = c->segments ? lo : NULL,
                                .seg_hi = c->segments ? hi : NULL,
                                .causal = c->causal,
                                .window = c->window};
    const int64_t sample[2] = {5, 1LL << 33};
    const DropoutSpec drop = {.p = c->drop ? 0.3f : 0,
                              .seed = 11,
                              .sample = sample,
                              .layer = 3,
                              .site = RNG_DROP_ATTENTION};
    segments(lo, hi, c);
    hide_unseen(k, v, c, &mask, row);

    const int64_t outs = c->B * c->Tq * out_row, rows = c->B * c->H * c->Tq;
    uint16_t *out = empty(outs), *want = empty(outs);
    float *lse = need((size_t)rows * 4), *lse_want = need((size_t)rows * 4);
    AttentionFwdArgs f = {.out = out,
                          .lse = lse,
                          .q = q,
                          .k = k,
                          .v = v,
                          .B = c->B,
                          .H = c->H,
                          .Tq = c->Tq,
                          .Tk = c->Tk,
                          .D = c->D,
                          .q_batch = c->Tq * row,
                          .q_row = row,
                          .kv_batch = c->Tk * row,
                          .kv_row = row,
                          .out_batch = c->Tq * out_row,
                          .out_row = out_row,
                          .q_pos0 = c->q_pos0,
                          .scale = 1.0f / sqrtf((float)c->D),
                          .mask = mask,
                          .drop = drop,
                          .dtype = DTYPE_BF16};
    run_attention_fwd("amx", &f, c->threads);
    f.out = want;
    f.lse = lse_want;
    run_attention_fwd("ref", &f, 1);
    compare("out", text, out, want, c->B * c->Tq, n, out_row, 0.015);
    for (int64_t i = 0; i < rows; i++)
        if (isfinite(lse_want[i]) ? fabsf(lse[i] - lse_want[i]) > 1e-4f : lse[i] != lse_want[i])
            fail_msg("%s: lse %d is %g, expected %g", text, (int)i, (double)lse[i],
                     (double)lse_want[i]);

    if (c->Tq == c->Tk && c->q_pos0 == 0) {
        const int64_t all = c->B * c->Tq * row;
        uint16_t *g[3], *w[3];
        AttentionBwdArgs a = {.dout = dout,
                              .out = want,
                              .lse = lse_want,
                              .q = q,
                              .k = k,
                              .v = v,
                              .B = c->B,
                              .H = c->H,
                              .T = c->Tq,
                              .D = c->D,
                              .qkv_batch = c->Tq * row,
                              .qkv_row = row,
                              .out_batch = c->Tq * out_row,
                              .out_row = out_row,
                              .scale = f.scale,
                              .mask = mask,
                              .drop = drop,
                              .dtype = DTYPE_BF16};
        for (int i = 0; i < 3; i++) {
            g[i] = empty(all);
            w[i] = empty(all);
        }
        a.dq = g[0], a.dk = g[1], a.dv = g[2];
        run_attention_bwd("amx", &a, c->threads);
        a.dq = w[0], a.dk = w[1], a.dv = w[2];
        run_attention_bwd("ref", &a, 1);
        static const char *const names[] = {"dq", "dk", "dv"};
        for (int i = 0; i < 3; i++) {
            compare(names[i], text, g[i], w[i], c->B * c->Tq, n, row, 0.02);
            mem_free(g[i]), mem_free(w[i]);
        }
    }
    mem_free(q), mem_free(k), mem_free(v), mem_free(dout), mem_free(lo), mem_free(hi);
    mem_free(out), mem_free(want), mem_free(lse), mem_free(lse_want);
}

static void named_cases_equal_the_reference(void **state)
{
    (void)state;
    static const Case cases[] = {
        {.B = 2, .H = 2, .Tq = 64, .Tk = 64, .D = 64, .causal = true, .threads = 2},
        {.B = 1, .H = 1, .Tq = 300, .Tk = 300, .D = 32, .causal = true, .threads = 1},
        {.B = 1, .H = 2, .Tq = 129, .Tk = 129, .D = 96, .threads = 2, .pad = 32},
        {.B = 2, .H = 1, .Tq = 200, .Tk = 200, .D = 64, .causal = true, .window = 33, .threads = 3},
        {.B = 2,
         .H = 1,
         .Tq = 161,
         .Tk = 161,
         .D = 64,
         .causal = true,
         .segments = true,
         .threads = 2},
        {.B = 1, .H = 1, .Tq = 140, .Tk = 140, .D = 32, .segments = true, .threads = 1},
        {.B = 1, .H = 2, .Tq = 40, .Tk = 100, .D = 64, .causal = true, .q_pos0 = 60, .threads = 2},
        {.B = 2, .H = 2, .Tq = 150, .Tk = 150, .D = 64, .causal = true, .drop = true, .threads = 2},
        {.B = 1, .H = 1, .Tq = 70, .Tk = 70, .D = 32, .drop = true, .threads = 1},
        {.B = 1,
         .H = 2,
         .Tq = 41,
         .Tk = 100,
         .D = 32,
         .causal = true,
         .q_pos0 = 59,
         .drop = true,
         .threads = 2},
        {.B = 1, .H = 1, .Tq = 8, .Tk = 1, .D = 128, .threads = 1},
        {.B = 0, .H = 3, .Tq = 8, .Tk = 8, .D = 32, .threads = 1},
    };
    for (size_t i = 0; i < LT_COUNT(cases); i++) check_case(&cases[i]);
}

static void random_cases_equal_the_reference(void **state)
{
    (void)state;
    rnd_state = 3;
    for (int i = 0; i < 60; i++) {
        Case c = {.B = 1 + rnd(2),
                  .H = 1 + rnd(3),
                  .Tq = 8 + rnd(i % 5 ? 90 : 280),
                  .D = 32 * (1 + rnd(3)),
                  .causal = rnd(3) > 0,
                  .segments = rnd(3) == 0,
                  .window = rnd(3) ? 0 : 1 + rnd(80),
                  .pad = rnd(3) * 16,
                  .threads = 1 + rnd(3)};
        c.Tk = c.Tq;
        if (rnd(4) == 0 && !c.segments) {
            c.q_pos0 = rnd(50);
            c.Tk = c.Tq + c.q_pos0;
        }
        c.drop = i % 3 == 0 && !c.segments && c.window == 0;
        check_case(&c);
    }
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    enum { B = 2, H = 3, T = 150, D = 64, ROW = 3 * H * D, N = B * T * H * D };
    uint16_t *qkv = tensor(B, T, ROW, ROW), *dout = tensor(B, T, H * D, H * D);
    uint16_t *out[2], *d[2];
    float *lse = need(B * H * T * 4);
    for (int i = 0; i < 2; i++) {
        out[i] = empty(N);
        d[i] = empty(3 * N);
        const AttentionFwdArgs f = {.out = out[i],
                                    .lse = lse,
                                    .q = qkv,
                                    .k = qkv + H * D,
                                    .v = qkv + 2 * H * D,
                                    .B = B,
                                    .H = H,
                                    .Tq = T,
                                    .Tk = T,
                                    .D = D,
                                    .q_batch = T * ROW,
                                    .q_row = ROW,
                                    .kv_batch = T * ROW,
                                    .kv_row = ROW,
                                    .out_batch = T * H * D,
                                    .out_row = H * D,
                                    .scale = 0.125f,
                                    .mask = {.causal = true},
                                    .dtype = DTYPE_BF16};
        run_attention_fwd("amx", &f, 1 + 2 * i);
        const AttentionBwdArgs a = {.dq = d[i],
                                    .dk = d[i] + H * D,
                                    .dv = d[i] + 2 * H * D,
                                    .dout = dout,
                                    .out = out[i],
                                    .lse = lse,
                                    .q = qkv,
                                    .k = qkv + H * D,
                                    .v = qkv + 2 * H * D,
                                    .B = B,
                                    .H = H,
                                    .T = T,
                                    .D = D,
                                    .qkv_batch = T * ROW,
                                    .qkv_row = ROW,
                                    .out_batch = T * H * D,
                                    .out_row = H * D,
                                    .scale = 0.125f,
                                    .mask = {.causal = true},
                                    .dtype = DTYPE_BF16};
        run_attention_bwd("amx", &a, 1 + 2 * i);
    }
    assert_memory_equal(out[0], out[1], N * 2);
    assert_memory_equal(d[0], d[1], 3 * N * 2);
    for (int i = 0; i < 2; i++) mem_free(out[i]), mem_free(d[i]);
    mem_free(qkv), mem_free(dout), mem_free(lse);
}

int main(void)
{
    const char *names[8];
    const int n = cpu_list(names);
    if (strcmp(names[n - 1], "amx") != 0) {
        puts("SKIP: this machine has no AMX");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(named_cases_equal_the_reference),
        cmocka_unit_test(random_cases_equal_the_reference),
        cmocka_unit_test(threads_do_not_change_a_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
