// test_matmul_hopper.c -- every instance of kernels/cuda/matmul_hopper*.cu, at shapes hard for it.
//
// The op itself chooses its tile by the shape, and the large tiles by large shapes only. Here the
// tile, the parts of K and the number of SMs are the test's, so that few SMs walk over many tiles,
// the ring turns many times, and parts have unequal lengths. What is checked beside the numbers:
// tests/support/op_harness.h.
//
//     test_matmul_hopper [quick]      quick: one small case of a kind, for the race checker
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_kernels.h"
#include "tests/kernels/hopper_problem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { BIG, PINGPONG, SMALL };
enum { BIAS = 1, ADD = 2, NO_AUX = 4, F16 = 8, HUGE_VALUES = 16 };

typedef struct Kind { // what an instance computes
    const char *name;
    bool ta, tb, f32;
    MatmulEpilogue epilogue;
    bool big, pingpong; // has these tiles, too
} Kind;

static const Kind kinds[] = {
    {"NT", false, true, false, MATMUL_PLAIN, true, true},
    {"NN", false, false, false, MATMUL_PLAIN, true, true},
    {"TN f32", true, false, true, MATMUL_PLAIN, true, false},
    {"NT f32", false, true, true, MATMUL_PLAIN, false, false},
    {"NT gelu", false, true, false, MATMUL_GELU, true, true},
    {"NN dgelu", false, false, false, MATMUL_DGELU, true, true},
};
enum { NT, NN, TN_F32, NT_F32, NT_GELU, NN_DGELU, KINDS };

typedef struct Problem {
    const Kind *kind;
    Shape s;
    int flags;
    Activation act;
    HopperPlan plan;
} Problem;

static size_t planned_scratch(const MatmulArgs *a, const OpCtx *cx)
{
    (void)cx;
    return hopper_matmul_plan_scratch(a, forced.plan);
}

static Status planned(const MatmulArgs *a, OpCtx *cx, Err *err)
{
    const CudaDevice d = forced_device(cx->device);
    return device_cuda_queued(cx->device, "matmul", "planned",
                              hopper_matmul_planned(&d, a, forced.plan, cx->scratch), err);
}

