// test_matmul_cpu.c -- kernels/cpu/gemm_*.c and gemv.c against kernels/ref/matmul_ref.c.
//
// Operands are small multiples of 1/4, so that products and sums are exact in f32 and bf16
// operands: a plain product must equal the reference bit for bit, an epilogue within a few ulp.
// Memory the op must not read (gaps behind rows, scratch, C without accumulate) holds NaN; memory
// it must not write holds a pattern that is compared afterwards.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <stdio.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

typedef struct Case {
    int64_t M, N, K, pad;
    bool trans_a, trans_b, accumulate, bias, aux, real;
    MatmulEpilogue epilogue;
    Activation act;
    DType ab, c, bias_t;
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

// rows x cols values with `ld`; the gaps are NaN.
static void *matrix(int64_t rows, int64_t cols, int64_t ld, DType t, bool real)
{
    void *p = need((size_t)(rows * ld) * dtype_bytes(t));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < ld; j++) {
            const float v = real ? (float)rnd(2001) / 1000.0f - 1.0f : (float)(rnd(7) - 3) * 0.25f;
            dtype_store(p, t, i * ld + j, j < cols ? v : NAN);
        }
    return p;
}

// The instruction set that brings an implementation: gemv_avx2 comes with avx2.
static const char *isa_of(const char *impl)
{
    return strncmp(impl, "gemv_", 5) == 0 ? impl + 5 : impl;
}

// Run `impl` alone; the arguments' C and aux are what changes.
static void run(const char *impl, const MatmulArgs *a, int threads)
{
    Ops *ops = need(sizeof *ops);
    CpuChoice choice;
    Err err;
    Device dev;
    const bool ref = strcmp(impl, "ref") == 0;
    ops_init(ops);
    if (!ref) assert_int_equal(cpu_open(ops, isa_of(impl), &choice, &err), ERR_NONE);
    assert_int_equal(ops_force(ops, "matmul", impl, &err), ERR_NONE);
    device_cpu_init(&dev, threads);
    OpPlan plan = {0};
    OpCtx cx = {.ops = ops, .device = &dev, .plan = &plan};
    assert_int_equal(op_matmul(&cx, a, &err), ERR_NONE);
    cx.plan = NULL;
    cx.scratch_bytes = plan.scratch_bytes;
    cx.scratch = need(cx.scratch_bytes);
    memset(cx.scratch, 0xff, cx.scratch_bytes + 64);
    assert_int_equal(op_matmul(&cx, a, &err), ERR_NONE);
    for (int i = 0; i < 64; i++)
        if (((unsigned char *)cx.scratch)[cx.scratch_bytes + (size_t)i] != 0xff)
            fail_msg("%s wrote past its scratch", impl);
    mem_free(cx.scratch);
    mem_free(ops);
}

static double ulp(DType t, double x)
{
    int e;
    frexp(x, &e);
    const int digits = t == DTYPE_F32 ? 24 : t == DTYPE_BF16 ? 8 : 11;
    const int lowest = t == DTYPE_F16 ? -24 : -149 + (t == DTYPE_BF16 ? 16 : 0);
    return ldexp(1.0, LT_MAX(e - digits, lowest));
}

static void describe(char *to, size_t n, const char *impl, const Case *c)
{
    snprintf(to, n, "%s M%d N%d K%d pad%d ta%d tb%d acc%d bias%d epi%d act%d %s->%s threads %d",
             impl, (int)c->M, (int)c->N, (int)c->K, (int)c->pad, c->trans_a, c->trans_b,
             c->accumulate, c->bias, (int)c->epilogue, (int)c->act, dtype_name(c->ab),
             dtype_name(c->c), c->threads);
}

