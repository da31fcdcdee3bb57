// test_cpu_open.c -- kernels/cpu/cpu.h: the choice of an instruction set.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/cpu.h"
#include "engine/base/mem.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static const MatmulArgs large = {.M = 64,
                                 .N = 64,
                                 .K = 64,
                                 .trans_b = true,
                                 .ab_dtype = DTYPE_BF16,
                                 .c_dtype = DTYPE_BF16};
static const MatmulArgs one_row = {.M = 1,
                                   .N = 64,
                                   .K = 64,
                                   .trans_b = true,
                                   .ab_dtype = DTYPE_BF16,
                                   .c_dtype = DTYPE_BF16};

// impl: what then serves the product.
static Status open_for(const MatmulArgs *product, const char *wish, CpuChoice *choice, Err *err,
                       char impl[32])
{
    Ops *ops = mem_alloc(sizeof *ops);
    assert_non_null(ops);
    ops_init(ops);
    const Status s = cpu_open(ops, wish, choice, err);
    const OpCtx cx = {.ops = ops};
    strcpy(impl, op_matmul_impl(&cx, product));
    mem_free(ops);
    return s;
}

static Status open_isa(const char *wish, CpuChoice *choice, Err *err, char impl[32])
{
    return open_for(&large, wish, choice, err, impl);
}

static void every_listed_set_opens_under_its_name(void **state)
{
    (void)state;
    const char *names[8];
    const int n = cpu_list(names);
    assert_in_range(n, 1, 8);
    for (int i = 0; i < n; i++) {
        CpuChoice choice;
        Err err;
        char impl[32];
        assert_int_equal(open_isa(names[i], &choice, &err, impl), ERR_NONE);
        assert_string_equal(choice.isa, names[i]);
        assert_string_equal(impl, names[i]);
        assert_true(choice.why[0] != '\0');
        assert_true(cpu_peak(names[i], 1, 0.001) > 1e6);
    }
}

static void one_row_goes_to_the_kernel_that_packs_nothing(void **state)
{
    (void)state;
    const char *names[8];
    const int n = cpu_list(names);
    for (int i = 0; i < n; i++) {
        CpuChoice choice;
        Err err;
        char impl[32];
        assert_int_equal(open_for(&one_row, names[i], &choice, &err, impl), ERR_NONE);
        assert_memory_equal(impl, "gemv_", 5);
    }
}

static void auto_names_its_choice_and_that_opens_the_same(void **state)
{
    (void)state;
    CpuChoice choice, again;
    Err err;
    char impl[32], same[32];
    assert_int_equal(open_isa("auto", &choice, &err, impl), ERR_NONE);
    assert_string_equal(choice.isa, impl);
    assert_int_equal(open_isa(choice.isa, &again, &err, same), ERR_NONE);
    assert_string_equal(impl, same);
}

static void a_set_that_is_not_here_is_refused_and_leaves_the_table(void **state)
{
    (void)state;
    static const char *const wishes[] = {"sse9", "neon2", ""};
    const char *names[8];
    cpu_list(names);
    for (size_t i = 0; i < LT_COUNT(wishes); i++) {
        CpuChoice choice;
        Err err;
        char impl[32];
        assert_int_equal(open_isa(wishes[i], &choice, &err, impl), ERR_UNSUPPORTED);
        assert_string_equal(impl, "ref");
        assert_non_null(strstr(err.text, names[0])); // what there is
    }
    assert_true(cpu_peak("sse9", 1, 0.001) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_listed_set_opens_under_its_name),
        cmocka_unit_test(one_row_goes_to_the_kernel_that_packs_nothing),
        cmocka_unit_test(auto_names_its_choice_and_that_opens_the_same),
        cmocka_unit_test(a_set_that_is_not_here_is_refused_and_leaves_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
