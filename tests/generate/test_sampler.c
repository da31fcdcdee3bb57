// test_sampler.c -- engine/generate/sampler.h
//
// SPDX-License-Identifier: MIT
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/generate/sampler.h"

enum { V = 7, DRAWS = 40000 };

static const float logits[V] = {0.5f, -1.0f, 2.0f, 2.0f, -30.0f, 1.0f, 0.0f};

static void counts(int64_t *n, double temperature, int64_t top_k, double top_p)
{
    Sampler s;
    Err err;
    if (sampler_open(&s, V, temperature, top_k, top_p, 11, &err) != ERR_NONE)
        fail_msg("%s", err.text);
    for (int v = 0; v < V; v++) n[v] = 0;
    for (int i = 0; i < DRAWS; i++) {
        int32_t id;
        if (sampler_draw(&s, logits, i % 5, i / 5, &id, &err) != ERR_NONE) fail_msg("%s", err.text);
        assert_in_range(id, 0, V - 1);
        n[id]++;
    }
    sampler_close(&s);
}

// Are the counts those of the softmax over the tokens in `allowed` (a bit each)?
static void expect(const int64_t *n, double temperature, unsigned allowed)
{
    double total = 0, p[V];
    for (int v = 0; v < V; v++) {
        p[v] = allowed >> v & 1 ? exp((double)logits[v] / temperature) : 0;
        total += p[v];
    }
    for (int v = 0; v < V; v++) {
        const double want = DRAWS * p[v] / total;
        if (p[v] == 0) assert_int_equal(n[v], 0);
        if (fabs((double)n[v] - want) > 5 * sqrt(want + 1))
            fail_msg("token %d: %d times, expected %.0f", v, (int)n[v], want);
    }
}

static void draws_follow_the_distribution(void **state)
{
    (void)state;
    static const struct {
        double temperature, top_p;
        int64_t top_k;
        unsigned allowed;
    } cases[] = {
        {1.0, 1.0, 0, 0x7f}, {0.5, 1.0, 0, 0x7f},
        {2.0, 1.0, 0, 0x7f}, {1.0, 1.0, 3, 0x2c}, // 2, 3 and 5
        {1.0, 1.0, 2, 0x0c}, {1.0, 0.1, 0, 0x04}, // the likeliest alone; of equals the smaller id
        {1.0, 0.6, 0, 0x0c}, {1.0, 0.9, 4, 0x2c}, // top-k first: 2, 3, 5, 0; then 0.9 of these
    };
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        int64_t n[V];
        counts(n, cases[i].temperature, cases[i].top_k, cases[i].top_p);
        expect(n, cases[i].temperature, cases[i].allowed);
    }
}

static void zero_temperature_and_top_1_are_the_likeliest(void **state)
{
    (void)state;
    int64_t n[V];
    counts(n, 0, 0, 1.0);
    assert_int_equal(n[2], DRAWS);
    counts(n, 5.0, 1, 1.0);
    assert_int_equal(n[2], DRAWS);
}

static void a_draw_is_a_function_of_its_place(void **state)
{
    (void)state;
    Sampler a, b;
    Err err;
    assert_int_equal(sampler_open(&a, V, 1, 0, 1, 3, &err), ERR_NONE);
    assert_int_equal(sampler_open(&b, V, 1, 0, 1, 3, &err), ERR_NONE);
    int32_t x, y, differ = 0;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(sampler_draw(&a, logits, 0, i, &x, &err), ERR_NONE);
        assert_int_equal(sampler_draw(&b, logits, 0, i, &y, &err), ERR_NONE);
        assert_int_equal(x, y);
        assert_int_equal(sampler_draw(&b, logits, 1, i, &y, &err), ERR_NONE);
        differ += x != y;
    }
    assert_true(differ > 20);
    sampler_close(&a);
    sampler_close(&b);
}

static void logits_that_are_no_numbers_are_an_error(void **state)
{
    (void)state;
    Sampler s;
    Err err;
    int32_t id;
    float bad[V] = {0, 1, NAN, 0, 0, 0, 0};
    assert_int_equal(sampler_open(&s, V, 1, 0, 1, 3, &err), ERR_NONE);
    assert_int_equal(sampler_draw(&s, bad, 0, 4, &id, &err), ERR_DIVERGED);
    sampler_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(zero_temperature_and_top_1_are_the_likeliest),
        cmocka_unit_test(a_draw_is_a_function_of_its_place),
        cmocka_unit_test(logits_that_are_no_numbers_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
