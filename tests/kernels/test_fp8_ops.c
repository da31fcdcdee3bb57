// test_fp8_ops.c -- what fp8_quantize and fp8_update mean, by small examples on the references:
// the numbers, the guards of the scales, and what the checks refuse. (The op matrix compares every
// other implementation with these references.)
//
// SPDX-License-Identifier: MIT
#include "kernels/ops.h"
#include "kernels/ref/ref.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MUST(call) assert_int_equal((call), ERR_NONE)

// ---- fp8_quantize -------------------------------------------------------------------------------

typedef struct Quantized { // of x [2,3]
    _Alignas(16) uint8_t q[2][16], qt[3][16];
    _Alignas(16) Fp8Scale scale;
    float amax, dbias[3];
    Fp8Count count;
} Quantized;

static Fp8QuantizeArgs args_of(Quantized *z, const float x[6], DType t, float scale)
{
    memset(z, 0x5a, sizeof *z);
    z->scale = (Fp8Scale){.inv = 1 / scale, .scale = scale, .max = fp8_max(t)};
    z->amax = -1;
    z->count = (Fp8Count){0};
    return (Fp8QuantizeArgs){.out = {.q = z->q,
                                     .qt = z->qt,
                                     .ld_q = 16,
                                     .ld_qt = 16,
                                     .scale = &z->scale,
                                     .amax = &z->amax,
                                     .count = &z->count,
                                     .dtype = t},
                             .dbias = z->dbias,
                             .src = x,
                             .R = 2,
                             .C = 3,
                             .ld = 3};
}

static void numbers_are_scaled_rounded_and_turned(void **state)
{
    (void)state;
    const float x[6] = {1, -2, 3.25f, 0, 0.5f, 100};
    Quantized z;
    Fp8QuantizeArgs a = args_of(&z, x, DTYPE_E4M3, 2);
    MUST(fp8_quantize_ref(&a, NULL, NULL));
    // 2, -4, 6.5; 0, 1, 200 (which lies between 192 and 208, and 192 is even)
    static const uint8_t want[2][3] = {{0x40, 0xc8, 0x4d}, {0x00, 0x38, 0x74}};
    for (int r = 0; r < 2; r++) {
        for (int c = 0; c < 3; c++) {
            assert_int_equal(z.q[r][c], want[r][c]);
            assert_int_equal(z.qt[c][r], want[r][c]);
        }
        assert_int_equal(z.q[r][3], 0x5a); // behind a row
    }
    for (int r = 2; r < 16; r++) assert_int_equal(z.qt[0][r], 0);
    assert_true(z.amax == 100 && z.dbias[0] == 1 && z.dbias[1] == -1.5f && z.dbias[2] == 103.25f);
}

static void what_is_not_finite_clamped_or_lost_is_counted(void **state)
{
    (void)state;
    const float x[6] = {NAN, -INFINITY, 300, 1e-4f, 0, -0.0f};
    Quantized z;
    Fp8QuantizeArgs a = args_of(&z, x, DTYPE_E4M3, 2);
    MUST(fp8_quantize_ref(&a, NULL, NULL));
    static const uint8_t want[6] = {0x7f, 0xfe, 0x7e, 0x00, 0x00, 0x80};
    for (int i = 0; i < 6; i++) assert_int_equal(z.q[i / 3][i % 3], want[i]);
    assert_true(z.amax == 300); // of finite numbers alone
    assert_int_equal(z.count.nonfinite, 2);
    assert_int_equal(z.count.saturated, 1);
    assert_int_equal(z.count.flushed, 1);
    MUST(fp8_quantize_ref(&a, NULL, NULL)); // the next micro-batch adds
    assert_int_equal(z.count.nonfinite, 4);
}

