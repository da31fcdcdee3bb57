// test_order.c -- engine/data/order.h
//
// SPDX-License-Identifier: MIT
#include "support.h"
#include "engine/data/order.h"

#include <math.h>

static void shuffle_is_a_bijection_for_any_size(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 31, 64, 100, 255, 256, 257, 1000, 4099};
    static uint8_t        seen[4099];
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            Shuffle s;
            shuffle_init(&s, 1337, epoch, 0, sizes[k]);
            memset(seen, 0, sizeof seen);
            for (uint64_t i = 0; i < sizes[k]; i++) {
                const uint64_t x = shuffle_at(&s, i);
                assert_true(x < sizes[k]);
                assert_int_equal(seen[x]++, 0);
            }
        }
}

static void shuffle_works_at_huge_sizes(void **state)
{
    (void)state;
    const uint64_t n = UINT64_C(1) << 62;
    Shuffle        s;
    shuffle_init(&s, 1, 0, 0, n);
    for (uint64_t i = 0; i < 100; i++) assert_true(shuffle_at(&s, n - 1 - i) < n);
    assert_int_not_equal(shuffle_at(&s, 0), shuffle_at(&s, n - 1));
}

static void shuffle_differs_by_seed_epoch_and_source(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed, epoch;
        uint32_t source;
    } other[] = {{2, 0, 0}, {1, 1, 0}, {1, 0, 1}, {UINT64_C(1) << 32 | 1, 0, 0}};
    Shuffle a, b;
    shuffle_init(&a, 1, 0, 0, 1000);
    for (size_t k = 0; k < sizeof other / sizeof *other; k++) {
        shuffle_init(&b, other[k].seed, other[k].epoch, other[k].source, 1000);
        int equal = 0;
        for (uint64_t i = 0; i < 1000; i++) equal += shuffle_at(&a, i) == shuffle_at(&b, i);
        assert_true(equal < 10); // one in a thousand by chance: 1 expected
    }
}

// Each place is equally likely for each sample: a chi-square over many keys.
static void shuffle_is_uniform(void **state)
{
    (void)state;
    enum { N = 6, KEYS = 6000 };
    int count[N][N] = {{0}};
    for (uint64_t seed = 0; seed < KEYS; seed++) {
        Shuffle s;
        shuffle_init(&s, seed, 0, 0, N);
        for (uint64_t i = 0; i < N; i++) count[i][shuffle_at(&s, i)]++;
    }
    double chi = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            const double d = count[i][j] - (double)KEYS / N;
            chi += d * d / ((double)KEYS / N);
        }
    assert_true(chi < 60); // 25 degrees of freedom: 60 has probability 1e-4
}

// The orders of three are the six permutations, each about as often.
static void shuffle_of_three_makes_every_order(void **state)
{
    (void)state;
    int count[27] = {0};
    for (uint64_t seed = 0; seed < 6000; seed++) {
        Shuffle s;
        shuffle_init(&s, seed, 7, 0, 3);
        count[shuffle_at(&s, 0) * 9 + shuffle_at(&s, 1) * 3 + shuffle_at(&s, 2)]++;
    }
    int orders = 0;
    for (int i = 0; i < 27; i++) {
        if (count[i] == 0) continue;
        orders++;
        assert_in_range(count[i], 850, 1150);
    }
    assert_int_equal(orders, 6);
}

static void mixture_counts_are_what_was_served_before(void **state)
{
    (void)state;
    static const struct {
        int    n;
        double weight[4];
    } cases[] = {{1, {5}}, {2, {0.7, 0.3}}, {2, {1, 1}}, {3, {0.5, 0.25, 0.25}},
                 {4, {1e-3, 10, 0.1, 3}}, {2, {1, 1e-9}}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        Mixture  m;
        uint64_t served[4] = {0};
        double   sum       = 0;
        mixture_init(&m, cases[c].weight, cases[c].n, 42);
        for (int k = 0; k < cases[c].n; k++) sum += cases[c].weight[k];
        for (uint64_t g = 0; g < 20000; g++) {
            const MixtureAt at = mixture_at(&m, g);
            assert_in_range(at.source, 0, cases[c].n - 1);
            assert_int_equal(at.count, served[at.source]);
            served[at.source]++;
            // Never far from its share, at any moment.
            for (int k = 0; k < cases[c].n; k++) {
                const double share = cases[c].weight[k] / sum;
                assert_true(fabs((double)served[k] - (double)(g + 1) * share) < 3);
            }
        }
    }
}

static void mixture_is_a_function_of_seed_and_index(void **state)
{
    (void)state;
    const double weight[2] = {0.6, 0.4};
    Mixture      a, b;
    int          differ = 0;
    mixture_init(&a, weight, 2, 1);
    mixture_init(&b, weight, 2, 2);
    for (uint64_t g = 0; g < 1000; g++)
        differ += mixture_at(&a, g).source != mixture_at(&b, g).source;
    assert_true(differ > 0);
    const uint64_t  far = UINT64_C(1) << 50;
    const MixtureAt at  = mixture_at(&a, far);
    assert_true(fabs((double)at.count / (double)far - weight[at.source]) < 1e-9);
}

static void interleave_serves_each_sample_once_and_evenly(void **state)
{
    (void)state;
    static const struct {
        int64_t n[4];
        int     sources;
    } cases[] = {{{5}, 1},       {{1, 1}, 2},          {{40, 30}, 2},
                 {{1, 1000}, 2}, {{7, 7, 7, 7}, 4},    {{3, 500, 20, 1}, 4}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int64_t total = 0, served[4] = {0};
        for (int k = 0; k < cases[c].sources; k++) total += cases[c].n[k];
        for (int64_t g = 0; g < total; g++) {
            const MixtureAt at = interleave_at(cases[c].n, cases[c].sources, g);
            assert_in_range(at.source, 0, cases[c].sources - 1);
            assert_int_equal(at.count, served[at.source]++);
            for (int k = 0; k < cases[c].sources; k++) {
                const double fair = (double)(g + 1) * (double)cases[c].n[k] / (double)total;
                assert_true(fabs((double)served[k] - fair) <= 2);
            }
        }
    }
    const int64_t   huge[2] = {INT64_C(1) << 50, (INT64_C(1) << 50) + 1};
    const MixtureAt last    = interleave_at(huge, 2, INT64_C(1) << 51);
    assert_int_equal(last.source, 1);
    assert_int_equal(last.count, INT64_C(1) << 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffle_is_a_bijection_for_any_size),
        cmocka_unit_test(shuffle_works_at_huge_sizes),
        cmocka_unit_test(shuffle_differs_by_seed_epoch_and_source),
        cmocka_unit_test(shuffle_is_uniform),
        cmocka_unit_test(shuffle_of_three_makes_every_order),
        cmocka_unit_test(mixture_counts_are_what_was_served_before),
        cmocka_unit_test(mixture_is_a_function_of_seed_and_index),
        cmocka_unit_test(interleave_serves_each_sample_once_and_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
