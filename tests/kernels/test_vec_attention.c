// test_vec_attention.c -- attention of every instruction set on random shapes, against ref.
//
// The op matrix has chosen shapes; here sizes, strides, masks and dropout are drawn, so that blocks
// end anywhere. Keys that no query sees hold NaN. Equal bits are asked of 1, 2 and 3 threads.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "kernels/cpu/cpu.h"
#include "kernels/device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TRIALS = 150 };

static uint64_t draws;
static int64_t  below(int64_t n) { return (int64_t)rng_below(7, 0, draws++, (uint64_t)n); }

// One random call of both ops with its memory.
typedef struct Trial {
    AttentionFwdArgs f;
    AttentionBwdArgs b;
    float           *data; // q, k, v, dout, inputs of both
    float           *out, *lse, *dq, *dk, *dv;
    int64_t          q_size, kv_size, out_size, lse_size;
    int32_t         *lo, *hi;
    int64_t          sample[4];
} Trial;

static void *zeroed(int64_t n)
{
    void *p = mem_alloc((size_t)LT_MAX(n, 1) * 4);
    assert_non_null(p);
    memset(p, 0, (size_t)LT_MAX(n, 1) * 4);
    return p;
}

static void draw_mask(Trial *t, AttentionFwdArgs *f)
{
    f->mask.causal = below(4) != 0;
    f->mask.window = below(3) ? 0 : 1 + below(f->Tk + 5);
    if (below(2)) return;
    for (int64_t i = 0; i < f->B * f->Tq; i++) {
        t->lo[i] = (int32_t)(below(8) ? below(f->Tk) / 20 * 20 : below(f->Tk));
        t->hi[i] = (int32_t)(below(8) ? f->Tk - below(f->Tk) / 2 : t->lo[i]);
    }
    f->mask.seg_lo = t->lo;
    f->mask.seg_hi = t->hi;
}

// Is key j of sample b visible to some query?
static bool seen(const AttentionFwdArgs *f, int64_t b, int64_t j)
{
    for (int64_t i = 0; i < f->Tq; i++) {
        const int64_t at = f->q_pos0 + i, n = b * f->Tq + i;
        if (f->mask.seg_lo && (j < f->mask.seg_lo[n] || j >= f->mask.seg_hi[n])) continue;
        if (f->mask.causal && j > at) continue;
        if (f->mask.window > 0 && at - j >= f->mask.window) continue;
        return true;
    }
    return false;
}

static void draw(Trial *t, bool backward)
{
    AttentionFwdArgs *f = &t->f;
    memset(t, 0, sizeof *t);
    *f = (AttentionFwdArgs){.B = 1 + below(2), .H = 1 + below(3), .scale = 0.2f};
    f->D = below(2) ? 64 : 1 + below(100);
    f->Tq     = below(3) ? 1 + below(150) : 1 + below(9);
    f->q_pos0 = backward ? 0 : below(2) * below(100);
    f->Tk     = backward ? f->Tq : f->q_pos0 + f->Tq + below(20);
    f->q_row = f->kv_row = f->H * f->D + below(9);
    f->out_row           = f->H * f->D + below(9);
    f->q_batch           = f->Tq * f->q_row + below(5);
    f->kv_batch          = backward ? f->q_batch : f->Tk * f->kv_row + below(5);
    f->out_batch         = f->Tq * f->out_row + below(5);
    t->q_size            = f->B * f->q_batch;
    t->kv_size           = f->B * f->kv_batch;
    t->out_size          = f->B * f->out_batch;
    t->lse_size          = f->B * f->H * f->Tq;
    t->lo                = zeroed(f->B * f->Tq);
    t->hi                = zeroed(f->B * f->Tq);
    draw_mask(t, f);
    for (int i = 0; i < 4; i++) t->sample[i] = 100 + 3 * i;
    if (below(3) == 0)
        f->drop = (DropoutSpec){.p      = 0.3f,
                                .seed   = 5,
                                .sample = t->sample,
                                .layer  = 2,
                                .site   = RNG_DROP_ATTENTION};

    const int64_t n = t->q_size + 2 * t->kv_size + t->out_size;
    t->data         = zeroed(n);
    rng_fill_normal(t->data, n, (uint64_t)below(1 << 30), 0, 1);
    f->q     = t->data;
    f->k     = t->data + t->q_size;
    f->v     = t->data + t->q_size + t->kv_size;
    float *k = t->data + t->q_size, *v = k + t->kv_size;
    for (int64_t b = 0; b < f->B; b++)
        for (int64_t j = 0; j < f->Tk; j++) {
            const int64_t at = b * f->kv_batch + j * f->kv_row + f->H * f->D - 1;
            if (!seen(f, b, j)) k[at] = v[at] = NAN;
        }
    f->out = t->out = zeroed(t->out_size);
    f->lse = t->lse = zeroed(t->lse_size);
    t->dq           = zeroed(t->q_size);
    t->dk           = zeroed(t->kv_size);
    t->dv           = zeroed(t->kv_size);
    t->b = (AttentionBwdArgs){.dq = t->dq, .dk = t->dk, .dv = t->dv, .out = t->out, .lse = t->lse};
    t->b.dout      = v + t->kv_size;
    t->b.q         = f->q;
    t->b.k         = f->k;
    t->b.v         = f->v;
    t->b.B         = f->B;
    t->b.H         = f->H;
    t->b.T         = f->Tq;
    t->b.D         = f->D;
    t->b.qkv_batch = f->q_batch;
    t->b.qkv_row   = f->q_row;
    t->b.out_batch = f->out_batch;
    t->b.out_row   = f->out_row;
    t->b.scale     = f->scale;
    t->b.mask      = f->mask;
    t->b.drop      = f->drop;
}

