// test_cudnn.c -- kernels/cuda/cudnn_attention.h in the simulator, with a stand-in for the library
// that interprets graphs (fake_cudnn.c): the graphs mean attention and its gradient, every tensor
// of a graph gets its address, and what is not served is refused with a reason.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cudnn_attention.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "kernels/cuda/cuda_open.h"
#include "tests/kernels/fake_cudnn.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { TENSORS = 9, LSE = 4 }; // q k v out lse dout dq dk dv

typedef struct Side { // the reference's, or cuDNN's
    Device d;
    Ops ops;
    char *t[TENSORS];
    void *scratch;
    size_t scratch_bytes;
} Side;

typedef struct Attention { // of a packed [B,T,3,H,D]; out and dout [B,T,H,D]
    int64_t B, H, T, D;
    bool causal;
    DType dtype;
} Attention;

static int64_t elements(const Attention *a, int i)
{
    const int64_t rows = a->B * a->T * a->H;
    return i == LSE ? rows : i == 3 || i == 5 ? rows * a->D : 3 * rows * a->D;
}

static DType type_of(const Attention *a, int i)
{
    return i == LSE ? DTYPE_F32 : a->dtype;
}

static size_t bytes_of(const Attention *a, int i)
{
    return (size_t)elements(a, i) * dtype_bytes(type_of(a, i));
}

static void open_sides(Side *ref, Side *cudnn)
{
    Err err;
    memset(ref, 0, sizeof *ref);
    memset(cudnn, 0, sizeof *cudnn);
    device_cpu_init(&ref->d, 1);
    ops_init(&ref->ops);
    CudaFound found;
    cuda_find(&found);
    assert_int_equal(cuda_open(&cudnn->d, &cudnn->ops, &found, 0, &err), ERR_NONE);
    assert_int_equal(ops_force(&cudnn->ops, "attention_fwd", "cudnn", &err), ERR_NONE);
    assert_int_equal(ops_force(&cudnn->ops, "attention_bwd", "cudnn", &err), ERR_NONE);
}

static FakeCudnnCounts *counts_of(void)
{
    void *lib = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(lib);
    FakeCudnnCounts *(*counts)(void);
    void *const symbol = dlsym(lib, "fake_cudnn_counts");
    if (!symbol) fail_msg("this is not the stand-in: is LD_LIBRARY_PATH set?");
    memcpy(&counts, &symbol, sizeof counts);
    return counts();
}

// q, k, v share one packed tensor's layout, each in a block of its own; its other parts stay NaN.
static void fill(Side *s, const Attention *a)
{
    for (int i = 0; i < TENSORS; i++) {
        const size_t bytes = bytes_of(a, i);
        char *host = mem_alloc(bytes);
        assert_non_null(host);
        memset(host, 0xff, bytes);
        const bool input = i < 3 || i == 5;
        uint32_t state = 1u + (uint32_t)i;
        for (int64_t e = 0; input && e < elements(a, i); e++) {
            state = state * 1664525u + 1013904223u;
            dtype_store(host, a->dtype, e, (float)(state >> 8) / 8388608.0f - 1.0f);
        }
        assert_int_equal(device_alloc(&s->d, bytes, (void **)&s->t[i], NULL), ERR_NONE);
        assert_int_equal(device_upload(&s->d, s->t[i], host, bytes, NULL), ERR_NONE);
        mem_free(host);
    }
}

static AttentionFwdArgs fwd_args(const Side *s, const Attention *a)
{
    const int64_t row = a->H * a->D;
    return (AttentionFwdArgs){.out = s->t[3],
                              .lse = (float *)(void *)s->t[LSE],
                              .q = s->t[0],
                              .k = s->t[1],
                              .v = s->t[2],
                              .B = a->B,
                              .H = a->H,
                              .Tq = a->T,
                              .Tk = a->T,
                              .D = a->D,
                              .q_batch = 3 * row * a->T,
                              .q_row = 3 * row,
                              .kv_batch = 3 * row * a->T,
                              .kv_row = 3 * row,
                              .out_batch = row * a->T,
                              .out_row = row,
                              .scale = 0.3f,
                              .mask.causal = a->causal,
                              .dtype = a->dtype};
}