// got and want hold M rows of ldc; columns from N on are the untouched pattern.
static void compare(const char *what, const char *text, const Case *c, const void *got,
                    const void *want, int64_t ldc)
{
    const size_t e = dtype_bytes(c->c);
    for (int64_t i = 0; i < c->M; i++)
        for (int64_t j = 0; j < ldc; j++) {
            const int64_t at = i * ldc + j;
            if (memcmp((const char *)got + (size_t)at * e, (const char *)want + (size_t)at * e,
                       e) == 0)
                continue;
            if (j >= c->N) fail_msg("%s: %s gap written at (%d,%d)", text, what, (int)i, (int)j);
            const double g = (double)dtype_load(got, c->c, at),
                         w = (double)dtype_load(want, c->c, at);
            double tol = 0;
            if (c->epilogue != MATMUL_PLAIN)
                tol = 1e-14 + (c->epilogue == MATMUL_DGELU ? 3e-7 + 5e-8 * sqrt((double)c->K) : 0) +
                      (c->c == DTYPE_F32 ? 4 : 1) * ulp(c->c, w); // 1e-14: the reference cancels
            if (c->epilogue != MATMUL_PLAIN && strcmp(text, "amx") >= 0 && text[0] == 'a' &&
                text[1] == 'm')
                tol += 1e-5 * (fabs(w) + 1);
            // Sums of K products of size 1/3 (rms). Rounded after each addition, a chunk of 768 is
            // off by 2^-24 kc / 3 / sqrt(6) = 6e-6 (rms); this allows ten times that.
            if (c->real) tol += ulp(c->c, w) + 2e-6 * (4 + sqrt((double)c->K));
            if (!(fabs(g - w) <= tol))
                fail_msg("%s: %s (%d,%d) is %.9g, expected %.9g", text, what, (int)i, (int)j, g, w);
        }
}

static void check_case(const char *impl, const Case *c)
{
    char text[160];
    describe(text, sizeof text, impl, c);
    const int64_t lda = (c->trans_a ? c->M : c->K) + c->pad,
                  ldb = (c->trans_b ? c->K : c->N) + c->pad;
    const int64_t ldc = c->N + c->pad;
    const size_t c_bytes = (size_t)(c->M * ldc) * dtype_bytes(c->c);
    void *A = matrix(c->trans_a ? c->K : c->M, c->trans_a ? c->M : c->K, lda, c->ab, c->real);
    void *B = matrix(c->trans_b ? c->N : c->K, c->trans_b ? c->K : c->N, ldb, c->ab, c->real);
    void *bias = matrix(1, c->N, c->N, c->bias_t, c->real);
    void *got = matrix(c->M, c->accumulate ? c->N : 0, ldc, c->c, c->real), *want = need(c_bytes);
    void *aux = matrix(c->M, c->epilogue == MATMUL_DGELU ? c->N : 0, ldc, c->c, true);
    void *aux_want = need(c_bytes);
    memcpy(want, got, c_bytes);
    memcpy(aux_want, aux, c_bytes);
    MatmulArgs a = {.C = got,
                    .A = A,
                    .B = B,
                    .bias = c->bias ? bias : NULL,
                    .M = c->M,
                    .N = c->N,
                    .aux = c->aux ? aux : NULL,
                    .K = c->K,
                    .lda = lda,
                    .ldb = ldb,
                    .ldc = ldc,
                    .trans_a = c->trans_a,
                    .trans_b = c->trans_b,
                    .accumulate = c->accumulate,
                    .epilogue = c->epilogue,
                    .act = c->act,
                    .ab_dtype = c->ab,
                    .c_dtype = c->c,
                    .bias_dtype = c->bias_t};
    run(impl, &a, c->threads);
    a.C = want;
    a.aux = c->aux ? aux_want : NULL;
    run("ref", &a, 1);
    compare("C", text, c, got, want, ldc);
    compare("aux", text, c, aux, aux_want, ldc);
    mem_free(A), mem_free(B), mem_free(bias), mem_free(got), mem_free(want), mem_free(aux);
    mem_free(aux_want);
}

static int64_t size_of(int kind)
{
    static const int edges[] = {1,  2,  3,  5,  6,  7,  8,  9,  15, 16,  17, 31,
                                32, 33, 47, 48, 49, 63, 64, 65, 97, 127, 128};
    return kind == 0 ? edges[rnd((int)LT_COUNT(edges))] : kind == 1 ? 1 + rnd(150) : 1 + rnd(500);
}