static void build(Case *c, const void *problem, Device *d)
{
    const Problem *p = problem;
    const Kind *k = p->kind;
    const int64_t M = p->s.M, N = p->s.N, K = p->s.K;
    const DType ab = p->flags & F16 ? DTYPE_F16 : DTYPE_BF16, ct = k->f32 ? DTYPE_F32 : ab;
    const DType biases[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    *c = (Case){.op = OP_matmul, .device = d, .seed = 77};
    MatmulArgs *a = &c->args.matmul;
    *a = (MatmulArgs){.M = M, .N = N, .K = K, .trans_a = k->ta, .trans_b = k->tb};
    a->lda = pitch(k->ta ? M : K, ab, p->s.pad);
    a->ldb = pitch(k->tb ? K : N, ab, p->s.pad);
    a->ldc = pitch(N, ct, p->s.pad);
    a->accumulate = (p->flags & ADD) != 0;
    a->epilogue = k->epilogue;
    a->act = p->act;
    a->ab_dtype = ab;
    a->c_dtype = ct;
    a->bias_dtype = biases[M % 3];
    const double scale = 1 / sqrt((double)K), size = p->flags & HUGE_VALUES ? 1e25 : 1;
    a->A =
        tensor_dev(case_tensor(c, TENSOR_IN, "A", ab, k->ta ? K : M, k->ta ? M : K, a->lda, size));
    a->B =
        tensor_dev(case_tensor(c, TENSOR_IN, "B", ab, k->tb ? N : K, k->tb ? K : N, a->ldb, scale));
    if (p->flags & BIAS)
        a->bias = tensor_dev(case_tensor(c, TENSOR_IN, "bias", a->bias_dtype, 1, N, N, 1));
    Tensor *C = case_tensor(c, a->accumulate ? TENSOR_INOUT : TENSOR_OUT, "C", ct, M, N, a->ldc, 1);
    if (k->epilogue == MATMUL_GELU) C->floor = ab == DTYPE_BF16 ? 0x1p-7 : 0x1p-10; // aux flips
    a->C = tensor_dev(C);
    if (k->epilogue == MATMUL_PLAIN || p->flags & NO_AUX) return;
    const TensorRole role = k->epilogue == MATMUL_GELU ? TENSOR_OUT : TENSOR_IN;
    a->aux = tensor_dev(case_tensor(c, role, "aux", ct, M, N, a->ldc, 2 * size));
}

static void check(const Problem *p)
{
    static Ops ops;
    Case got;
    char why[512] = "";
    forced.plan = p->plan;
    forced.sms = p->s.sms;
    memset(&ops, 0, sizeof ops);
    ops_add_matmul(&ops,
                   (Impl_matmul){.impl = "planned", .scratch = planned_scratch, .run = planned});
    build(&got, p, &gpu);
    assert_true(hopper_matmul_allows(&got.args.matmul, p->plan));
    const bool good = comes_out_right(&got, &ops, build, p, why);
    case_free(&got);
    if (!good)
        fail_msg("%s %dx%dx%d flags %d act %d tile %d splits %d SMs %d pad %d: %s", p->kind->name,
                 (int)p->s.M, (int)p->s.N, (int)p->s.K, p->flags, (int)p->act, p->plan.tile,
                 p->plan.splits, p->s.sms, p->s.pad, why);
}

static void run(int kind, int tile, int splits, int flags, Activation act, Shape s)
{
    check(&(Problem){
        .kind = &kinds[kind], .s = s, .flags = flags, .act = act, .plan = {tile, splits}});
}

static bool has(int kind, int tile)
{
    return tile == SMALL || (tile == BIG ? kinds[kind].big : kinds[kind].pingpong);
}

// ---- tests --------------------------------------------------------------------------------------

// Tiles +- 8, primes, one element; one tile and many; several turns of the ring.
static void hard_shapes_come_out_right(void **state)
{
    static const Shape shapes[] = {
        {128, 256, 256, 4, 0}, {136, 264, 72, 4, 1},  {120, 248, 56, 4, 0},  {88, 104, 136, 4, 0},
        {8, 8, 8, 2, 0},       {384, 512, 320, 2, 0}, {392, 520, 328, 4, 2}, {37, 27, 13, 2, 0},
        {1, 257, 64, 2, 0},    {131, 266, 200, 2, 0}, {129, 1, 65, 2, 1},
    };
    (void)state;
    for (int kind = NT; kind <= TN_F32; kind++)
        for (int tile = BIG; tile <= SMALL; tile++)
            for (int i = 0; i < (int)LT_COUNT(shapes) && has(kind, tile); i++)
                run(kind, tile, 1, i % 2 ? BIAS : 0, 0, shapes[i]);
}

static void every_instance_and_epilogue_comes_out_right(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        for (int tile = BIG; tile <= SMALL; tile++) {
            if (!has(kind, tile)) continue;
            const bool plain = kinds[kind].epilogue == MATMUL_PLAIN;
            for (int i = 0; i < 3; i++) {
                const int flags = plain ? (i == 0   ? 0
                                           : i == 1 ? ADD
                                                    : BIAS | ADD)
                                        : (i == 0   ? BIAS
                                           : i == 1 ? BIAS | NO_AUX
                                                    : 0);
                const int keep = kinds[kind].epilogue == MATMUL_DGELU ? flags & ~NO_AUX : flags;
                run(kind, tile, 1, keep, (Activation)i, (Shape){131 + i, 328, 200, 2, 1});
            }
            run(kind, tile, 1, BIAS, ACT_GELU_TANH, (Shape){456, 264, 456, 4, 1});
        }
    }
}

static void activations_of_huge_values_are_no_nan(void **state)
{
    (void)state;
    for (int act = ACT_GELU_TANH; act <= ACT_RELU; act++)
        for (int kind = NT_GELU; kind <= NN_DGELU; kind++)
            run(kind, SMALL, 1, HUGE_VALUES, (Activation)act, (Shape){64, 72, 64, 2, 0});
}

static void f16_operands_come_out_right(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        if (kind == NT_F32) continue;
        run(kind, SMALL, 1, F16, ACT_GELU_TANH, (Shape){136, 264, 328, 3, 0});
        run(kind, SMALL, 1, F16 | BIAS, ACT_GELU_ERF, (Shape){77, 51, 61, 2, 1});
    }
    run(NN, SMALL, 1, F16 | ADD, 0, (Shape){136, 264, 328, 3, 0});
}

static void parts_of_k_are_summed_in_order(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        run(kind, SMALL, 4, BIAS, ACT_GELU_TANH, (Shape){136, 264, 712, 3, 0}); // 1 or 2 k-blocks
        run(kind, SMALL, 3, 0, ACT_GELU_ERF, (Shape){100, 72, 1480, 5, 1});
    }
    run(NN, SMALL, 5, ADD, 0, (Shape){136, 264, 712, 2, 1});
    run(TN_F32, SMALL, 5, ADD, 0, (Shape){136, 264, 712, 2, 1});
    run(TN_F32, SMALL, 8, ADD, 0, (Shape){72, 264, 2056, 24, 0});
}

static void rows_in_more_than_one_group_come_out_right(void **state)
{
    (void)state;
    for (int tile = BIG; tile <= SMALL; tile++)
        run(NT, tile, 1, 0, 0, (Shape){2312, 264, 64, 6, 0});
}