static AttentionBwdArgs bwd_args(const Side *s, const Attention *a)
{
    const AttentionFwdArgs f = fwd_args(s, a);
    return (AttentionBwdArgs){.dq = s->t[6],
                              .dk = s->t[7],
                              .dv = s->t[8],
                              .dout = s->t[5],
                              .out = f.out,
                              .lse = f.lse,
                              .q = f.q,
                              .k = f.k,
                              .v = f.v,
                              .B = a->B,
                              .H = a->H,
                              .T = a->T,
                              .D = a->D,
                              .qkv_batch = f.q_batch,
                              .qkv_row = f.q_row,
                              .out_batch = f.out_batch,
                              .out_row = f.out_row,
                              .scale = f.scale,
                              .mask = f.mask,
                              .dtype = a->dtype};
}

// With exactly the scratch that planning asks for.
static void run(Side *s, const AttentionFwdArgs *f, const AttentionBwdArgs *b)
{
    Err err = {0};
    OpPlan plan = {0};
    OpCtx cx = {.ops = &s->ops, .device = &s->d, .plan = &plan};
    Status st = op_attention_fwd(&cx, f, &err);
    if (st == ERR_NONE && b) st = op_attention_bwd(&cx, b, &err);
    if (st != ERR_NONE) fail_msg("%s", err.text);
    assert_int_equal(device_alloc(&s->d, plan.scratch_bytes + 1, &cx.scratch, &err), ERR_NONE);
    cx.scratch_bytes = plan.scratch_bytes;
    cx.plan = NULL;
    st = op_attention_fwd(&cx, f, &err);
    if (st == ERR_NONE && b) st = op_attention_bwd(&cx, b, &err);
    if (st == ERR_NONE) st = device_sync(&s->d, &err);
    if (st != ERR_NONE) fail_msg("%s", err.text);
    device_free(&s->d, cx.scratch, plan.scratch_bytes + 1);
}

// Elements that were never written stay NaN on both sides.
static void compare(Side *want, Side *got, const Attention *a, int i)
{
    static const char *const names[TENSORS] = {"q",    "k",  "v",  "out", "lse",
                                               "dout", "dq", "dk", "dv"};
    const size_t bytes = bytes_of(a, i);
    char *x = mem_alloc(bytes), *y = mem_alloc(bytes);
    assert_non_null(x);
    assert_non_null(y);
    assert_int_equal(device_download(&want->d, x, want->t[i], bytes, NULL), ERR_NONE);
    assert_int_equal(device_download(&got->d, y, got->t[i], bytes, NULL), ERR_NONE);
    double most = 0, worst = 0;
    for (int64_t e = 0; e < elements(a, i); e++) {
        const float w = dtype_load(x, type_of(a, i), e), g = dtype_load(y, type_of(a, i), e);
        if (isnan(w) != isnan(g))
            fail_msg("%s[%lld]: %g, not %g", names[i], (long long)e, (double)g, (double)w);
        if (isnan(w)) continue;
        most = fmax(most, fabs((double)w));
        worst = fmax(worst, fabs((double)w - (double)g));
    }
    const double rounding = i == LSE ? 1e-5 : a->dtype == DTYPE_BF16 ? 0x1p-7 : 0x1p-10;
    if (worst > 2 * rounding * most)
        fail_msg("T %lld D %lld causal %d %s: %s is off by %g of %g", (long long)a->T,
                 (long long)a->D, a->causal, dtype_name(a->dtype), names[i], worst, most);
    mem_free(x);
    mem_free(y);
}

static void close_sides(Side *ref, Side *cudnn)
{
    for (int i = 0; i < TENSORS; i++) {
        if (ref->t[i]) device_free(&ref->d, ref->t[i], 0);
        if (cudnn->t[i]) device_free(&cudnn->d, cudnn->t[i], 0);
    }
    cuda_close(&cudnn->d);
}

static void graphs_mean_attention_and_its_gradient(void **state)
{
    static const Attention cases[] = {
        {1, 1, 1, 64, false, DTYPE_BF16},  {1, 1, 1, 64, true, DTYPE_F16},
        {2, 3, 33, 64, true, DTYPE_BF16},  {2, 3, 33, 64, false, DTYPE_F16},
        {1, 2, 40, 128, true, DTYPE_F16},  {2, 1, 40, 128, false, DTYPE_BF16},
        {1, 1, 130, 64, true, DTYPE_BF16},
    };
    (void)state;
    for (int i = 0; i < (int)LT_COUNT(cases); i++) {
        Side ref, cudnn;
        open_sides(&ref, &cudnn);
        fill(&ref, &cases[i]);
        fill(&cudnn, &cases[i]);
        const AttentionFwdArgs rf = fwd_args(&ref, &cases[i]), cf = fwd_args(&cudnn, &cases[i]);
        const AttentionBwdArgs rb = bwd_args(&ref, &cases[i]), cb = bwd_args(&cudnn, &cases[i]);
        run(&ref, &rf, &rb);
        run(&cudnn, &cf, &cb);
        for (int t = 0; t < TENSORS; t++) compare(&ref, &cudnn, &cases[i], t);
        close_sides(&ref, &cudnn);
    }
}