static void trial_free(Trial *t)
{
    void *const all[] = {t->data, t->out, t->lse, t->dq, t->dk, t->dv, t->lo, t->hi};
    for (int i = 0; i < (int)LT_COUNT(all); i++) mem_free(all[i]);
}

#define RUN(op, ops, args, n_threads)                                                              \
    do {                                                                                           \
        Device d;                                                                                  \
        Err    err;                                                                                \
        device_cpu_init(&d, n_threads);                                                            \
        OpPlan plan = {0};                                                                         \
        OpCtx  cx   = {.ops = ops, .device = &d, .plan = &plan};                                   \
        assert_int_equal(op_##op(&cx, args, &err), ERR_NONE);                                      \
        cx.plan          = NULL;                                                                   \
        cx.scratch_bytes = plan.scratch_bytes;                                                     \
        cx.scratch       = zeroed((int64_t)plan.scratch_bytes / 4 + 1);                            \
        memset(cx.scratch, 0xff, plan.scratch_bytes); /* NaN */                                    \
        assert_int_equal(op_##op(&cx, args, &err), ERR_NONE);                                      \
        mem_free(cx.scratch);                                                                      \
    } while (0)

static void run(Trial *t, const Ops *ops, int threads, bool backward)
{
    RUN(attention_fwd, ops, &t->f, threads);
    if (backward) RUN(attention_bwd, ops, &t->b, threads);
}

static void near(const char *what, const float *got, const float *want, int64_t n)
{
    double top = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(want[i])) top = fmax(top, fabs((double)want[i]));
    for (int64_t i = 0; i < n; i++) {
        if (got[i] == want[i]) continue;
        if (!(fabs((double)got[i] - (double)want[i]) <= 1e-5 * (top + 1)))
            fail_msg("%s [%lld]: %g, not %g (largest %g)", what, (long long)i, (double)got[i],
                     (double)want[i], top);
    }
}

typedef struct Copy { // of a trial's results
    float *x[5];
} Copy;

static void results(const Trial *t, float *x[5], int64_t n[5])
{
    float *const  all[]   = {t->out, t->lse, t->dq, t->dk, t->dv};
    const int64_t sizes[] = {t->out_size, t->lse_size, t->q_size, t->kv_size, t->kv_size};
    memcpy(x, all, sizeof all);
    memcpy(n, sizes, sizeof sizes);
}

static void keep(Copy *c, const Trial *t)
{
    float  *x[5];
    int64_t n[5];
    results(t, x, n);
    for (int i = 0; i < 5; i++) {
        c->x[i] = zeroed(n[i]);
        memcpy(c->x[i], x[i], (size_t)n[i] * 4);
    }
}
static void drop_copy(Copy *c)
{
    for (int i = 0; i < 5; i++) mem_free(c->x[i]);
}

static void compare(const Trial *t, const Copy *want, bool bitwise)
{
    static const char *const names[] = {"out", "lse", "dq", "dk", "dv"};
    float                   *x[5];
    int64_t                  n[5];
    results(t, x, n);
    for (int i = 0; i < 5; i++) {
        if (!bitwise)
            near(names[i], x[i], want->x[i], n[i]);
        else
            assert_memory_equal(x[i], want->x[i], (size_t)n[i] * 4);
    }
}

static void one_trial(const Ops *ref, const Ops *isas, int n_isas, bool backward)
{
    Trial t;
    Copy  want, first;
    draw(&t, backward);
    run(&t, ref, 1, backward);
    keep(&want, &t);
    for (int k = 0; k < n_isas; k++) {
        run(&t, &isas[k], 1, backward);
        compare(&t, &want, false);
        keep(&first, &t);
        for (int threads = 2; threads <= 3; threads++) {
            run(&t, &isas[k], threads, backward);
            compare(&t, &first, true);
        }
        drop_copy(&first);
    }
    drop_copy(&want);
    trial_free(&t);
}

static void random_shapes_match_the_reference(void **state)
{
    (void)state;
    const char *names[8];
    const int   n   = cpu_list(names);
    Ops        *ops = mem_alloc((size_t)(n + 1) * sizeof *ops);
    assert_non_null(ops);
    ops_init(&ops[n]);
    for (int k = 0; k < n; k++) {
        Err       err;
        CpuChoice choice;
        ops_init(&ops[k]);
        assert_int_equal(cpu_open(&ops[k], names[k], &choice, &err), ERR_NONE);
    }
    for (int i = 0; i < TRIALS; i++) one_trial(&ops[n], ops, n, i % 2);
    mem_free(ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_shapes_match_the_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
