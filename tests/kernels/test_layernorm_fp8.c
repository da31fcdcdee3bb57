// test_layernorm_fp8.c -- layernorm_fwd that writes FP8 itself gives the bits of layernorm_fwd
// followed by fp8_quantize, in both layouts, with amax and counts, on every backend.
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

enum { BLOCKS_MAX = 24 };

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

static Fp8Out fp8_out(Bench *b, const Shape *s)
{
    const Fp8Scale scale = {.inv = 1 / 150.0f, .scale = 150, .max = fp8_max(s->fp8)};
    const Fp8Count count = {.flushed = 7};
    const float amax = -1;
    Fp8Out o = {
        .ld_q = (s->C + 15) / 16 * 16, .ld_qt = (s->N + 15) / 16 * 16 + s->more, .dtype = s->fp8};
    o.q = memory(b, (size_t)(s->N * o.ld_q), NULL);
    o.qt = memory(b, (size_t)(s->C * o.ld_qt), NULL);
    o.scale = memory(b, sizeof scale, &scale);
    o.amax = memory(b, sizeof amax, &amax);
    o.count = memory(b, sizeof count, &count);
    return o;
}

static void run_layernorm(Bench *b, const LayernormFwdArgs *a)
{
    Err err;
    OpPlan plan = {0};
    OpCtx cx = {.ops = &b->backend->ops, .device = &b->backend->device, .plan = &plan};
    if (op_layernorm_fwd(&cx, a, &err) != ERR_NONE) fail_msg("%s", err.text);
    cx.plan = NULL;
    cx.scratch = memory(b, plan.scratch_bytes + 16, NULL);
    cx.scratch_bytes = plan.scratch_bytes;
    if (op_layernorm_fwd(&cx, a, &err) != ERR_NONE) fail_msg("%s", err.text);
}

static void run_quantize(Bench *b, const Fp8QuantizeArgs *a)
{
    Err err;
    OpPlan plan = {0};
    OpCtx cx = {.ops = &b->backend->ops, .device = &b->backend->device, .plan = &plan};
    if (op_fp8_quantize(&cx, a, &err) != ERR_NONE) fail_msg("%s", err.text);
    cx.plan = NULL;
    cx.scratch = memory(b, plan.scratch_bytes + 16, NULL);
    cx.scratch_bytes = plan.scratch_bytes;
    if (op_fp8_quantize(&cx, a, &err) != ERR_NONE) fail_msg("%s", err.text);
}

static void compare(OpBackend *backend, const Shape *s)
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
    fused.q = fp8_out(&b, s);
    if (s->out) fused.out = memory(&b, bytes, NULL);
    a.out = memory(&b, bytes, NULL);
    const Fp8QuantizeArgs pass = {
        .out = fp8_out(&b, s), .src = a.out, .R = s->N, .C = s->C, .ld = s->C, .src_dtype = s->act};
    run_layernorm(&b, &fused);
    run_layernorm(&b, &a);
    run_quantize(&b, &pass);
    if (s->out) same_bytes(&b, "out", fused.out, a.out, bytes);
    same_bytes(&b, "q", fused.q.q, pass.out.q, (size_t)(s->N * fused.q.ld_q));
    same_bytes(&b, "qt", fused.q.qt, pass.out.qt, (size_t)(s->C * fused.q.ld_qt));
    same_bytes(&b, "scale", fused.q.scale, pass.out.scale, sizeof(Fp8Scale));
    same_bytes(&b, "amax", fused.q.amax, pass.out.amax, sizeof(float));
    same_bytes(&b, "count", fused.q.count, pass.out.count, sizeof(Fp8Count));
    release(&b);
}

static void compare_all(const Shape *shapes, int n)
{
    int opened = 0;
    for (int i = 0; i < op_backend_count(); i++) {
        OpBackend backend;
        char why[512];
        if (!op_backend_open(i, &backend, why)) continue;
        opened++;
        for (int k = 0; k < n; k++) compare(&backend, &shapes[k]);
    }
    assert_true(opened > 0);
}

static void short_rows_give_the_bits_of_a_pass(void **state)
{
    (void)state;
    compare_all(short_rows, (int)LT_COUNT(short_rows));
}

static void long_rows_give_the_bits_of_a_pass(void **state)
{
    (void)state;
    compare_all(long_rows, (int)LT_COUNT(long_rows));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_rows_give_the_bits_of_a_pass),
        cmocka_unit_test(long_rows_give_the_bits_of_a_pass),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