// One small case of each kind of main loop and epilogue.
static void quick_cases_come_out_right(void **state)
{
    (void)state;
    run(NT, BIG, 1, BIAS, 0, (Shape){136, 264, 328, 2, 0});
    run(NT, SMALL, 3, BIAS, 0, (Shape){136, 72, 712, 3, 0});
    run(NN, PINGPONG, 1, ADD, 0, (Shape){200, 264, 200, 2, 1});
    run(TN_F32, BIG, 1, ADD, 0, (Shape){136, 72, 392, 2, 1});
    run(TN_F32, SMALL, 3, ADD, 0, (Shape){136, 72, 456, 2, 0});
    run(NT_GELU, PINGPONG, 1, BIAS, ACT_GELU_TANH, (Shape){136, 264, 136, 2, 0});
    run(NT_GELU, SMALL, 2, BIAS, ACT_GELU_ERF, (Shape){72, 136, 328, 2, 0});
    run(NN_DGELU, SMALL, 1, 0, ACT_RELU, (Shape){136, 136, 200, 2, 0});
    run(NT_GELU, SMALL, 1, F16 | BIAS, ACT_GELU_TANH, (Shape){136, 72, 200, 2, 0});
    run(TN_F32, SMALL, 2, F16 | ADD, 0, (Shape){72, 136, 328, 2, 1});
}

static void the_tile_is_chosen_by_the_shape(void **state)
{
    (void)state;
    MatmulArgs a = {.M = 16384, .N = 3072, .K = 768, .trans_b = true};
    a.ab_dtype = a.c_dtype = DTYPE_BF16;
    assert_int_equal(hopper_matmul_plan(&a).tile, BIG);
    a.K = 64; // next to no work for an epilogue as long as ever
    assert_int_equal(hopper_matmul_plan(&a).tile, PINGPONG);
    a.M = 64, a.N = 768, a.K = 3072;
    assert_int_equal(hopper_matmul_plan(&a).tile, SMALL);
    a = (MatmulArgs){.M = 768, .N = 768, .K = 16384, .trans_a = true, .c_dtype = DTYPE_F32};
    a.ab_dtype = DTYPE_BF16;
    const HopperPlan p = hopper_matmul_plan(&a);
    assert_int_equal(p.tile, SMALL);
    assert_in_range(p.splits, 2, 4);
    assert_true(hopper_matmul_plan_scratch(&a, p) >= (size_t)(768 * 768 * 4 * p.splits));
}

static void what_tma_cannot_take_is_refused_with_a_reason(void **state)
{
    (void)state;
    const CudaDevice *d = device_cuda_of(&gpu);
    static char memory[64] __attribute__((aligned(64)));
    const MatmulArgs good = {.C = memory,
                             .A = memory,
                             .B = memory,
                             .M = 8,
                             .N = 8,
                             .K = 8,
                             .lda = 8,
                             .ldb = 8,
                             .ldc = 8,
                             .trans_b = true,
                             .ab_dtype = DTYPE_BF16,
                             .c_dtype = DTYPE_BF16};
    const char *why = "";
    assert_true(hopper_matmul_supports(d, &good, &why));
    MatmulArgs bad[11];
    for (int i = 0; i < (int)LT_COUNT(bad); i++) bad[i] = good;
    bad[0].lda = 12;
    bad[1].A = memory + 2;
    bad[2].C = memory + 8;
    bad[3].ab_dtype = bad[3].c_dtype = DTYPE_F32;
    bad[4].trans_a = true;
    bad[5].K = 0;
    bad[6].M = 0;
    bad[7].c_dtype = DTYPE_F16;
    bad[8].K = (int64_t)1 << 31, bad[8].lda = bad[8].ldb = bad[8].K;
    bad[9].epilogue = MATMUL_DGELU; // not with this transposition
    bad[10].epilogue = MATMUL_GELU, bad[10].act = ACT_TANH;
    for (int i = 0; i < (int)LT_COUNT(bad); i++) {
        why = NULL;
        if (hopper_matmul_supports(d, &bad[i], &why) || !why) fail_msg("%d is not refused", i);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest quick[] = {cmocka_unit_test(quick_cases_come_out_right)};
    const struct CMUnitTest all[] = {
        cmocka_unit_test(the_tile_is_chosen_by_the_shape),
        cmocka_unit_test(what_tma_cannot_take_is_refused_with_a_reason),
        cmocka_unit_test(quick_cases_come_out_right),
        cmocka_unit_test(every_instance_and_epilogue_comes_out_right),
        cmocka_unit_test(hard_shapes_come_out_right),
        cmocka_unit_test(activations_of_huge_values_are_no_nan),
        cmocka_unit_test(f16_operands_come_out_right),
        cmocka_unit_test(parts_of_k_are_summed_in_order),
        cmocka_unit_test(rows_in_more_than_one_group_come_out_right),
    };
    if (argc > 1 && strcmp(argv[1], "quick") == 0)
        return cmocka_run_group_tests(quick, open_gpu, close_gpu);
    return cmocka_run_group_tests(all, open_gpu, close_gpu);
}
