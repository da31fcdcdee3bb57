// test_matmul_fp8_hopper.c -- every FP8 instance of kernels/cuda/matmul_hopper*.cuh, at shapes hard
// for it: test_matmul_hopper.c for FP8, where the way out is longer than the way in.
//
// Exact cases have powers of two for data and small sums, and ReLU for activation. Then neither the
// order of a sum nor its number of bits plays a role, and everything is compared bit for bit: q,
// its transpose with the zeros behind it, the largest value, the counts, and the sums of columns.
//
//     test_matmul_fp8_hopper [quick]      quick: one small case of a kind, for the race checker
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_kernels.h"
#include "tests/kernels/hopper_problem.h"
#include "tests/kernels/op_cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { BIG = 0, PROMOTED = 3 };
enum {
    BIAS = 1,
    ADD = 2,
    NO_C = 4,
    NO_AUX = 8,
    Q = 16,
    QT = 32,
    DBIAS = 64,
    DBIAS_ADD = 128,
    EXACT = 256,
    TINY = 512,      // a scale with which much becomes 0; else one that clamps some
    WITH_NAN = 1024, // in A
    LONG_QT = 2048,  // rows of the transpose reach behind the last tile
    BOTH = Q | QT,
};

typedef struct Kind { // what an instance computes
    const char *name;
    bool fast, f32;
    MatmulEpilogue epilogue;
} Kind;

static const Kind kinds[] = {
    {"fast", true, false, MATMUL_PLAIN},
    {"fast gelu", true, false, MATMUL_GELU},
    {"promoted", false, false, MATMUL_PLAIN},
    {"promoted f32", false, true, MATMUL_PLAIN},
    {"promoted dgelu", false, false, MATMUL_DGELU},
};
enum { FAST, FAST_GELU, PLAIN, PLAIN_F32, DGELU, KINDS };

typedef struct Problem {
    const Kind *kind;
    Shape s;
    int flags, splits;
    Activation act;
} Problem;

static size_t planned_scratch(const MatmulFp8Args *a, const OpCtx *cx)
{
    (void)cx;
    return hopper_matmul_fp8_plan_scratch(a, forced.plan);
}

static Status planned(const MatmulFp8Args *a, OpCtx *cx, Err *err)
{
    const CudaDevice d = forced_device(cx->device);
    return device_cuda_queued(cx->device, "matmul_fp8", "planned",
                              hopper_matmul_fp8_planned(&d, a, forced.plan, cx->scratch), err);
}

static void build_out(Case *c, MatmulFp8Args *a, const Problem *p)
{
    const DType t = a->a_dtype;
    // Results are about 1, the largest of them 4 to 30. Half of the smallest number is max / 2^19
    // (e4m3) and max / 2^33.
    const float clamps = p->flags & EXACT ? 0x1p-3f : 0x1p-2f;
    const float tiny = t == DTYPE_E4M3 ? 0x1p-18f : 0x1p-32f;
    const float scale = p->flags & TINY ? fp8_max(t) * tiny : fp8_max(t) * clamps;
    const Fp8OutCase k = {.q = p->flags & Q,
                          .qt = p->flags & QT,
                          .amax = true,
                          .count = true,
                          .exact = p->flags & EXACT,
                          .floor = 0x1p-7,
                          .ld_q = pitch(a->N, t, p->s.pad),
                          .ld_qt = pitch(a->M, t, p->flags & LONG_QT ? 9 : p->s.pad),
                          .scale = scale,
                          .seen = -1};
    a->out.dtype = t;
    case_fp8_out(c, &a->out, a->M, a->N, &k);
}

