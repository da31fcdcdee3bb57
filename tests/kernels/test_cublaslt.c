// test_cublaslt.c -- kernels/cuda/cublaslt.h in the simulator, with the stand-in for the library
// (fake_cublaslt.c): which route and which algorithm a product takes, and what is said when none
// does. That the numbers are right is the op matrix's to say (op_check_sim matmul cublaslt).
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cublaslt.h"
#include "engine/base/mem.h"
#include "kernels/cuda/cuda_open.h"
#include "kernels/cuda/device_cuda.h"
#include "tests/kernels/fake_cublaslt.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { M = 16, N = 24, K = 40, LD = 48, SCRATCH = 1 << 20 };

typedef struct Bench { // a device with one product's operands, all of them ones
    Device d;
    Ops ops;
    void *A, *B, *C, *bias, *aux, *scratch;
    FakeCublasltCounts *counts;
} Bench;

static void fill(Bench *b, void *dst, int n, float x)
{
    float host[M * LD + N * LD];
    for (int i = 0; i < n; i++) host[i] = x;
    assert_int_equal(device_upload(&b->d, dst, host, (size_t)n * sizeof *host, NULL), ERR_NONE);
}

static float first_of(Bench *b, const void *src)
{
    float x = 0;
    assert_int_equal(device_download(&b->d, &x, src, sizeof x, NULL), ERR_NONE);
    return x;
}

// `fake`: what the stand-in is told. Only implementation `impl` of matmul and matmul_fp8 is left.
static void open_bench(Bench *b, const char *fake, const char *impl)
{
    Err err;
    memset(b, 0, sizeof *b);
    setenv("FAKE_CUBLASLT", fake, 1);
    CudaFound found;
    cuda_find(&found);
    assert_int_equal(cuda_open(&b->d, &b->ops, &found, 0, &err), ERR_NONE);
    assert_int_equal(ops_force(&b->ops, "matmul", impl, &err), ERR_NONE);
    assert_int_equal(ops_force(&b->ops, "matmul_fp8", impl, &err), ERR_NONE);
    void **blocks[] = {&b->A, &b->B, &b->C, &b->bias, &b->aux};
    for (int i = 0; i < (int)LT_COUNT(blocks); i++) {
        assert_int_equal(device_alloc(&b->d, (M + N) * LD * 4, blocks[i], &err), ERR_NONE);
        fill(b, *blocks[i], (M + N) * LD, 1);
    }
    assert_int_equal(device_alloc(&b->d, SCRATCH, &b->scratch, &err), ERR_NONE);
    void *lib = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(lib);
    FakeCublasltCounts *(*counts)(void);
    void *const symbol = dlsym(lib, "fake_cublaslt_counts");
    if (!symbol) fail_msg("this is not the stand-in: is LD_LIBRARY_PATH set?");
    memcpy(&counts, &symbol, sizeof counts);
    b->counts = counts();
    *b->counts = (FakeCublasltCounts){0};
}

static void close_bench(Bench *b)
{
    void *blocks[] = {b->A, b->B, b->C, b->bias, b->aux, b->scratch};
    for (int i = 0; i < (int)LT_COUNT(blocks); i++) device_free(&b->d, blocks[i], 0);
    cuda_close(&b->d);
}

static MatmulArgs product(const Bench *b)
{
    return (MatmulArgs){.C = b->C,
                        .A = b->A,
                        .B = b->B,
                        .M = M,
                        .N = N,
                        .K = K,
                        .lda = LD,
                        .ldb = LD,
                        .ldc = LD,
                        .trans_b = true};
}

static Status run(Bench *b, const MatmulArgs *a, Err *err)
{
    OpCtx cx = {.ops = &b->ops, .device = &b->d, .scratch = b->scratch, .scratch_bytes = SCRATCH};
    return op_matmul(&cx, a, err);
}

static void a_product_with_bias_and_gelu_is_one_call(void **state)
{
    Bench b;
    Err err;
    (void)state;
    open_bench(&b, "", "cublaslt");
    MatmulArgs a = product(&b);
    a.bias = b.bias;
    a.aux = b.aux;
    a.epilogue = MATMUL_GELU;
    assert_int_equal(run(&b, &a, &err), ERR_NONE);
    assert_true(fabsf(first_of(&b, b.C) - 41) < 1e-4f);
    assert_true(first_of(&b, b.aux) == 41);
    assert_int_equal(b.counts->fused, b.counts->queued);
    close_bench(&b);
}

