// test_hopper_sums.c -- matmul_fp8 as hopper_sums: sums of 14 bits, and otherwise the contract.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "kernels/cpu/gemm_fp8.h"
#include "tests/support/op_harness.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void only_sums_differ_from_the_reference(void **state)
{
    Ops *ops = *state;
    Truth *t = mem_alloc(sizeof *t);
    assert_non_null(t);
    truth_init(t);
    for (int v = 0; v < case_table(OP_matmul_fp8)->variants; v++) {
        for (int i = 0; case_mix(i); i++) {
            char why[512] = "";
            Case want, naive, got;
            case_build(&want, OP_matmul_fp8, v, case_mix(i), &t->host);
            case_build(&naive, OP_matmul_fp8, v, case_mix(i), &t->host);
            case_build(&got, OP_matmul_fp8, v, case_mix(i), &t->host);
            const double cut = 0x1p-11 * fmax(1, (double)want.args.matmul_fp8.K / 256);
            for (int k = 0; k < want.n; k++) {
                want.t[k].floor = fmax(want.t[k].floor, cut);
                if (!want.t[0].exact) want.t[k].exact = false; // counts follow what flips
            }
            assert_true(case_run(&want, &t->ref, why) && case_run(&naive, &t->naive, why));
            if (!case_run(&got, ops, why) || !case_matches(&got, &want, &naive, why))
                fail_msg("variant %d, %s: %s", v, case_mix(i)->name, why);
            case_free(&want);
            case_free(&naive);
            case_free(&got);
        }
    }
    mem_free(t);
}

// The sum of n numbers of which the first is `first` and the others are 1.
static float sum_of_ones(const Ops *ops, float first, int64_t n, bool fast)
{
    enum { MOST = 512 };
    _Alignas(16) static uint8_t a[MOST], b[MOST];
    _Alignas(16) static const float one[4] = {1, 1, 1, 1};
    static float scratch[64 * MOST];
    float C = 0;
    Device d;
    device_cpu_init(&d, 1);
    OpCtx cx = {.ops = ops, .device = &d, .scratch = scratch, .scratch_bytes = sizeof scratch};
    for (int64_t k = 0; k < n; k++) {
        a[k] = fp8_from_f32(k ? 1 : first, DTYPE_E5M2);
        b[k] = fp8_from_f32(1, DTYPE_E4M3);
    }
    const MatmulFp8Args m = {.C = &C,
                             .A = a,
                             .B = b,
                             .a_inv = one,
                             .b_inv = one,
                             .M = 1,
                             .N = 1,
                             .K = n,
                             .lda = MOST,
                             .ldb = MOST,
                             .ldc = 1,
                             .fast = fast,
                             .a_dtype = DTYPE_E5M2,
                             .b_dtype = DTYPE_E4M3,
                             .c_dtype = DTYPE_F32};
    assert_int_equal(op_matmul_fp8(&cx, &m, NULL), ERR_NONE);
    return C;
}

static void what_is_fourteen_bits_below_is_lost(void **state)
{
    const Ops *ops = *state;
    assert_true(sum_of_ones(ops, 0x1p13f, 32, true) == 0x1p13f + 31);
    assert_true(sum_of_ones(ops, 0x1p14f, 32, true) == 0x1p14f); // a 1 is half of the last bit
    assert_true(sum_of_ones(ops, 1, 512, true) == 512);
    assert_true(isnan(sum_of_ones(ops, NAN, 64, false)));
}

static void promotion_loses_within_128_of_k_only(void **state)
{
    const Ops *ops = *state;
    assert_true(sum_of_ones(ops, 0x1p14f, 512, true) == 0x1p14f);
    assert_true(sum_of_ones(ops, 0x1p14f, 512, false) == 0x1p14f + 384);
}

static void nobody_gets_it_unasked(void **state)
{
    const Ops *ops = *state;
    Ops *unforced = mem_alloc(sizeof *unforced);
    assert_non_null(unforced);
    *unforced = *ops;
    unforced->info[OP_matmul_fp8].forced = false;
    const MatmulFp8Args a = {0};
    Device d;
    device_cpu_init(&d, 1);
    const OpCtx cx = {.ops = unforced, .device = &d};
    assert_null(op_matmul_fp8_impl(&cx, &a));
    mem_free(unforced);
}

static int open_ops(void **state)
{
    Ops *ops = mem_calloc(1, sizeof *ops);
    if (!ops) return 1;
    ops_init(ops);
    cpu_matmul_fp8_register_hopper_sums(ops);
    *state = ops;
    return ops_force(ops, "matmul_fp8", "hopper_sums", NULL) == ERR_NONE ? 0 : 1;
}

static int close_ops(void **state)
{
    mem_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_sums_differ_from_the_reference),
        cmocka_unit_test(what_is_fourteen_bits_below_is_lost),
        cmocka_unit_test(promotion_loses_within_128_of_k_only),
        cmocka_unit_test(nobody_gets_it_unasked),
    };
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