static void sums_that_no_one_wants_go_to_scratch(void **state)
{
    const Attention a = {1, 2, 20, 64, true, DTYPE_BF16};
    Side ref, cudnn;
    (void)state;
    open_sides(&ref, &cudnn);
    fill(&ref, &a);
    fill(&cudnn, &a);
    AttentionFwdArgs rf = fwd_args(&ref, &a), cf = fwd_args(&cudnn, &a);
    rf.lse = cf.lse = NULL;
    run(&ref, &rf, NULL);
    run(&cudnn, &cf, NULL);
    for (int t = 0; t < TENSORS; t++) compare(&ref, &cudnn, &a, t);
    close_sides(&ref, &cudnn);
}

static void a_shape_is_planned_once(void **state)
{
    const Attention a = {1, 1, 8, 64, true, DTYPE_BF16};
    Side ref, cudnn;
    (void)state;
    open_sides(&ref, &cudnn);
    fill(&cudnn, &a);
    const AttentionFwdArgs f = fwd_args(&cudnn, &a);
    const int64_t plans = counts_of()->plans;
    run(&cudnn, &f, NULL);
    run(&cudnn, &f, NULL);
    assert_int_equal(counts_of()->plans, plans + 1);
    close_sides(&ref, &cudnn);
}

static void it_serves_only_when_it_is_asked_for(void **state)
{
    const Attention a = {1, 1, 8, 64, true, DTYPE_BF16};
    Side ref, cudnn;
    Ops ops;
    Err err;
    (void)state;
    open_sides(&ref, &cudnn);
    fill(&cudnn, &a);
    const AttentionFwdArgs f = fwd_args(&cudnn, &a);
    memset(&ops, 0, sizeof ops);
    cudnn_attention_register(&ops);
    OpCtx cx = {.ops = &ops, .device = &cudnn.d};
    assert_int_equal(op_attention_fwd(&cx, &f, &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "--ops.attention_fwd=cudnn"));
    close_sides(&ref, &cudnn);
}

static void what_it_does_not_serve_is_refused(void **state)
{
    const Attention a = {1, 1, 64, 64, true, DTYPE_BF16};
    Side ref, cudnn;
    Err err;
    (void)state;
    open_sides(&ref, &cudnn);
    fill(&cudnn, &a);
    AttentionFwdArgs f[6];
    for (int i = 0; i < (int)LT_COUNT(f); i++) f[i] = fwd_args(&cudnn, &a);
    f[0].mask.window = 9;
    f[1].dtype = DTYPE_F32;
    f[2].D = 32;
    f[3].q_pos0 = 3;
    f[4].drop.p = 0.1f;
    f[5].q = (const char *)f[5].q + 2;
    static const int64_t sample[1] = {0};
    f[4].drop.sample = sample;
    OpCtx cx = {.ops = &cudnn.ops, .device = &cudnn.d};
    static const char *const why[] = {"without mask", "bf16 and f16", "64 and 128",
                                      "position 0",   "dropout",      "16 bytes"};
    for (int i = 0; i < (int)LT_COUNT(f); i++) {
        assert_int_equal(op_attention_fwd(&cx, &f[i], &err), ERR_UNSUPPORTED);
        if (!strstr(err.text, why[i])) fail_msg("%s: no word of %s", err.text, why[i]);
    }
    const AttentionBwdArgs b = bwd_args(&cudnn, &a); // T = 64
    assert_int_equal(op_attention_bwd(&cx, &b, &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "have been NaN"));
    close_sides(&ref, &cudnn);
}

static void the_library_is_described(void **state)
{
    char text[256];
    (void)state;
    cudnn_attention_describe(text, sizeof text);
    assert_string_equal(text, "cuDNN 9.19.0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_mean_attention_and_its_gradient),
        cmocka_unit_test(sums_that_no_one_wants_go_to_scratch),
        cmocka_unit_test(a_shape_is_planned_once),
        cmocka_unit_test(it_serves_only_when_it_is_asked_for),
        cmocka_unit_test(what_it_does_not_serve_is_refused),
        cmocka_unit_test(the_library_is_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