static void build(Case *c, const void *problem, Device *d)
{
    const Problem *p = problem;
    const Kind *k = p->kind;
    const int64_t M = p->s.M, N = p->s.N, K = p->s.K;
    const DType biases[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    const bool exact = p->flags & EXACT;
    *c = (Case){.op = OP_matmul_fp8, .device = d, .seed = 78};
    MatmulFp8Args *a = &c->args.matmul_fp8;
    *a = (MatmulFp8Args){.M = M, .N = N, .K = K, .fast = k->fast, .epilogue = k->epilogue};
    a->a_dtype = k->fast ? DTYPE_E4M3 : DTYPE_E5M2;
    a->b_dtype = DTYPE_E4M3;
    a->c_dtype = k->f32 ? DTYPE_F32 : DTYPE_BF16;
    a->bias_dtype = biases[M % 3];
    a->lda = pitch(K, a->a_dtype, p->s.pad);
    a->ldb = pitch(K, a->b_dtype, 2 * p->s.pad);
    a->ldc = pitch(N, a->c_dtype, p->s.pad);
    a->accumulate = p->flags & ADD;
    a->act = p->act;
    Tensor *A = case_operand(c, TENSOR_IN, "A", a->a_dtype, M, K, a->lda, exact);
    if (p->flags & WITH_NAN) dtype_store(tensor_host(A), a->a_dtype, M / 2 * a->lda, NAN);
    a->A = tensor_dev(A);
    a->B = tensor_dev(case_operand(c, TENSOR_IN, "B", a->b_dtype, N, K, a->ldb, exact));
    a->a_inv = case_inv(c, "a_inv", exact ? 0.25f : 0.77f, a->a_dtype);
    a->b_inv = case_inv(c, "b_inv", exact ? 0.125f : (float)(1 / sqrt((double)K)), a->b_dtype);
    if (p->flags & BIAS)
        a->bias = tensor_dev(case_operand(c, TENSOR_IN, "bias", a->bias_dtype, 1, N, N, exact));
    const double flips = k->epilogue == MATMUL_GELU ? 0x1p-7 : 0; // aux rounds the other way
    if (!(p->flags & NO_C)) {
        const TensorRole role = a->accumulate ? TENSOR_INOUT : TENSOR_OUT;
        Tensor *C = case_operand(c, role, "C", a->c_dtype, M, N, a->ldc, exact);
        C->floor = flips;
        a->C = tensor_dev(C);
    }
    if (k->epilogue != MATMUL_PLAIN && !(p->flags & NO_AUX)) {
        const TensorRole role = k->epilogue == MATMUL_GELU ? TENSOR_OUT : TENSOR_IN;
        a->aux = tensor_dev(case_operand(c, role, "aux", a->c_dtype, M, N, a->ldc, exact));
    }
    if (p->flags & (DBIAS | DBIAS_ADD)) {
        a->dbias_accumulate = p->flags & DBIAS_ADD;
        const TensorRole role = a->dbias_accumulate ? TENSOR_INOUT : TENSOR_OUT;
        Tensor *sums = case_operand(c, role, "dbias", DTYPE_F32, 1, N, N, exact);
        sums->floor = 0x1p-7; // roundings that flip
        a->dbias = tensor_dev(sums);
    }
    if (p->flags & BOTH) build_out(c, a, p);
}

static void check(const Problem *p)
{
    static Ops ops;
    Case got;
    char why[512] = "";
    forced.plan = (HopperPlan){p->kind->fast ? BIG : PROMOTED, p->splits};
    forced.sms = p->s.sms;
    memset(&ops, 0, sizeof ops);
    ops_add_matmul_fp8(
        &ops, (Impl_matmul_fp8){.impl = "planned", .scratch = planned_scratch, .run = planned});
    build(&got, p, &gpu);
    const char *refused = NULL;
    if (!hopper_matmul_fp8_supports(device_cuda_of(&gpu), &got.args.matmul_fp8, &refused))
        fail_msg("%s: %s", p->kind->name, refused);
    const bool good = comes_out_right(&got, &ops, build, p, why);
    case_free(&got);
    if (!good)
        fail_msg("%s %dx%dx%d flags %d act %d splits %d SMs %d pad %d: %s", p->kind->name,
                 (int)p->s.M, (int)p->s.N, (int)p->s.K, p->flags, (int)p->act, p->splits, p->s.sms,
                 p->s.pad, why);
}

static void run(int kind, int splits, int flags, Activation act, Shape s)
{
    check(&(Problem){.kind = &kinds[kind], .s = s, .flags = flags, .act = act, .splits = splits});
}

// ---- tests --------------------------------------------------------------------------------------

// K of half a wgmma, of one k-block and less, of many and of an odd number; ragged M and N.
static void powers_of_two_come_out_exact(void **state)
{
    (void)state;
    run(FAST, 1, EXACT | BIAS, 0, (Shape){131, 264, 16, 2, 0});
    run(FAST, 1, EXACT, 0, (Shape){40, 27, 3072, 2, 1});
    run(FAST_GELU, 1, EXACT | BIAS | BOTH | TINY, ACT_RELU, (Shape){136, 104, 512, 2, 0});
    run(FAST_GELU, 1, EXACT | NO_C | NO_AUX | BOTH | LONG_QT, ACT_RELU, (Shape){37, 72, 768, 2, 0});
    run(PLAIN, 1, EXACT, 0, (Shape){131, 136, 16, 2, 1});
    run(PLAIN, 1, EXACT | ADD, 0, (Shape){131, 136, 272, 2, 1});
    run(PLAIN_F32, 1, EXACT | ADD, 0, (Shape){40, 131, 512, 2, 0});
    run(PLAIN_F32, 3, EXACT | ADD, 0, (Shape){40, 51, 3072, 4, 1});
    run(DGELU, 1, EXACT | BOTH | NO_C | DBIAS, ACT_RELU, (Shape){136, 104, 768, 2, 0});
    run(DGELU, 1, EXACT | Q | DBIAS_ADD, ACT_RELU, (Shape){61, 77, 16, 2, 1});
    run(DGELU, 1, EXACT | QT | TINY, ACT_RELU, (Shape){129, 128, 384, 2, 0});
}

// Few SMs walk over many tiles: the ring turns, buffers alternate across tiles.
static void hard_shapes_come_out_right(void **state)
{
    static const Shape shapes[] = {
        {1, 1, 1, 2, 0},       {264, 264, 264, 2, 0}, {37, 523, 61, 2, 1},
        {129, 72, 1000, 4, 2}, {257, 40, 128, 2, 0},
    };
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < (int)LT_COUNT(shapes); i++) {
            const MatmulEpilogue e = kinds[kind].epilogue;
            const int flags = e == MATMUL_GELU ? BIAS | BOTH : e == MATMUL_DGELU ? BOTH | DBIAS : 0;
            run(kind, 1, flags, (Activation)(i % 2), shapes[i]);
        }
}