static void a_second_tensor_in_a_slot_raises_its_amax_and_never_lowers_it(void **state)
{
    (void)state;
    const float big[6] = {5, -7, 1, 2, 3, 4}, small[6] = {1, 1, 1, 1, 1, 1};
    Quantized z;
    Fp8QuantizeArgs a = args_of(&z, big, DTYPE_E5M2, 1);
    MUST(fp8_quantize_ref(&a, NULL, NULL));
    a.src = small;
    MUST(fp8_quantize_ref(&a, NULL, NULL));
    assert_true(z.amax == 7);
}

static void current_scaling_brings_the_largest_element_to_the_largest_number(void **state)
{
    (void)state;
    const float x[6] = {1e-6f, -7e-6f, NAN, INFINITY, 3e-6f, 0}, zeros[6] = {0};
    Quantized z;
    Fp8QuantizeArgs a = args_of(&z, x, DTYPE_E5M2, 1);
    a.current = true;
    MUST(fp8_quantize_ref(&a, NULL, NULL));
    assert_true(z.scale.scale == 57344 / 7e-6f && z.scale.inv == 1 / z.scale.scale);
    assert_int_equal(z.q[0][1], 0xfb);
    assert_int_equal(z.count.saturated, 0);
    a.margin = 3;
    MUST(fp8_quantize_ref(&a, NULL, NULL));
    assert_true(z.scale.scale == 57344 / 7e-6f / 8);
    a.src = zeros;
    MUST(fp8_quantize_ref(&a, NULL, NULL));
    assert_true(z.scale.scale == 1 && z.scale.inv == 1);
}

static void an_empty_tensor_occurred_with_an_amax_of_zero(void **state)
{
    (void)state;
    const float x[6] = {0};
    Quantized z;
    Fp8QuantizeArgs a = args_of(&z, x, DTYPE_E4M3, 1);
    a.R = 0;
    MUST(fp8_quantize_ref(&a, NULL, NULL));
    assert_true(z.amax == 0 && z.dbias[0] == 0);
    assert_int_equal(z.qt[0][0], 0x5a);
}

// ---- fp8_update ---------------------------------------------------------------------------------

enum { LENGTH = 3 };

typedef struct Slot {
    Fp8Scale scale;
    float amax, history[LENGTH];
    int32_t at;
} Slot;

static Fp8UpdateArgs update_of(Slot *s)
{
    *s = (Slot){.scale = {.inv = 0.125f, .scale = 8, .max = 448}, .amax = -1};
    return (Fp8UpdateArgs){.scale = &s->scale,
                           .amax = &s->amax,
                           .history = s->history,
                           .at = &s->at,
                           .n = 1,
                           .length = LENGTH};
}

static float after(const Fp8UpdateArgs *a, float amax)
{
    *a->amax = amax;
    MUST(fp8_update_ref(a, NULL, NULL));
    assert_true(*a->amax == -1 && a->scale->inv == 1 / a->scale->scale);
    return a->scale->scale;
}

static void the_scale_follows_the_largest_amax_of_the_window(void **state)
{
    (void)state;
    Slot s;
    const Fp8UpdateArgs a = update_of(&s);
    assert_true(after(&a, 2) == 224);
    assert_true(after(&a, 4) == 112);
    assert_true(after(&a, 1) == 112);
    assert_true(after(&a, 0.5f) == 112); // 4 is still among the last three
    assert_true(after(&a, 0.5f) == 448); // now 1 is the largest
}

static void most_recent_looks_at_the_last_amax_alone(void **state)
{
    (void)state;
    Slot s;
    Fp8UpdateArgs a = update_of(&s);
    a.algorithm = FP8_AMAX_MOST_RECENT;
    a.margin = 1;
    assert_true(after(&a, 4) == 56);
    assert_true(after(&a, 1) == 224);
}

static void a_slot_that_did_not_occur_or_a_void_step_rolls_nothing(void **state)
{
    (void)state;
    Slot s;
    Fp8UpdateArgs a = update_of(&s);
    const int32_t skip = 1;
    assert_true(after(&a, -1) == 8 && s.at == 0);
    a.skip = &skip;
    assert_true(after(&a, 4) == 8 && s.at == 0 && s.history[0] == 0);
}