static Case random_case(bool bf16_only)
{
    static const DType types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    Case c = {.M = size_of(rnd(2)), .N = size_of(rnd(2)), .K = size_of(rnd(2))};
    const int big = rnd(12);
    if (big == 0) c.M = size_of(2), c.K = LT_MIN(c.K, 40), c.N = LT_MIN(c.N, 70);
    if (big == 1) c.N = size_of(2) * 2, c.K = LT_MIN(c.K, 40), c.M = LT_MIN(c.M, 70);
    if (big == 2) c.K = 385 + rnd(900), c.M = LT_MIN(c.M, 50), c.N = LT_MIN(c.N, 50);
    c.pad = rnd(3) * 5;
    c.trans_a = rnd(2);
    c.trans_b = rnd(2);
    c.ab = bf16_only ? DTYPE_BF16 : types[rnd(3)];
    c.c = bf16_only ? types[rnd(2)] : types[rnd(3)];
    c.bias = rnd(2);
    c.bias_t = types[rnd(3)];
    c.epilogue = (MatmulEpilogue)rnd(3);
    c.act = (Activation)rnd(3);
    c.accumulate = c.epilogue == MATMUL_PLAIN && rnd(2);
    c.aux = c.epilogue == MATMUL_DGELU || (c.epilogue == MATMUL_GELU && rnd(2));
    c.threads = 1 + rnd(3);
    c.real = rnd(4) == 0 && (c.c == DTYPE_F32 || c.epilogue == MATMUL_PLAIN);
    if (rnd(3) == 0 && c.pad == 0) c.N = (c.N + 31) & ~31; // rows on cache lines
    return c;
}

// The engines of this machine that multiply matrices under their own name.
static int engines(const char *names[8])
{
    return cpu_list(names);
}
static bool bf16_only(const char *impl)
{
    return strcmp(impl, "amx") == 0 || strcmp(impl, "avx512_bf16") == 0;
}

static void random_products_equal_the_reference(void **state)
{
    (void)state;
    const char *names[8];
    const int n = engines(names);
    for (int e = 0; e < n; e++) {
        rnd_state = 7;
        for (int i = 0; i < 400; i++) {
            const Case c = random_case(bf16_only(names[e]));
            check_case(names[e], &c);
        }
    }
}

// Name of the kernel for few rows of engine e; false: it has none of its own.
static bool few_rows(char impl[32], const char *isa)
{
    snprintf(impl, 32, "gemv_%s", isa);
    return !bf16_only(isa);
}

static void few_rows_equal_the_reference(void **state)
{
    (void)state;
    const char *names[8];
    char impl[32];
    const int n = engines(names);
    for (int e = 0; e < n; e++) {
        if (!few_rows(impl, names[e])) continue;
        rnd_state = 11;
        for (int i = 0; i < 300; i++) {
            Case c = random_case(false);
            c.M = 1 + i % 4;
            c.trans_a = false;
            c.trans_b = true;
            check_case(impl, &c);
        }
    }
}

// Neither threads nor the rows beside it change a row.
static void few_rows_are_bitwise_repeatable(void **state)
{
    (void)state;
    enum { M = 4, N = 301, K = 1003 };
    static const DType types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    const char *names[8];
    char impl[32];
    const int n = engines(names);
    for (int e = 0; e < n; e++) {
        if (!few_rows(impl, names[e])) continue;
        for (size_t t = 0; t < LT_COUNT(types); t++) {
            char *A = matrix(M, K, K, types[t], true), *B = matrix(N, K, K, types[t], true);
            float *one = need(M * N * 4), *more = need(M * N * 4);
            MatmulArgs a = {.C = one, .A = A, .B = B, .M = M, .N = N, .K = K, .trans_b = true};
            a.lda = a.ldb = K;
            a.ldc = N;
            a.ab_dtype = types[t];
            run(impl, &a, 1);
            a.C = more;
            for (int threads = 2; threads < 6; threads++) {
                run(impl, &a, threads);
                assert_memory_equal(one, more, M * N * 4);
            }
            a.M = 1;
            for (int i = 0; i < M; i++) {
                a.A = A + (size_t)(i * K) * dtype_bytes(types[t]);
                run(impl, &a, 2);
                assert_memory_equal(one + i * N, more, N * 4);
            }
            mem_free(A), mem_free(B), mem_free(one), mem_free(more);
        }
    }
}