static void every_output_may_be_left_out(void **state)
{
    (void)state;
    const Shape s = {72, 72, 136, 2, 0};
    run(FAST_GELU, 1, BIAS, ACT_GELU_TANH, s); // as in a step of current scaling
    run(FAST_GELU, 1, NO_AUX, ACT_GELU_ERF, s);
    run(FAST_GELU, 1, NO_C | Q, ACT_GELU_TANH, s);
    run(FAST_GELU, 1, NO_C | QT, ACT_GELU_TANH, s);
    run(DGELU, 1, 0, ACT_GELU_TANH, s);
    run(DGELU, 1, DBIAS, ACT_GELU_ERF, s);
    run(DGELU, 1, NO_C | QT | DBIAS, ACT_GELU_TANH, s);
    run(PLAIN, 1, BIAS, 0, s);
    run(PLAIN_F32, 1, BIAS | ADD, 0, s);
}

static void nan_is_kept_and_counted(void **state)
{
    (void)state;
    run(FAST_GELU, 1, BIAS | BOTH | WITH_NAN, ACT_GELU_TANH, (Shape){72, 72, 136, 2, 0});
    run(DGELU, 1, BOTH | WITH_NAN, ACT_GELU_TANH, (Shape){72, 72, 136, 2, 0});
}

static void parts_of_k_are_summed_in_order(void **state)
{
    (void)state;
    run(PLAIN_F32, 4, ADD, 0, (Shape){136, 136, 904, 4, 0}); // 1 or 2 k-blocks
    run(PLAIN_F32, 5, 0, 0, (Shape){264, 72, 640, 6, 1});    // 1
    run(PLAIN, 2, BIAS, 0, (Shape){40, 136, 520, 4, 0});
    run(PLAIN, 2, ADD, 0, (Shape){40, 136, 520, 4, 0});
    run(DGELU, 3, BOTH | DBIAS, ACT_GELU_TANH, (Shape){136, 72, 712, 4, 0});
}

