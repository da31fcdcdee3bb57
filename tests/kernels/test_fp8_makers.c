// test_fp8_makers.c -- layernorm_fwd and adamw that write FP8 themselves give the bits of the plain
// op followed by fp8_quantize, in both layouts, with amax and counts, on every backend.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "kernels/ops.h"
#include "tests/kernels/backends.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct Shape {
    int64_t N, C, more; // more: elements of a row of q^T behind the N that are rounded up to 16
    DType act, fp8;
    bool add, out; // out: wanted in act, too
} Shape;

static const Shape short_rows[] = {
    {1, 16, 0, DTYPE_BF16, DTYPE_E4M3, false, false},
    {33, 40, 0, DTYPE_BF16, DTYPE_E4M3, true, true},
    {18, 65, 0, DTYPE_BF16, DTYPE_E4M3, true, false}, // what no vector fits
    {20, 96, 0, DTYPE_F32, DTYPE_E5M2, false, false},
    {34, 264, 48, DTYPE_BF16, DTYPE_E4M3, true, false},
};

static const Shape long_rows[] = {
    {50, 768, 48, DTYPE_BF16, DTYPE_E4M3, true, false},
    {40, 2056, 0, DTYPE_F16, DTYPE_E4M3, false, true}, // blocks of 16 rows
    {17, 4096, 16, DTYPE_BF16, DTYPE_E4M3, true, false},
    {3, 16392, 0, DTYPE_BF16, DTYPE_E4M3, false, false}, // longer than shared memory allows
};

typedef struct Matrix { // of weights
    int64_t R, C;
    DType param, fp8;
    int gate; // 0: none, 1: of a step that counts
    bool no_copy;
} Matrix;

static const Matrix small_matrices[] = {
    {1, 16, DTYPE_BF16, DTYPE_E4M3, 0, false},
    {130, 72, DTYPE_BF16, DTYPE_E4M3, 1, false},
    {33, 65, DTYPE_F16, DTYPE_E5M2, 0, false}, // what no vector fits
    {20, 100, DTYPE_F32, DTYPE_E4M3, 1, true},
};

static const Matrix large_matrices[] = {
    {768, 256, DTYPE_BF16, DTYPE_E4M3, 1, false},
    {256, 1536, DTYPE_BF16, DTYPE_E4M3, 1, false},
};

enum { BLOCKS_MAX = 32 };

typedef struct Bench {
    OpBackend *backend;
    void *block[BLOCKS_MAX];
    size_t bytes[BLOCKS_MAX];
    int n;
} Bench;

// Device memory with these bytes; NULL: poison.
static void *memory(Bench *b, size_t bytes, const void *from)
{
    void *host = mem_alloc(bytes), *p = NULL;
    assert_true(host && b->n < BLOCKS_MAX);
    memset(host, 0xa5, bytes);
    if (from) memcpy(host, from, bytes);
    assert_int_equal(device_alloc(&b->backend->device, bytes, &p, NULL), ERR_NONE);
    assert_int_equal(device_upload(&b->backend->device, p, host, bytes, NULL), ERR_NONE);
    mem_free(host);
    b->block[b->n] = p;
    b->bytes[b->n++] = bytes;
    return p;
}

static void *numbers(Bench *b, DType t, int64_t n, uint64_t seed, float scale)
{
    void *host = mem_alloc((size_t)n * dtype_bytes(t));
    assert_non_null(host);
    for (int64_t i = 0; i < n; i++)
        dtype_store(host, t, i, scale * ((float)rng_below(seed, 5, (uint64_t)i, 2001) / 1000 - 1));
    void *p = memory(b, (size_t)n * dtype_bytes(t), host);
    mem_free(host);
    return p;
}

static void release(Bench *b)
{
    for (int i = 0; i < b->n; i++) device_free(&b->backend->device, b->block[i], b->bytes[i]);
}

static void same_bytes(Bench *b, const char *what, const void *x, const void *y, size_t bytes)
{
    unsigned char *one = mem_alloc(bytes), *two = mem_alloc(bytes);
    assert_true(one && two);
    assert_int_equal(device_download(&b->backend->device, one, x, bytes, NULL), ERR_NONE);
    assert_int_equal(device_download(&b->backend->device, two, y, bytes, NULL), ERR_NONE);
    for (size_t i = 0; i < bytes; i++)
        if (one[i] != two[i])
            fail_msg("%s: %s: byte %zu of %zu: %02x, by a pass %02x", b->backend->name, what, i,
                     bytes, one[i], two[i]);
    mem_free(one);
    mem_free(two);
}