static void edges_of_the_contract(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{0, 5, 5},   {5, 0, 5},    {5, 7, 0},   {1, 1, 1},
                                       {100, 3, 0}, {1, 700, 65}, {700, 1, 65}};
    const char *names[8];
    const int n = engines(names);
    for (int e = 0; e < n; e++)
        for (size_t s = 0; s < LT_COUNT(sizes); s++)
            for (int acc = 0; acc < 2; acc++) {
                const Case c = {.M = sizes[s][0],
                                .N = sizes[s][1],
                                .K = sizes[s][2],
                                .pad = 3,
                                .bias = true,
                                .accumulate = acc,
                                .threads = 2,
                                .trans_b = true,
                                .bias_t = DTYPE_F32,
                                .ab = DTYPE_BF16,
                                .c = acc ? DTYPE_F32 : DTYPE_BF16};
                check_case(names[e], &c);
            }
}

// A K so long that every engine packs it in slabs, with partial sums kept between them: chunks of
// up to 1536 bf16, 40 rows or more, in 16 MiB.
static void a_long_k_equals_the_reference(void **state)
{
    (void)state;
    const char *names[8];
    const int n = engines(names);
    for (int e = 0; e < n; e++)
        for (int acc = 0; acc < 2; acc++) {
            const Case c = {.M = acc ? 35 : 33,
                            .N = 34,
                            .K = 210001,
                            .accumulate = acc,
                            .threads = 2,
                            .trans_b = true,
                            .ab = bf16_only(names[e]) || acc ? DTYPE_BF16 : DTYPE_F32,
                            .c = acc ? DTYPE_F32 : DTYPE_BF16};
            check_case(names[e], &c);
        }
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    const char *names[8];
    const int n = engines(names);
    for (int e = 0; e < n; e++)
        for (int shape = 0; shape < 6; shape++) {
            const int64_t M = shape % 2 ? 301 : 90, N = shape % 2 ? 90 : 301, K = 900;
            const DType ab = bf16_only(names[e]) || shape % 3 == 1 ? DTYPE_BF16 : DTYPE_F32;
            const DType ct = shape > 2 ? DTYPE_BF16 : DTYPE_F32;
            void *A = matrix(M, K, K, ab, true), *B = matrix(K, N, N, ab, true);
            void *bias = matrix(1, N, N, DTYPE_F32, true);
            const size_t bytes = (size_t)(M * N) * dtype_bytes(ct);
            void *one = need(bytes), *more = need(bytes);
            MatmulArgs a = {.C = one,
                            .A = A,
                            .B = B,
                            .bias = bias,
                            .M = M,
                            .N = N,
                            .K = K,
                            .lda = K,
                            .ldb = N,
                            .ldc = N,
                            .ab_dtype = ab,
                            .c_dtype = ct,
                            .bias_dtype = DTYPE_F32,
                            .epilogue = shape == 4 ? MATMUL_GELU : MATMUL_PLAIN};
            run(names[e], &a, 1);
            a.C = more;
            for (int t = 2; t < 6; t++) {
                run(names[e], &a, t);
                if (memcmp(one, more, bytes) != 0) fail_msg("%s: %d threads differ", names[e], t);
            }
            // A row alone gives the same row: blocks do not matter.
            if (M > N) {
                a.M = 1;
                run(names[e], &a, 2);
                assert_memory_equal(one, more, (size_t)N * dtype_bytes(ct));
            }
            mem_free(A), mem_free(B), mem_free(bias), mem_free(one), mem_free(more);
        }
}

static void nan_and_infinity_reach_their_row_and_column_only(void **state)
{
    (void)state;
    const char *names[8];
    const int n = engines(names);
    enum { M = 37, N = 71, K = 45 };
    for (int e = 0; e < n; e++) {
        uint16_t *A = matrix(M, K, K, DTYPE_BF16, true), *B = matrix(K, N, N, DTYPE_BF16, true);
        float *C = need(M * N * 4);
        A[5 * K + 11] = bf16_from_f32(NAN);
        B[40 * N + 60] = bf16_from_f32(INFINITY);
        const MatmulArgs a = {.C = C,
                              .A = A,
                              .B = B,
                              .M = M,
                              .N = N,
                              .K = K,
                              .lda = K,
                              .ldb = N,
                              .ldc = N,
                              .ab_dtype = DTYPE_BF16,
                              .c_dtype = DTYPE_F32};
        run(names[e], &a, 2);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                const float x = C[i * N + j];
                if (i == 5)
                    assert_true(isnan(x));
                else if (j == 60)
                    assert_false(isfinite(x));
                else
                    assert_true(isfinite(x));
            }
        mem_free(A), mem_free(B), mem_free(C);
    }
}

