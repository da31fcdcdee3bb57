// test_matmul_fp8_cpu.c -- FP8 products on every instruction set: each FP8 number is taken for what
// it is. Shapes and outputs: test_op_matrix.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { CODES = 256, ROW = 16 };

typedef struct Numbers {
    _Alignas(16) uint8_t all[CODES * ROW]; // row i: number i, then NaN
    _Alignas(16) uint8_t one[ROW];
    _Alignas(16) float inv[4];
    float C[CODES];
} Numbers;

static void multiply_by_one(OpCtx *cx, Numbers *x, DType t, bool is_b)
{
    MatmulFp8Args a = {.C = x->C, .K = 1, .lda = ROW, .ldb = ROW, .c_dtype = DTYPE_F32};
    a.A = is_b ? x->one : x->all;
    a.B = is_b ? x->all : x->one;
    a.M = is_b ? 1 : CODES;
    a.N = a.ldc = is_b ? CODES : 1;
    a.a_dtype = is_b ? DTYPE_E4M3 : t;
    a.b_dtype = is_b ? t : DTYPE_E4M3;
    a.a_inv = a.b_inv = x->inv;
    OpPlan plan = {0};
    cx->plan = &plan;
    assert_int_equal(op_matmul_fp8(cx, &a, NULL), ERR_NONE);
    cx->plan = NULL;
    cx->scratch = mem_alloc(plan.scratch_bytes + 1);
    cx->scratch_bytes = plan.scratch_bytes;
    assert_non_null(cx->scratch);
    assert_int_equal(op_matmul_fp8(cx, &a, NULL), ERR_NONE);
    mem_free(cx->scratch);
}

static void every_number_times_one_is_itself(void **state)
{
    (void)state;
    static Numbers x = {.inv = {1, 1, 1, 1}};
    const char *names[8];
    const int n = cpu_list(names);
    for (int i = 0; i < CODES * ROW; i++) x.all[i] = i % ROW ? 0x7f : (uint8_t)(i / ROW);
    x.one[0] = fp8_from_f32(1, DTYPE_E4M3);
    for (int isa = 0; isa < n; isa++) {
        Ops *ops = mem_alloc(sizeof *ops);
        assert_non_null(ops);
        CpuChoice choice;
        Device d;
        ops_init(ops);
        assert_int_equal(cpu_open(ops, names[isa], &choice, NULL), ERR_NONE);
        device_cpu_init(&d, 2);
        OpCtx cx = {.ops = ops, .device = &d};
        for (int k = 0; k < 4; k++) {
            const DType t = k % 2 ? DTYPE_E5M2 : DTYPE_E4M3;
            multiply_by_one(&cx, &x, t, k / 2);
            for (int i = 0; i < CODES; i++) {
                const float want = fp8_to_f32((uint8_t)i, t);
                if (isnan(want) ? !isnan(x.C[i]) : x.C[i] != want)
                    fail_msg("%s, %s 0x%02x: %a is taken for %a", names[isa], dtype_name(t),
                             (unsigned)i, (double)want, (double)x.C[i]);
            }
        }
        mem_free(ops);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_number_times_one_is_itself)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