static Fp8Out fp8_out(Bench *b, int64_t R, int64_t C, int64_t more, DType fp8)
{
    const Fp8Scale scale = {.inv = 1 / 150.0f, .scale = 150, .max = fp8_max(fp8)};
    const Fp8Count count = {.flushed = 7};
    const float amax = -1;
    Fp8Out o = {.ld_q = (C + 15) / 16 * 16, .ld_qt = (R + 15) / 16 * 16 + more, .dtype = fp8};
    o.q = memory(b, (size_t)(R * o.ld_q), NULL);
    o.qt = memory(b, (size_t)(C * o.ld_qt), NULL);
    o.scale = memory(b, sizeof scale, &scale);
    o.amax = memory(b, sizeof amax, &amax);
    o.count = memory(b, sizeof count, &count);
    return o;
}

// With the scratch that the op asks for.
#define RUN(name, Args)                                                                            \
    static void run_##name(Bench *b, const Args *a)                                                \
    {                                                                                              \
        Err err;                                                                                   \
        OpPlan plan = {0};                                                                         \
        OpCtx cx = {.ops = &b->backend->ops, .device = &b->backend->device, .plan = &plan};        \
        if (op_##name(&cx, a, &err) != ERR_NONE) fail_msg("%s", err.text);                         \
        cx.plan = NULL;                                                                            \
        cx.scratch = memory(b, plan.scratch_bytes + 16, NULL);                                     \
        cx.scratch_bytes = plan.scratch_bytes;                                                     \
        if (op_##name(&cx, a, &err) != ERR_NONE) fail_msg("%s", err.text);                         \
    }

RUN(layernorm_fwd, LayernormFwdArgs)
RUN(adamw, AdamwArgs)
RUN(fp8_quantize, Fp8QuantizeArgs)

static void same_fp8(Bench *b, const Fp8Out *x, const Fp8Out *y, int64_t R, int64_t C)
{
    same_bytes(b, "q", x->q, y->q, (size_t)(R * x->ld_q));
    same_bytes(b, "qt", x->qt, y->qt, (size_t)(C * x->ld_qt));
    same_bytes(b, "scale", x->scale, y->scale, sizeof(Fp8Scale));
    same_bytes(b, "amax", x->amax, y->amax, sizeof(float));
    same_bytes(b, "count", x->count, y->count, sizeof(Fp8Count));
}

// ---- layernorm_fwd ------------------------------------------------------------------------------

static void compare_rows(OpBackend *backend, const Shape *s)
{
    Bench b = {.backend = backend};
    const size_t bytes = (size_t)(s->N * s->C) * dtype_bytes(s->act);
    LayernormFwdArgs a = {.N = s->N, .T = s->N, .C = s->C, .eps = 1e-5f};
    a.x_dtype = a.w_dtype = DTYPE_F32;
    a.add_dtype = a.out_dtype = s->act;
    a.x = numbers(&b, DTYPE_F32, s->N * s->C, 1, 3);
    a.weight = numbers(&b, DTYPE_F32, s->C, 2, 2);
    if (s->add) {
        a.add = numbers(&b, s->act, s->N * s->C, 3, 1);
        a.resid_out = memory(&b, (size_t)(s->N * s->C) * 4, NULL);
    }
    LayernormFwdArgs fused = a;
    fused.q = fp8_out(&b, s->N, s->C, s->more, s->fp8);
    if (s->out) fused.out = memory(&b, bytes, NULL);
    a.out = memory(&b, bytes, NULL);
    const Fp8QuantizeArgs pass = {.out = fp8_out(&b, s->N, s->C, s->more, s->fp8),
                                  .src = a.out,
                                  .R = s->N,
                                  .C = s->C,
                                  .ld = s->C,
                                  .src_dtype = s->act};
    run_layernorm_fwd(&b, &fused);
    run_layernorm_fwd(&b, &a);
    run_fp8_quantize(&b, &pass);
    if (s->out) same_bytes(&b, "out", fused.out, a.out, bytes);
    same_fp8(&b, &fused.q, &pass.out, s->N, s->C);
    release(&b);
}

// ---- adamw --------------------------------------------------------------------------------------

static AdamwArgs adamw_args(Bench *b, const Matrix *s, int gate)
{
    const int64_t n = s->R * s->C;
    const StepGate g = {.rates = {.step = 9, .lr = 1e-2, .correct1 = 0.6, .correct2 = 0.3},
                        .grad_scale = 0.7f,
                        .skip = gate == 2};
    return (AdamwArgs){.w = numbers(b, DTYPE_F32, n, 1, 3),
                       .param = s->no_copy ? NULL : numbers(b, s->param, n, 6, 3),
                       .m = numbers(b, DTYPE_F32, n, 2, 0.1f),
                       .v = numbers(b, DTYPE_F32, n, 3, 0),
                       .grad = numbers(b, DTYPE_F32, n, 4, 1),
                       .gate = gate ? memory(b, sizeof g, &g) : NULL,
                       .n = n,
                       .step = 3,
                       .R = s->R,
                       .lr = 1e-2,
                       .beta1 = 0.9,
                       .beta2 = 0.95,
                       .eps = 1e-8,
                       .weight_decay = 0.1,
                       .grad_scale = 1,
                       .param_dtype = s->param};
}

static void compare_matrix(OpBackend *backend, const Matrix *s)
{
    Bench b = {.backend = backend};
    const size_t n = (size_t)(s->R * s->C), bytes = n * dtype_bytes(s->param);
    AdamwArgs a = adamw_args(&b, s, s->gate), fused = adamw_args(&b, s, s->gate);
    fused.q = fp8_out(&b, s->R, s->C, 0, s->fp8);
    const Fp8QuantizeArgs pass = {.out = fp8_out(&b, s->R, s->C, 0, s->fp8),
                                  .src = s->no_copy ? a.w : a.param,
                                  .R = s->R,
                                  .C = s->C,
                                  .ld = s->C,
                                  .src_dtype = s->param};
    run_adamw(&b, &fused);
    run_adamw(&b, &a);
    run_fp8_quantize(&b, &pass);
    same_bytes(&b, "w", fused.w, a.w, n * sizeof(float));
    same_bytes(&b, "m", fused.m, a.m, n * sizeof(float));
    same_bytes(&b, "v", fused.v, a.v, n * sizeof(float));
    if (a.param) same_bytes(&b, "param", fused.param, a.param, bytes);
    same_fp8(&b, &fused.q, &pass.out, s->R, s->C);
    release(&b);
}

static void compare_skipped(OpBackend *backend, const Matrix *s)
{
    Bench b = {.backend = backend};
    const size_t n = (size_t)(s->R * s->C);
    AdamwArgs a = adamw_args(&b, s, 2), before = adamw_args(&b, s, 2);
    a.q = fp8_out(&b, s->R, s->C, 0, s->fp8);
    before.q = fp8_out(&b, s->R, s->C, 0, s->fp8);
    run_adamw(&b, &a);
    same_bytes(&b, "w", a.w, before.w, n * sizeof(float));
    if (a.param) same_bytes(&b, "param", a.param, before.param, n * dtype_bytes(s->param));
    same_fp8(&b, &a.q, &before.q, s->R, s->C);
    release(&b);
}

// ---- all of it, on all backends -----------------------------------------------------------------

typedef void Compare(OpBackend *backend, const void *shape);

static void rows(OpBackend *b, const void *shape)
{
    compare_rows(b, shape);
}
static void matrix(OpBackend *b, const void *shape)
{
    compare_matrix(b, shape);
}
static void skipped(OpBackend *b, const void *shape)
{
    compare_skipped(b, shape);
}

static void compare_all(Compare *compare, const void *shapes, size_t size, size_t n)
{
    int opened = 0;
    for (int i = 0; i < op_backend_count(); i++) {
        OpBackend backend;
        char why[512];
        if (!op_backend_open(i, &backend, why)) continue;
        opened++;
        for (size_t k = 0; k < n; k++) compare(&backend, (const char *)shapes + k * size);
    }
    assert_true(opened > 0);
}

#define COMPARE_ALL(compare, shapes)                                                               \
    compare_all(compare, shapes, sizeof *(shapes), LT_COUNT(shapes))

static void short_rows_give_the_bits_of_a_pass(void **state)
{
    (void)state;
    COMPARE_ALL(rows, short_rows);
}

static void long_rows_give_the_bits_of_a_pass(void **state)
{
    (void)state;
    COMPARE_ALL(rows, long_rows);
}

static void small_matrices_give_the_bits_of_a_pass(void **state)
{
    (void)state;
    COMPARE_ALL(matrix, small_matrices);
}

static void large_matrices_give_the_bits_of_a_pass(void **state)
{
    (void)state;
    COMPARE_ALL(matrix, large_matrices);
}

static void matrices_of_a_skipped_step_stay(void **state)
{
    (void)state;
    COMPARE_ALL(skipped, small_matrices);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_rows_give_the_bits_of_a_pass),
        cmocka_unit_test(long_rows_give_the_bits_of_a_pass),
        cmocka_unit_test(small_matrices_give_the_bits_of_a_pass),
        cmocka_unit_test(large_matrices_give_the_bits_of_a_pass),
        cmocka_unit_test(matrices_of_a_skipped_step_stay),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
