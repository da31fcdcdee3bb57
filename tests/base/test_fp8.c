// test_fp8.c -- FP8 conversions of engine/base/dtype.h against a definition that shares nothing
// with them: a table of the 256 values by ldexp, and the nearest of them by search.
//
// SPDX-License-Identifier: MIT
#include "tests/base/fp8_inputs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

typedef struct Format {
    DType type;
    int mantissa_bits, bias;
    int largest; // pattern of the largest number
    double value[256];
} Format;

static Format format_of(DType type)
{
    Format f = {.type = type};
    f.mantissa_bits = type == DTYPE_E4M3 ? 3 : 2;
    f.bias = type == DTYPE_E4M3 ? 7 : 15;
    f.largest = type == DTYPE_E4M3 ? 0x7e : 0x7b;
    for (int q = 0; q < 256; q++) {
        const int m = f.mantissa_bits, man = q & ((1 << m) - 1), e = (q & 0x7f) >> m;
        const int hidden = e > 0 ? 1 << m : 0;
        f.value[q] = ldexp(man + hidden, (e > 0 ? e : 1) - f.bias - m);
        if ((q & 0x7f) > f.largest) f.value[q] = (double)NAN;
        if (type == DTYPE_E5M2 && (q & 0x7f) == 0x7c) f.value[q] = (double)INFINITY;
        if (q & 0x80) f.value[q] = -f.value[q];
    }
    return f;
}

// Of the finite values the nearest; of two the even pattern. Zero has the sign of x.
static int nearest(const Format *f, float x)
{
    if (isnan(x)) return 0x7f;
    const int sign = signbit(x) ? 0x80 : 0;
    const double a = fmin(fabs((double)x), f->value[f->largest]);
    int best = 0;
    for (int q = 1; q <= f->largest; q++) {
        const double d = fabs(f->value[q] - a), least = fabs(f->value[best] - a);
        if (d < least || (d == least && q % 2 == 0)) best = q;
    }
    return sign | best;
}

static void compare(float x, void *arg)
{
    const Format *f = arg;
    const int want = nearest(f, x), got = fp8_from_f32(x, f->type);
    if (got != want)
        fail_msg("%s of %a (0x%08x): 0x%02x, should be 0x%02x", dtype_name(f->type), (double)x,
                 (unsigned)dtype_bits(x), (unsigned)got, (unsigned)want);
}

static void f32_becomes_the_nearest_value_and_is_clamped(void **state)
{
    (void)state;
    Format e4m3 = format_of(DTYPE_E4M3), e5m2 = format_of(DTYPE_E5M2);
    visit_fp8_inputs(compare, &e4m3);
    visit_fp8_inputs(compare, &e5m2);
}

static void every_pattern_has_its_defined_value_and_comes_back(void **state)
{
    (void)state;
    for (DType t = DTYPE_E4M3; t <= DTYPE_E5M2; t++) {
        const Format f = format_of(t);
        for (int q = 0; q < 256; q++) {
            const float x = fp8_to_f32((uint8_t)q, t);
            assert_true(!signbit(x) == !(q & 0x80));
            if (isnan(f.value[q])) {
                assert_true(isnan(x));
                assert_int_equal(fp8_from_f32(x, t), 0x7f);
                continue;
            }
            assert_true((double)x == f.value[q]);
            const int back = isinf(x) ? f.largest | (q & 0x80) : q;
            assert_int_equal(fp8_from_f32(x, t), back);
        }
        assert_true(fp8_max(t) == fp8_to_f32((uint8_t)f.largest, t));
    }
}

static void infinity_and_what_is_beyond_the_largest_number_are_clamped(void **state)
{
    (void)state;
    static const float big[] = {448, 449, 464, 480, 57344, 57345, 61440, 65536, 1e30f, INFINITY};
    for (size_t i = 0; i < LT_COUNT(big); i++) {
        assert_int_equal(fp8_from_f32(big[i], DTYPE_E4M3), 0x7e);
        assert_int_equal(fp8_from_f32(-big[i], DTYPE_E4M3), 0xfe);
        if (big[i] < 57344) continue;
        assert_int_equal(fp8_from_f32(big[i], DTYPE_E5M2), 0x7b);
        assert_int_equal(fp8_from_f32(-big[i], DTYPE_E5M2), 0xfb);
    }
}

// bf16 holds every FP8 number, so a bf16 matrix product can serve as an FP8 one.
static void every_fp8_number_is_exact_in_bf16_and_in_f16(void **state)
{
    (void)state;
    for (DType t = DTYPE_E4M3; t <= DTYPE_E5M2; t++) {
        for (int q = 0; q < 256; q++) {
            const float x = fp8_to_f32((uint8_t)q, t);
            if (isnan(x)) continue;
            assert_true(bf16_to_f32(bf16_from_f32(x)) == x);
            assert_true(f16_to_f32(f16_from_f32(x)) == x);
        }
    }
}

static void load_and_store_take_fp8(void **state)
{
    (void)state;
    for (DType t = DTYPE_E4M3; t <= DTYPE_E5M2; t++) {
        uint8_t q[3] = {0x5a, 0x5a, 0x5a};
        dtype_store(q, t, 1, -1.25f);
        assert_int_equal(q[0], 0x5a);
        assert_int_equal(q[2], 0x5a);
        assert_true(dtype_load(q, t, 1) == -1.25f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_has_its_defined_value_and_comes_back),
        cmocka_unit_test(f32_becomes_the_nearest_value_and_is_clamped),
        cmocka_unit_test(infinity_and_what_is_beyond_the_largest_number_are_clamped),
        cmocka_unit_test(every_fp8_number_is_exact_in_bf16_and_in_f16),
        cmocka_unit_test(load_and_store_take_fp8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