static void without_a_fused_algorithm_the_epilogue_is_ours(void **state)
{
    Bench b;
    Err err;
    (void)state;
    open_bench(&b, "no_epilogue", "cublaslt");
    MatmulArgs a = product(&b);
    a.bias = b.bias;
    a.aux = b.aux;
    a.epilogue = MATMUL_GELU;
    assert_int_equal(run(&b, &a, &err), ERR_NONE);
    assert_true(fabsf(first_of(&b, b.C) - 41) < 1e-4f);
    assert_true(first_of(&b, b.aux) == 41);
    assert_int_equal(b.counts->fused, 0);
    assert_true(b.counts->queued > 0);
    close_bench(&b);
}

static void what_cublaslt_has_no_words_for_is_split(void **state)
{
    Bench b;
    Err err;
    (void)state;
    open_bench(&b, "", "cublaslt");
    MatmulArgs a = product(&b); // the erf GELU is none of its epilogues
    a.epilogue = MATMUL_GELU;
    a.act = ACT_GELU_ERF;
    assert_int_equal(run(&b, &a, &err), ERR_NONE);
    a = product(&b); // rows of aux that it cannot read
    a.epilogue = MATMUL_DGELU;
    a.aux = b.aux;
    a.ldc = LD - 1;
    assert_int_equal(run(&b, &a, &err), ERR_NONE);
    fill(&b, b.C, M * LD, 1);
    a = product(&b); // a bias of another type than C
    a.bias = b.bias;
    a.bias_dtype = DTYPE_BF16; // its halves of 1.0f are 0 and 1
    a.accumulate = true;
    assert_int_equal(run(&b, &a, &err), ERR_NONE);
    float row[2];
    assert_int_equal(device_download(&b.d, row, b.C, sizeof row, NULL), ERR_NONE);
    assert_true(row[0] == 1 + K && row[1] == 2 + K);
    assert_int_equal(b.counts->fused, 0);
    close_bench(&b);
}

static void one_operand_alone_may_be_unaligned(void **state)
{
    Bench b;
    Err err;
    (void)state;
    open_bench(&b, "", "cublaslt");
    MatmulArgs a[3] = {product(&b), product(&b), product(&b)};
    a[0].A = (const float *)b.A + 1;
    a[1].B = (const float *)b.B + 1;
    a[2].C = (float *)b.C + 1;
    for (int i = 0; i < (int)LT_COUNT(a); i++) {
        assert_int_equal(run(&b, &a[i], &err), ERR_NONE);
        assert_int_equal(b.counts->last_algo, 0); // the one that needs no alignment
        assert_true(first_of(&b, a[i].C) == K);
    }
    close_bench(&b);
}

static void timing_adds_to_c_once(void **state)
{
    Bench b;
    Err err;
    (void)state;
    open_bench(&b, "", "cublaslt");
    MatmulArgs a = product(&b);
    a.accumulate = true;
    assert_int_equal(run(&b, &a, &err), ERR_NONE); // times algorithms
    assert_true(b.counts->queued > 1);
    assert_true(first_of(&b, b.C) == 1 + K);
    const int64_t queued = b.counts->queued, asked = b.counts->asked;
    assert_int_equal(run(&b, &a, &err), ERR_NONE); // does not
    assert_int_equal(b.counts->queued, queued + 1);
    assert_int_equal(b.counts->asked, asked);
    assert_true(first_of(&b, b.C) == 1 + 2 * K);
    close_bench(&b);
}

// Small integers add up to the same in any order; these do not.
static void make_order_matter(Bench *b)
{
    float host[M * LD];
    for (int i = 0; i < M * LD; i++) host[i] = (float)(1 + i % 7) * (i % 3 ? 0.1f : 1e3f);
    assert_int_equal(device_upload(&b->d, b->A, host, sizeof host, NULL), ERR_NONE);
}

static void the_choice_changes_no_bits(void **state)
{
    Bench b;
    Err err;
    (void)state;
    open_bench(&b, "slow", "cublaslt");
    make_order_matter(&b);
    MatmulArgs a = product(&b);
    assert_int_equal(run(&b, &a, &err), ERR_NONE);
    assert_int_equal(b.counts->last_algo, 1); // not 0: slow; not 2: other bits
    a.bias = b.bias;
    assert_int_equal(run(&b, &a, &err), ERR_NONE);
    assert_int_equal(b.counts->last_algo, 3); // offered first, slow; no other has its bits
    close_bench(&b);
}

static void a_plan_asks_for_what_the_run_needs(void **state)
{
    Bench b;
    Err err;
    (void)state;
    open_bench(&b, "", "cublaslt");
    OpPlan plan = {0};
    OpCtx cx = {.ops = &b.ops, .device = &b.d, .plan = &plan};
    MatmulArgs a = product(&b);
    a.accumulate = true;
    assert_int_equal(op_matmul(&cx, &a, &err), ERR_NONE);
    assert_int_equal(b.counts->queued, 0);
    // Two parts of K in f32, a copy of C, a number; and what aligning them takes.
    assert_in_range(plan.scratch_bytes, 2 * M * N * 4 + M * LD * 4 + 8,
                    2 * M * N * 4 + M * LD * 4 + 1024);
    close_bench(&b);
}

