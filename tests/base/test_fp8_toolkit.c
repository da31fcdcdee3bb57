// test_fp8_toolkit.c -- FP8 and f16 conversions against those of the CUDA toolkit's headers, bit
// for bit: every value of bf16 and f16, every boundary in f32. NaN is compared as NaN in f16, where
// the toolkit drops its sign and payload, and with all bits in FP8.
//
// SPDX-License-Identifier: MIT
#include "tests/base/fp8_inputs.h"
#include "tests/base/fp8_toolkit.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void compare(float x, void *arg)
{
    (void)arg;
    for (int e5m2 = 0; e5m2 < 2; e5m2++) {
        const int got = fp8_from_f32(x, e5m2 ? DTYPE_E5M2 : DTYPE_E4M3);
        const int want = toolkit_fp8_from_f32(x, e5m2);
        if (got != want)
            fail_msg("%s of %a: 0x%02x, the toolkit has 0x%02x", e5m2 ? "e5m2" : "e4m3", (double)x,
                     (unsigned)got, (unsigned)want);
    }
    const uint16_t h = f16_from_f32(x), want = toolkit_f16_from_f32(x);
    if (isnan(x))
        assert_true(isnan(toolkit_f16_to_f32(h)) && isnan(f16_to_f32(want)));
    else if (h != want)
        fail_msg("f16 of %a: 0x%04x, the toolkit has 0x%04x", (double)x, (unsigned)h,
                 (unsigned)want);
}

static void conversions_from_f32_have_the_bits_of_the_toolkit(void **state)
{
    (void)state;
    visit_fp8_inputs(compare, NULL);
}

static void conversions_from_16_bits_to_fp8_have_the_bits_of_the_toolkit(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        const float bf16 = bf16_to_f32((uint16_t)h), f16 = f16_to_f32((uint16_t)h);
        for (int e5m2 = 0; e5m2 < 2; e5m2++) {
            const DType t = e5m2 ? DTYPE_E5M2 : DTYPE_E4M3;
            assert_int_equal(fp8_from_f32(bf16, t), toolkit_fp8_from_bf16((uint16_t)h, e5m2));
            assert_int_equal(fp8_from_f32(f16, t), toolkit_fp8_from_f16((uint16_t)h, e5m2));
        }
    }
}

static void patterns_mean_what_they_mean_to_the_toolkit(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        const float got = f16_to_f32((uint16_t)h), want = toolkit_f16_to_f32((uint16_t)h);
        assert_true(isnan(got) ? isnan(want) : dtype_bits(got) == dtype_bits(want));
    }
    for (int q = 0; q < 256; q++) {
        for (int e5m2 = 0; e5m2 < 2; e5m2++) {
            const float got = fp8_to_f32((uint8_t)q, e5m2 ? DTYPE_E5M2 : DTYPE_E4M3);
            const float want = f16_to_f32(toolkit_fp8_to_f16((uint8_t)q, e5m2));
            assert_true(isnan(got) ? isnan(want) : dtype_bits(got) == dtype_bits(want));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversions_from_f32_have_the_bits_of_the_toolkit),
        cmocka_unit_test(conversions_from_16_bits_to_fp8_have_the_bits_of_the_toolkit),
        cmocka_unit_test(patterns_mean_what_they_mean_to_the_toolkit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