// act(x) and act'(x) through K = 1 products, x over all magnitudes.
static void activations_are_accurate_to_four_ulp(void **state)
{
    (void)state;
    enum { N = 60000 };
    const char *names[8];
    const int n = engines(names);
    float *x = need(N * 4), *y = need(N * 4), *w = need(N * 4), *one = need(4);
    one[0] = 1;
    for (int i = 0; i < N; i++) x[i] = (float)((i % 2 ? -1 : 1) * exp((double)i / N * 30 - 27.3));
    for (int e = 0; e < n; e++) {
        if (bf16_only(names[e])) continue;
        for (int act = 0; act < 3; act++) {
            MatmulArgs a = {.C = y,
                            .A = one,
                            .B = x,
                            .M = 1,
                            .N = N,
                            .K = 1,
                            .lda = 1,
                            .ldb = N,
                            .ldc = N,
                            .epilogue = MATMUL_GELU,
                            .act = (Activation)act};
            run(names[e], &a, 1);
            a.C = w;
            run("ref", &a, 1);
            for (int i = 0; i < N; i++) {
                // The reference's 1 + tanh cancels far left; there the value itself is below 1e-4.
                const double far = x[i] < -3 ? 1e-15 : 0;
                if (fabs((double)y[i] - (double)w[i]) > 4 * ulp(DTYPE_F32, (double)w[i]) + far)
                    fail_msg("%s: act %d of %.9g is %.9g, expected %.9g", names[e], act,
                             (double)x[i], (double)y[i], (double)w[i]);
            }
        }
    }
    mem_free(x), mem_free(y), mem_free(w), mem_free(one);
}

// Every bf16 value through the activations of a bf16 result: at most one step of bf16 off.
static void activations_of_every_bf16_value(void **state)
{
    (void)state;
    enum { N = 65536 };
    const char *names[8];
    const int n = engines(names);
    uint16_t *x = need(N * 2), *y = need(N * 2), *w = need(N * 2), one = bf16_from_f32(1.0f);
    for (int i = 0; i < N; i++) x[i] = (uint16_t)i;
    for (int e = 0; e < n; e++) {
        for (int act = 0; act < 6; act++) {
            const bool slope = act > 2;
            MatmulArgs a = {.C = y, .A = &one, .B = slope ? w : x, .aux = slope ? x : NULL, .M = 1};
            a.N = a.ldb = a.ldc = N;
            a.K = a.lda = 1;
            a.epilogue = slope ? MATMUL_DGELU : MATMUL_GELU;
            a.act = (Activation)(act % 3);
            a.ab_dtype = a.c_dtype = DTYPE_BF16;
            for (int i = 0; i < N; i++) w[i] = one;
            run(names[e], &a, 2);
            uint16_t *ref = need(N * 2);
            a.C = ref;
            run("ref", &a, 1);
            for (int i = 0; i < N; i++) {
                const double at = (double)bf16_to_f32((uint16_t)i);
                const double got = (double)bf16_to_f32(y[i]), want = (double)bf16_to_f32(ref[i]);
                if (isinf(at)) continue; // 0 times infinity in some of the formulas
                if (isnan(at) ? isnan(got)
                              : fabs(got - want) <= ulp(DTYPE_BF16, want) + (slope ? 2e-5 : 1e-14))
                    continue;
                fail_msg("%s: act %d of %g is %g, expected %g", names[e], act, at, got, want);
            }
            mem_free(ref);
        }
    }
    mem_free(x), mem_free(y), mem_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_products_equal_the_reference),
        cmocka_unit_test(few_rows_equal_the_reference),
        cmocka_unit_test(few_rows_are_bitwise_repeatable),
        cmocka_unit_test(edges_of_the_contract),
        cmocka_unit_test(a_long_k_equals_the_reference),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(nan_and_infinity_reach_their_row_and_column_only),
        cmocka_unit_test(activations_are_accurate_to_four_ulp),
        cmocka_unit_test(activations_of_every_bf16_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