static void a_product_that_nothing_serves_is_named(void **state)
{
    Bench b;
    Err err;
    (void)state;
    open_bench(&b, "no_algorithm", "cublaslt");
    MatmulArgs a = product(&b);
    assert_int_equal(run(&b, &a, &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "C[16,24] = A B^T, K = 40"));
    assert_non_null(strstr(err.text, "f32 to f32"));
    close_bench(&b);
}

static void a_product_that_is_refused_late_is_named(void **state)
{
    Bench b;
    Err err;
    (void)state;
    open_bench(&b, "no_run", "cublaslt");
    MatmulArgs a = product(&b);
    assert_int_equal(run(&b, &a, &err), ERR_DEVICE);
    assert_non_null(strstr(err.text, "cuBLASLt refuses C[16,24] = A B^T, K = 40"));
    close_bench(&b);
}

static void a_library_that_does_not_start_says_so(void **state)
{
    Bench b;
    Err err;
    (void)state;
    open_bench(&b, "no_start", "cublaslt");
    MatmulArgs a = product(&b);
    assert_int_equal(run(&b, &a, &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "cuBLASLt does not start on this GPU: not initialised"));
    close_bench(&b);
}

static void the_library_is_described(void **state)
{
    char text[256];
    (void)state;
    cublaslt_describe(text, sizeof text);
    assert_string_equal(text, "cuBLASLt 13.1.0");
}

static void more_shapes_than_are_kept_are_asked_for_again(void **state)
{
    Bench b;
    Err err;
    (void)state;
    open_bench(&b, "", "cublaslt");
    MatmulArgs a = product(&b);
    for (int round = 0; round < 2; round++)
        for (int m = 1; m <= M; m++)
            for (int n = 1; n <= N; n++) {
                a.M = m;
                a.N = n;
                OpPlan plan = {0};
                const OpCtx cx = {.ops = &b.ops, .device = &b.d, .plan = &plan};
                assert_non_null(op_matmul_impl(&cx, &a));
            }
    assert_int_equal(b.counts->asked, 2 * M * N); // 384 are more than 256
    assert_int_equal(run(&b, &a, &err), ERR_NONE);
    close_bench(&b);
}

// ---- FP8 --------------------------------------------------------------------------------------

enum { FM = 32, FN = 16, FK = 48 };

// Operands of 1.5 and 2, scales of 1/2 and 1/8: a product is FK * 3 / 16 = 9.
static MatmulFp8Args fp8_product(Bench *b)
{
    unsigned char a[FM * FK], w[FN * FK];
    const Fp8Scale scales[2] = {{.inv = 0.5f, .scale = 2, .max = 448},
                                {.inv = 0.125f, .scale = 8, .max = 448}};
    memset(a, fp8_from_f32(1.5f, DTYPE_E5M2), sizeof a);
    memset(w, fp8_from_f32(2, DTYPE_E4M3), sizeof w);
    assert_int_equal(device_upload(&b->d, b->A, a, sizeof a, NULL), ERR_NONE);
    assert_int_equal(device_upload(&b->d, b->B, w, sizeof w, NULL), ERR_NONE);
    assert_int_equal(device_upload(&b->d, b->aux, scales, sizeof scales, NULL), ERR_NONE);
    const Fp8Scale *s = b->aux;
    return (MatmulFp8Args){.C = b->C,
                           .A = b->A,
                           .B = b->B,
                           .a_inv = &s[0].inv,
                           .b_inv = &s[1].inv,
                           .M = FM,
                           .N = FN,
                           .K = FK,
                           .lda = FK,
                           .ldb = FK,
                           .ldc = FN,
                           .a_dtype = DTYPE_E5M2,
                           .b_dtype = DTYPE_E4M3,
                           .c_dtype = DTYPE_BF16,
                           .bias_dtype = DTYPE_BF16};
}

static Status run_fp8(Bench *b, const MatmulFp8Args *a, Err *err)
{
    OpCtx cx = {.ops = &b->ops, .device = &b->d, .scratch = b->scratch, .scratch_bytes = SCRATCH};
    return op_matmul_fp8(&cx, a, err);
}

static float first_bf16(Bench *b)
{
    uint16_t x = 0;
    assert_int_equal(device_download(&b->d, &x, b->C, sizeof x, NULL), ERR_NONE);
    return bf16_to_f32(x);
}

