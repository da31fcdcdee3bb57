// test_scores.c -- engine/report/scores.h against other people's evaluations (golden_scores.h).
//
// SPDX-License-Identifier: MIT
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "engine/report/scores.h"
#include "golden_scores.h"

#include <math.h>
#include <string.h>

static void near(double got, double want, size_t which, const char *what)
{
    if (!(fabs(got - want) < 1e-12))
        fail_msg("case %zu: %s %.17g, want %.17g", which, what, got, want);
}

static void classes_score_as_in_scikit_learn(void **state)
{
    (void)state;
    for (size_t k = 0; k < LT_COUNT(golden_classes); k++) {
        ClassScore s = {0};
        for (int i = 0; i < GOLDEN_N; i++)
            class_score_add(&s, golden_classes[k].is[i], golden_classes[k].said[i]);
        near(class_score_accuracy(&s), golden_classes[k].accuracy, k, "accuracy");
        near(class_score_macro_f1(&s), golden_classes[k].macro_f1, k, "macro F1");
    }
}

static void entities_score_as_in_seqeval(void **state)
{
    (void)state;
    for (size_t k = 0; k < LT_COUNT(golden_tagged); k++) {
        TagScore s;
        tag_score_init(&s, golden_tags, (int)LT_COUNT(golden_tags));
        tag_score_add(&s, golden_tagged[k].is, golden_tagged[k].said, GOLDEN_N / 2);
        tag_score_add(&s, golden_tagged[k].is + GOLDEN_N / 2, golden_tagged[k].said + GOLDEN_N / 2,
                      GOLDEN_N / 2);
        near(class_score_accuracy(&s.word), golden_tagged[k].accuracy, k, "accuracy");
        near(tag_score_f1(&s), golden_tagged[k].f1, k, "entity F1");
    }
}

static void tags_of_no_entities_score_as_classes(void **state)
{
    (void)state;
    static const char names[][SCORE_NAME_CAP] = {"NN", "VB", "BIN"};
    const int32_t is[] = {0, 1, 2, 0}, said[] = {0, 1, 1, 0};
    TagScore s;
    tag_score_init(&s, names, 3);
    assert_false(s.entities);
    tag_score_add(&s, is, said, 4);
    near(tag_score_f1(&s), (1.0 + 2.0 / 3 + 0) / 3, 0, "macro F1");
}

static void answers_score_as_in_squad(void **state)
{
    (void)state;
    AnswerScore all = {0};
    double exact = 0, f1 = 0;
    for (size_t k = 0; k < LT_COUNT(golden_answers); k++) {
        AnswerScore s = {0};
        ScoreText right[GOLDEN_RIGHT];
        Err err = {0};
        int n = 0;
        for (; n < GOLDEN_RIGHT && golden_answers[k].right[n]; n++)
            right[n] = (ScoreText){golden_answers[k].right[n],
                                   (int64_t)strlen(golden_answers[k].right[n])};
        const ScoreText said = {golden_answers[k].said, (int64_t)strlen(golden_answers[k].said)};
        assert_int_equal(answer_score_add(&s, said, right, n, &err), ERR_NONE);
        assert_int_equal(answer_score_add(&all, said, right, n, &err), ERR_NONE);
        near(answer_score_exact(&s), golden_answers[k].exact, k, "exact match");
        near(answer_score_f1(&s), golden_answers[k].f1, k, "F1");
        exact += golden_answers[k].exact;
        f1 += golden_answers[k].f1;
    }
    near(answer_score_exact(&all), exact / (double)LT_COUNT(golden_answers), 99, "exact match");
    near(answer_score_f1(&all), f1 / (double)LT_COUNT(golden_answers), 99, "F1");
}

static void of_nothing_there_is_no_score(void **state)
{
    (void)state;
    const ClassScore c = {0};
    const AnswerScore a = {0};
    TagScore t;
    tag_score_init(&t, golden_tags, (int)LT_COUNT(golden_tags));
    assert_true(isnan(class_score_accuracy(&c)) && isnan(class_score_macro_f1(&c)));
    assert_true(isnan(tag_score_f1(&t)));
    assert_true(isnan(answer_score_exact(&a)) && isnan(answer_score_f1(&a)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_score_as_in_scikit_learn),
        cmocka_unit_test(entities_score_as_in_seqeval),
        cmocka_unit_test(tags_of_no_entities_score_as_classes),
        cmocka_unit_test(answers_score_as_in_squad),
        cmocka_unit_test(of_nothing_there_is_no_score),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
