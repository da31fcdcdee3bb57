// test_rng.c -- engine/base/rng.h
//
// SPDX-License-Identifier: MIT
#include "engine/base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void philox_gives_the_published_words(void **state)
{
    (void)state;
    static const struct { // known answers of Random123, philox4x32-10
        uint32_t ctr[4], key[2], want[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        uint32_t got[4];
        rng_philox(got, cases[i].ctr, cases[i].key);
        assert_memory_equal(got, cases[i].want, sizeof got);
    }
}

static void block_puts_every_coordinate_where_the_header_says(void **state)
{
    (void)state;
    const RngCoord at = {.seed = 0x1111222233334444u, .sample = 0x5555666677778888u, .layer = 0xabc,
                         .site = 5, .head = 0x1234};
    const uint32_t ctr[4] = {9, 10, 0xabc51234u, 0x77778888u};
    const uint32_t key[2] = {0x33334444u, 0x11112222u ^ 0x55556666u};
    uint32_t       got[4], want[4];
    rng_block(got, &at, 10, 9);
    rng_philox(want, ctr, key);
    assert_memory_equal(got, want, sizeof got);
}

static void threshold_drops_the_share_asked_for(void **state)
{
    (void)state;
    assert_int_equal(rng_threshold(0), 0);
    assert_int_equal(rng_threshold(0.5), 0x80000000u);
    assert_int_equal(rng_threshold(0.25), 0x40000000u);
    assert_true(rng_threshold((double)0.99999994f) > 0xffffff00u - 1); // largest f32 below 1
}

static void uniforms_stay_below_one(void **state)
{
    (void)state;
    assert_true(rng_uniform53(0, 0) == 0 && rng_uniform53(0xffffffffu, 0xffffffffu) < 1);
    assert_true(rng_uniform53(0x80000000u, 0) == 0.5);
}

static void below_is_uniform(void **state)
{
    (void)state;
    enum { DRAWS = 70000 };
    static const uint64_t sizes[] = {2, 3, 7, 10, 100};
    for (size_t i = 0; i < LT_COUNT(sizes); i++) {
        const uint64_t n          = sizes[i];
        int            count[100] = {0};
        for (uint64_t d = 0; d < DRAWS; d++) {
            const uint64_t r = rng_below(7, 1, d, n);
            assert_true(r < n);
            count[r]++;
        }
        double       chi2 = 0;
        const double each = (double)DRAWS / (double)n, free_ = (double)(n - 1);
        for (uint64_t k = 0; k < n; k++) chi2 += (count[k] - each) * (count[k] - each) / each;
        assert_true(chi2 < free_ + 4 * sqrt(2 * free_) + 10); // far in the tail of chi-square
    }
}

static void below_works_at_the_ends_of_its_range(void **state)
{
    (void)state;
    for (uint64_t d = 0; d < 100; d++) assert_int_equal(rng_below(1, 2, d, 1), 0);
    // Three quarters of 2^64: a plain modulo would favour the lower third 2 to 1.
    const uint64_t n   = 3ull << 62;
    int            low = 0;
    for (uint64_t d = 0; d < 30000; d++) {
        const uint64_t r = rng_below(1, 2, d, n);
        assert_true(r < n);
        low += r < n / 3;
    }
    assert_in_range(low, 9600, 10400);
}

static void below_depends_on_each_coordinate(void **state)
{
    (void)state;
    const uint64_t n = 1ull << 62, base = rng_below(1, 2, 3, n);
    assert_true(base == rng_below(1, 2, 3, n));
    assert_true(base != rng_below(2, 2, 3, n));
    assert_true(base != rng_below(1ull << 40 | 1, 2, 3, n));
    assert_true(base != rng_below(1, 3, 3, n));
    assert_true(base != rng_below(1, 1ull << 40 | 2, 3, n));
    assert_true(base != rng_below(1, 2, 4, n));
    assert_true(base != rng_below(1, 2, 1ull << 40 | 3, n));
    assert_true(base != rng_below(1, 2, 1ull << 60 | 3, n));
}

static void normals_have_mean_0_and_the_deviation_asked_for(void **state)
{
    (void)state;
    enum { N = 100001 };
    static float x[N];
    rng_fill_normal(x, N, 3, 7, 2.0);
    double sum = 0, squares = 0, fourth = 0;
    for (int i = 0; i < N; i++) {
        const double v = (double)x[i] / 2;
        sum += v;
        squares += v * v;
        fourth += v * v * v * v;
    }
    assert_true(fabs(sum / N) < 4 / sqrt(N));
    assert_true(fabs(squares / N - 1) < 4 * sqrt(2.0 / N));
    assert_true(fabs(fourth / N - 3) < 0.2);
}

static void normals_do_not_depend_on_how_many_are_made(void **state)
{
    (void)state;
    float a[10], b[7], other[10];
    rng_fill_normal(a, 10, 3, 7, 1);
    rng_fill_normal(b, 7, 3, 7, 1);
    assert_memory_equal(a, b, sizeof b);
    rng_fill_normal(other, 10, 3, 8, 1);
    assert_memory_not_equal(a, other, sizeof a);
    double z[2];
    rng_normal2(z, 0, 0); // the smallest uniform: finite
    assert_true(isfinite(z[0]) && isfinite(z[1]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_words),
        cmocka_unit_test(block_puts_every_coordinate_where_the_header_says),
        cmocka_unit_test(threshold_drops_the_share_asked_for),
        cmocka_unit_test(uniforms_stay_below_one),
        cmocka_unit_test(below_is_uniform),
        cmocka_unit_test(below_works_at_the_ends_of_its_range),
        cmocka_unit_test(below_depends_on_each_coordinate),
        cmocka_unit_test(normals_have_mean_0_and_the_deviation_asked_for),
        cmocka_unit_test(normals_do_not_depend_on_how_many_are_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