static void fp8_products_are_scaled_and_get_a_bias(void **state)
{
    Bench b;
    Err err;
    (void)state;
    open_bench(&b, "", "cublaslt");
    MatmulFp8Args a = fp8_product(&b);
    assert_int_equal(run_fp8(&b, &a, &err), ERR_NONE);
    assert_true(first_bf16(&b) == 9);
    uint16_t bias[FN];
    for (int i = 0; i < FN; i++) bias[i] = bf16_from_f32(-4);
    assert_int_equal(device_upload(&b.d, b.bias, bias, sizeof bias, NULL), ERR_NONE);
    a.bias = b.bias;
    assert_int_equal(run_fp8(&b, &a, &err), ERR_NONE);
    assert_true(first_bf16(&b) == 5);
    close_bench(&b);
}

static void fp8_products_add_to_f32_once(void **state)
{
    Bench b;
    Err err;
    (void)state;
    open_bench(&b, "", "cublaslt");
    MatmulFp8Args a = fp8_product(&b); // C is all ones
    a.c_dtype = DTYPE_F32;
    a.accumulate = true;
    assert_int_equal(run_fp8(&b, &a, &err), ERR_NONE); // times algorithms
    assert_true(b.counts->queued > 1);
    assert_true(first_of(&b, b.C) == 10);
    assert_int_equal(run_fp8(&b, &a, &err), ERR_NONE);
    assert_true(first_of(&b, b.C) == 19);
    close_bench(&b);
}

static void fast_sums_are_asked_for_where_the_call_says_so(void **state)
{
    Bench b;
    Err err;
    (void)state;
    open_bench(&b, "", "cublaslt");
    for (int fast = 0; fast < 2; fast++) {
        MatmulFp8Args a = fp8_product(&b);
        a.fast = fast;
        assert_int_equal(run_fp8(&b, &a, &err), ERR_NONE);
        assert_int_equal(b.counts->last_fast, fast);
    }
    close_bench(&b);
}

static void fp8_scales_may_move_from_call_to_call(void **state)
{
    Bench b;
    Err err;
    (void)state;
    open_bench(&b, "", "cublaslt");
    MatmulFp8Args a = fp8_product(&b);
    assert_int_equal(run_fp8(&b, &a, &err), ERR_NONE);
    const int64_t asked = b.counts->asked;
    a.a_inv = a.b_inv;
    assert_int_equal(run_fp8(&b, &a, &err), ERR_NONE);
    assert_true(first_bf16(&b) == 2.25f);
    assert_int_equal(b.counts->asked, asked);
    close_bench(&b);
}

static void refuse_fp8(Bench *b, const MatmulFp8Args *a, const char *why)
{
    Err err;
    assert_int_equal(run_fp8(b, a, &err), ERR_UNSUPPORTED);
    if (!strstr(err.text, why)) fail_msg("'%s' should say '%s'", err.text, why);
}

static void fp8_products_that_are_not_served_say_why(void **state)
{
    Bench b;
    (void)state;
    open_bench(&b, "", "cublaslt");
    MatmulFp8Args a = fp8_product(&b);
    a.K = FK - 8;
    refuse_fp8(&b, &a, "no algorithm for C[32,16] = A B^T, K = 40");
    refuse_fp8(&b, &a, "e5m2 x e4m3 to bf16");
    a = fp8_product(&b);
    a.epilogue = MATMUL_GELU;
    refuse_fp8(&b, &a, "activations");
    a = fp8_product(&b);
    a.bias = b.bias;
    a.bias_dtype = DTYPE_F32;
    refuse_fp8(&b, &a, "bias of C's type");
    a = fp8_product(&b);
    a.C = NULL;
    a.out = (Fp8Out){.q = b.C, .ld_q = FN, .scale = b.aux, .dtype = DTYPE_E4M3};
    refuse_fp8(&b, &a, "results in FP8");
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_with_bias_and_gelu_is_one_call),
        cmocka_unit_test(without_a_fused_algorithm_the_epilogue_is_ours),
        cmocka_unit_test(what_cublaslt_has_no_words_for_is_split),
        cmocka_unit_test(one_operand_alone_may_be_unaligned),
        cmocka_unit_test(timing_adds_to_c_once),
        cmocka_unit_test(the_choice_changes_no_bits),
        cmocka_unit_test(a_plan_asks_for_what_the_run_needs),
        cmocka_unit_test(a_product_that_nothing_serves_is_named),
        cmocka_unit_test(a_product_that_is_refused_late_is_named),
        cmocka_unit_test(a_library_that_does_not_start_says_so),
        cmocka_unit_test(the_library_is_described),
        cmocka_unit_test(more_shapes_than_are_kept_are_asked_for_again),
        cmocka_unit_test(fp8_products_are_scaled_and_get_a_bias),
        cmocka_unit_test(fp8_products_add_to_f32_once),
        cmocka_unit_test(fast_sums_are_asked_for_where_the_call_says_so),
        cmocka_unit_test(fp8_scales_may_move_from_call_to_call),
        cmocka_unit_test(fp8_products_that_are_not_served_say_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