static void an_amax_that_is_not_finite_never_enters_the_window(void **state)
{
    (void)state;
    Slot s;
    const Fp8UpdateArgs a = update_of(&s);
    assert_true(after(&a, INFINITY) == 8 && after(&a, NAN) == 8 && s.at == 0);
    assert_true(after(&a, 4) == 112);
}

static void scales_and_their_inverses_stay_finite(void **state)
{
    (void)state;
    Slot s;
    Fp8UpdateArgs a = update_of(&s);
    assert_true(after(&a, 0) == 8); // zeros tell nothing
    assert_true(after(&a, 0x1p-149f) == FLT_MAX && s.scale.inv > 0);
    a.margin = 64;
    assert_true(after(&a, FLT_MAX) == FLT_MIN && isfinite(s.scale.inv));
}

static void without_a_history_only_amax_is_taken_back(void **state)
{
    (void)state;
    Slot s;
    Fp8UpdateArgs a = update_of(&s);
    a.length = 0;
    a.history = NULL;
    a.at = NULL;
    assert_true(after(&a, 4) == 8);
}

// ---- checks -------------------------------------------------------------------------------------

static void checks_refuse_what_no_kernel_could_serve(void **state)
{
    (void)state;
    const float x[6] = {0};
    Quantized z;
    Slot s;
    Err err;
    const Fp8QuantizeArgs good = args_of(&z, x, DTYPE_E4M3, 1);
    Fp8QuantizeArgs bad[9];
    MUST(fp8_quantize_check(&good, &err));
    for (size_t i = 0; i < LT_COUNT(bad); i++) bad[i] = good;
    bad[0].out.scale = NULL;
    bad[1].out.q = bad[1].out.qt = NULL;
    bad[2].out.ld_q = 8;
    bad[3].out.ld_qt = 0;
    bad[4].out.q = z.q[0] + 1;
    bad[5].out.dtype = DTYPE_BF16;
    bad[6].src_dtype = DTYPE_E4M3;
    bad[7].ld = 2;
    bad[8].src = NULL;
    for (size_t i = 0; i < LT_COUNT(bad); i++)
        if (fp8_quantize_check(&bad[i], &err) != ERR_USAGE) fail_msg("number %zu passes", i);
    const Fp8UpdateArgs fine = update_of(&s);
    Fp8UpdateArgs wrong[4];
    MUST(fp8_update_check(&fine, &err));
    for (size_t i = 0; i < LT_COUNT(wrong); i++) wrong[i] = fine;
    wrong[0].margin = 65;
    wrong[1].history = NULL;
    wrong[2].n = -1;
    wrong[3].amax = NULL;
    for (size_t i = 0; i < LT_COUNT(wrong); i++)
        if (fp8_update_check(&wrong[i], &err) != ERR_USAGE) fail_msg("number %zu passes", i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_scaled_rounded_and_turned),
        cmocka_unit_test(what_is_not_finite_clamped_or_lost_is_counted),
        cmocka_unit_test(a_second_tensor_in_a_slot_raises_its_amax_and_never_lowers_it),
        cmocka_unit_test(current_scaling_brings_the_largest_element_to_the_largest_number),
        cmocka_unit_test(an_empty_tensor_occurred_with_an_amax_of_zero),
        cmocka_unit_test(the_scale_follows_the_largest_amax_of_the_window),
        cmocka_unit_test(most_recent_looks_at_the_last_amax_alone),
        cmocka_unit_test(a_slot_that_did_not_occur_or_a_void_step_rolls_nothing),
        cmocka_unit_test(an_amax_that_is_not_finite_never_enters_the_window),
        cmocka_unit_test(scales_and_their_inverses_stay_finite),
        cmocka_unit_test(without_a_history_only_amax_is_taken_back),
        cmocka_unit_test(checks_refuse_what_no_kernel_could_serve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
