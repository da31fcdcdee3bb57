// test_dtype.c -- engine/base/dtype.h: every 16-bit pattern, every rounding boundary.
//
// The plain definition: the value of a pattern is sign * mantissa * 2^exponent (ldexp), and
// rounding picks the nearer neighbour, the even one at the middle.
//
// SPDX-License-Identifier: MIT
#include "engine/base/dtype.h"
#include "engine/base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct Format {
    DType type;
    int   exponent_bits, mantissa_bits;
} Format;

static const Format formats[] = {{DTYPE_BF16, 8, 7}, {DTYPE_F16, 5, 10}};

static double defined_value(const Format *f, uint32_t h)
{
    const int      bias = (1 << (f->exponent_bits - 1)) - 1, m = f->mantissa_bits;
    const uint32_t man = h & ((1u << m) - 1);
    const int      e   = (int)(h >> m & ((1u << f->exponent_bits) - 1));
    const double   s   = h >> 15 ? -1 : 1;
    if (e == (1 << f->exponent_bits) - 1) return man ? (double)NAN : s * (double)INFINITY;
    if (e == 0) return s * ldexp(man, 1 - bias - m);
    return s * ldexp(man + (1u << m), e - bias - m);
}

static float to_f32(const Format *f, uint16_t h)
{
    return f->type == DTYPE_BF16 ? bf16_to_f32(h) : f16_to_f32(h);
}

static uint16_t from_f32(const Format *f, float x)
{
    return f->type == DTYPE_BF16 ? bf16_from_f32(x) : f16_from_f32(x);
}

static void every_pattern_has_its_defined_value_and_comes_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < LT_COUNT(formats); i++) {
        for (uint32_t h = 0; h < 65536; h++) {
            const double want = defined_value(&formats[i], h);
            const float  got  = to_f32(&formats[i], (uint16_t)h);
            if (isnan(want)) {
                assert_true(isnan(got));
                assert_true(isnan(to_f32(&formats[i], from_f32(&formats[i], got))));
                assert_int_equal(from_f32(&formats[i], got) >> 15, h >> 15);
                continue;
            }
            assert_true((double)got == want && !signbit(got) == !signbit(want));
            assert_int_equal(from_f32(&formats[i], got), h);
        }
    }
}

static void rounding_goes_to_the_nearer_and_at_the_middle_to_the_even(void **state)
{
    (void)state;
    for (size_t i = 0; i < LT_COUNT(formats); i++) {
        const Format *f   = &formats[i];
        const int     inf = ((1 << f->exponent_bits) - 1) << f->mantissa_bits;
        for (int h = 0; h < inf; h++) {
            const double lo = defined_value(f, (uint32_t)h);
            // The neighbour of the largest finite number is where the next one would be.
            const double hi = h + 1 < inf ? defined_value(f, (uint32_t)h + 1)
                                          : lo + (lo - defined_value(f, (uint32_t)h - 1));
            const float middle = (float)(lo + (hi - lo) / 2);
            if ((double)middle != lo + (hi - lo) / 2)
                continue; // f32 has no such number (bf16 subnormals)
            const int even = h % 2 ? h + 1 : h;
            for (int sign = 0; sign < 2; sign++) {
                const float s = sign ? -1 : 1;
                const int   b = sign << 15;
                assert_int_equal(from_f32(f, s * middle), even | b);
                assert_int_equal(from_f32(f, s * nextafterf(middle, 0)), h | b);
                assert_int_equal(from_f32(f, s * nextafterf(middle, INFINITY)), (h + 1) | b);
            }
        }
    }
}

static void nan_with_a_low_payload_does_not_become_infinity(void **state)
{
    (void)state;
    static const uint32_t bits[] = {0x7f800001u, 0xff800001u, 0x7f80ffffu, 0x7fffffffu,
                                    0xffffffffu};
    for (size_t k = 0; k < LT_COUNT(bits); k++)
        for (size_t i = 0; i < LT_COUNT(formats); i++)
            assert_true(isnan(to_f32(&formats[i], from_f32(&formats[i], dtype_float(bits[k])))));
}

static void overflow_is_infinity(void **state)
{
    (void)state;
    assert_int_equal(f16_from_f32(65504), 0x7bff);
    assert_int_equal(f16_from_f32(65519.996f), 0x7bff);
    assert_int_equal(f16_from_f32(65520), 0x7c00);
    assert_int_equal(f16_from_f32(-1e30f), 0xfc00);
    assert_int_equal(bf16_from_f32(3.4e38f), 0x7f80);
    assert_int_equal(bf16_from_f32(-INFINITY), 0xff80);
}

static void names_and_sizes_agree(void **state)
{
    (void)state;
    static const size_t bytes[DTYPE_COUNT] = {4, 2, 2, 1, 1, 1, 2, 4, 8};
    for (int t = 0; t < DTYPE_COUNT; t++) {
        DType back = DTYPE_COUNT;
        assert_int_equal(dtype_bytes((DType)t), bytes[t]);
        assert_true(dtype_from_name(dtype_name((DType)t), &back));
        assert_int_equal(back, t);
    }
    DType keep = DTYPE_I64;
    assert_false(dtype_from_name("float", &keep));
    assert_false(dtype_from_name("", &keep));
    assert_int_equal(keep, DTYPE_I64);
    assert_string_equal(dtype_name((DType)77), "?");
}

static void convert_equals_load_and_store(void **state)
{
    (void)state;
    enum { N = 37 };
    static const DType types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    float              x[N];
    rng_fill_normal(x, N, 1, 1, 100);
    for (size_t i = 0; i < LT_COUNT(types); i++) {
        for (size_t k = 0; k < LT_COUNT(types); k++) {
            float src[N], dst[N + 1];
            memset(dst, 0x5a, sizeof dst);
            dtype_convert(src, types[i], x, DTYPE_F32, N);
            dtype_convert(dst, types[k], src, types[i], N);
            for (int n = 0; n < N; n++) {
                float want = 0;
                dtype_store(&want, types[k], 0, dtype_load(src, types[i], n));
                assert_true(dtype_load(dst, types[k], n) == dtype_load(&want, types[k], 0));
            }
            const unsigned char *end = (unsigned char *)dst + N * dtype_bytes(types[k]);
            assert_int_equal(*end, 0x5a);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_has_its_defined_value_and_comes_back),
        cmocka_unit_test(rounding_goes_to_the_nearer_and_at_the_middle_to_the_even),
        cmocka_unit_test(nan_with_a_low_payload_does_not_become_infinity),
        cmocka_unit_test(overflow_is_infinity),
        cmocka_unit_test(names_and_sizes_agree),
        cmocka_unit_test(convert_equals_load_and_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
