// test_schedule.c -- engine/train/schedule.h
//
// SPDX-License-Identifier: MIT
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/train/schedule.h"

static Schedule make(const char *kind, int64_t warmup, int64_t max_steps, int64_t decay)
{
    Schedule s;
    Err err;
    if (schedule_init(&s, kind, 1e-3, 1e-4, warmup, max_steps, decay, &err) != ERR_NONE)
        fail_msg("%s", err.text);
    return s;
}

static void last_step_has_exactly_the_end_value(void **state)
{
    (void)state;
    static const struct {
        const char *kind;
        int64_t warmup, steps, decay;
        double end;
    } cases[] = {
        {"cosine", 100, 2000, 0, 1e-4},   {"linear", 100, 2000, 0, 1e-4},
        {"constant", 100, 2000, 0, 1e-3}, {"wsd", 100, 2000, 0, 1e-4},
        {"wsd", 0, 10, 3, 1e-4},          {"cosine", 0, 1, 0, 1e-4},
        {"cosine", 0, 2, 0, 1e-4},        {"linear", 1, 3, 0, 1e-4},
        {"wsd", 1, 3, 100, 1e-4},         {"poly", 100, 2000, 0, 1e-4},
        {"poly", 1, 3, 0, 1e-4},
    };
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        const Schedule s = make(cases[i].kind, cases[i].warmup, cases[i].steps, cases[i].decay);
        if (schedule_at(&s, cases[i].steps - 1) != cases[i].end)
            fail_msg("%s ends at %.17g", cases[i].kind, schedule_at(&s, cases[i].steps - 1));
        assert_true(schedule_at(&s, cases[i].steps + 100) == cases[i].end);
    }
}

static void warm_up_is_linear_and_meets_the_peak(void **state)
{
    (void)state;
    static const char *const kinds[] = {"cosine", "linear", "constant", "wsd", "poly"};
    for (size_t i = 0; i < LT_COUNT(kinds); i++) {
        const Schedule s = make(kinds[i], 4, 100, 0);
        for (int64_t k = 0; k < 4; k++)
            assert_true(fabs(schedule_at(&s, k) - 1e-3 * (double)(k + 1) / 5) < 1e-18);
        assert_true(schedule_at(&s, 4) == 1e-3);
    }
}

static void shapes_between_warm_up_and_end(void **state)
{
    (void)state;
    const Schedule cosine = make("cosine", 0, 101, 0), linear = make("linear", 0, 101, 0);
    assert_true(fabs(schedule_at(&cosine, 50) - 5.5e-4) < 1e-12); // half way: the mean
    assert_true(fabs(schedule_at(&linear, 50) - 5.5e-4) < 1e-12);
    assert_true(fabs(schedule_at(&cosine, 25) - (1e-4 + 9e-4 * 0.5 * (1 + sqrt(0.5)))) < 1e-12);
    const Schedule wsd = make("wsd", 10, 1000, 200);
    for (int64_t k = 10; k <= 799; k++) assert_true(schedule_at(&wsd, k) == 1e-3);
    assert_true(schedule_at(&wsd, 800) < 1e-3);
    assert_true(fabs(schedule_at(&wsd, 899) - 5.5e-4) < 1e-12);
    const Schedule early = make("cosine", 0, 1000, 500); // decay_steps: the end is reached sooner
    assert_true(schedule_at(&early, 499) == 1e-4 && schedule_at(&early, 900) == 1e-4);
    for (int64_t k = 1; k < 500; k++)
        assert_true(schedule_at(&early, k) < schedule_at(&early, k - 1));
}

static void poly_is_a_power_of_the_way_left(void **state)
{
    (void)state;
    Schedule poly = make("poly", 4, 105, 0);
    const Schedule linear = make("linear", 4, 105, 0);
    for (int64_t k = 0; k < 110; k++) // power 1, the default
        assert_true(fabs(schedule_at(&poly, k) - schedule_at(&linear, k)) < 1e-18);
    poly.power = 2;
    assert_true(fabs(schedule_at(&poly, 54) - (1e-4 + 9e-4 * 0.25)) < 1e-15); // half way
    poly.power = 0.5;
    assert_true(fabs(schedule_at(&poly, 79) - (1e-4 + 9e-4 * 0.5)) < 1e-15); // a quarter left
    assert_true(schedule_at(&poly, 4) == 1e-3 && schedule_at(&poly, 104) == 1e-4);
    poly = make("poly", 4, 105, 55); // decay_steps: the end is reached sooner
    assert_true(schedule_at(&poly, 53) > 1e-4 && schedule_at(&poly, 54) == 1e-4);
}

static void an_unknown_schedule_is_a_usage_error(void **state)
{
    (void)state;
    Schedule s;
    Err err;
    assert_int_equal(schedule_init(&s, "cosinus", 1, 0, 0, 10, 0, &err), ERR_USAGE);
    assert_non_null(err.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_step_has_exactly_the_end_value),
        cmocka_unit_test(warm_up_is_linear_and_meets_the_peak),
        cmocka_unit_test(shapes_between_warm_up_and_end),
        cmocka_unit_test(poly_is_a_power_of_the_way_left),
        cmocka_unit_test(an_unknown_schedule_is_a_usage_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