// One small case of each kind.
static void quick_cases_come_out_right(void **state)
{
    (void)state;
    run(FAST, 1, BIAS, 0, (Shape){136, 264, 328, 2, 0});
    run(FAST_GELU, 1, EXACT | BIAS | BOTH, ACT_RELU, (Shape){136, 136, 136, 2, 0});
    run(PLAIN, 1, ADD, 0, (Shape){72, 72, 640, 2, 0});
    run(PLAIN_F32, 2, ADD, 0, (Shape){72, 72, 520, 4, 0});
    run(DGELU, 1, EXACT | BOTH | DBIAS | TINY, ACT_RELU, (Shape){136, 136, 264, 2, 0});
}

static void parts_are_chosen_by_the_shape(void **state)
{
    (void)state;
    MatmulFp8Args a = {.M = 16384, .N = 768, .K = 3072, .fast = true};
    a.a_dtype = a.b_dtype = DTYPE_E4M3;
    a.c_dtype = DTYPE_BF16;
    HopperPlan p = hopper_matmul_fp8_plan(&a);
    assert_int_equal(p.tile, BIG);
    assert_int_equal(p.splits, 1);
    a = (MatmulFp8Args){.M = 768, .N = 768, .K = 16384, .c_dtype = DTYPE_F32};
    a.a_dtype = DTYPE_E5M2;
    a.b_dtype = DTYPE_E4M3;
    p = hopper_matmul_fp8_plan(&a);
    assert_int_equal(p.tile, PROMOTED);
    assert_in_range(p.splits, 2, 4);
    assert_true(hopper_matmul_fp8_plan_scratch(&a, p) >= (size_t)(768 * 768 * 4 * p.splits));
}

static void what_has_no_kernel_is_refused_with_a_reason(void **state)
{
    (void)state;
    const CudaDevice *d = device_cuda_of(&gpu);
    static char memory[64] __attribute__((aligned(64)));
    const float *one = (const float *)memory;
    const MatmulFp8Args good = {.C = memory,
                                .A = memory,
                                .B = memory,
                                .a_inv = one,
                                .b_inv = one,
                                .M = 8,
                                .N = 8,
                                .K = 8,
                                .lda = 16,
                                .ldb = 16,
                                .ldc = 8,
                                .fast = true,
                                .a_dtype = DTYPE_E4M3,
                                .b_dtype = DTYPE_E4M3,
                                .c_dtype = DTYPE_BF16};
    const char *why = "";
    assert_true(hopper_matmul_fp8_supports(d, &good, &why));
    MatmulFp8Args bad[11];
    for (int i = 0; i < (int)LT_COUNT(bad); i++) bad[i] = good;
    bad[0].fast = false;
    bad[1].b_dtype = DTYPE_E5M2;
    bad[2].C = memory + 8;
    bad[3].ldc = 12;
    bad[4].c_dtype = DTYPE_F16;
    bad[5].c_dtype = DTYPE_F32; // of e4m3
    bad[6].K = 0;
    bad[7].epilogue = MATMUL_DGELU;        // of e4m3
    bad[8].out.scale = (Fp8Scale *)memory; // of a plain product
    bad[9].epilogue = MATMUL_GELU, bad[9].out.scale = (Fp8Scale *)memory;
    bad[9].out.dtype = DTYPE_E5M2;
    bad[10].K = (int64_t)1 << 31, bad[10].lda = bad[10].ldb = bad[10].K;
    for (int i = 0; i < (int)LT_COUNT(bad); i++) {
        why = NULL;
        if (hopper_matmul_fp8_supports(d, &bad[i], &why) || !why) fail_msg("%d is not refused", i);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest quick[] = {cmocka_unit_test(quick_cases_come_out_right)};
    const struct CMUnitTest all[] = {
        cmocka_unit_test(parts_are_chosen_by_the_shape),
        cmocka_unit_test(what_has_no_kernel_is_refused_with_a_reason),
        cmocka_unit_test(quick_cases_come_out_right),
        cmocka_unit_test(powers_of_two_come_out_exact),
        cmocka_unit_test(every_output_may_be_left_out),
        cmocka_unit_test(hard_shapes_come_out_right),
        cmocka_unit_test(nan_is_kept_and_counted),
        cmocka_unit_test(parts_of_k_are_summed_in_order),
    };
    if (argc > 1 && strcmp(argv[1], "quick") == 0)
        return cmocka_run_group_tests(quick, open_gpu, close_gpu);
    return cmocka_run_group_tests(all, open_gpu, close_gpu);
}
