// test_verdict.c -- engine/data/verdict.h: logits by hand, verdicts and scores by hand.
//
// SPDX-License-Identifier: MIT
#include "support.h"
#include "engine/data/verdict.h"

#include <math.h>

static const char vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\ncat\ndog\nsat\nran\nwho\n";

typedef struct Fixture {
    TestDir dir;
    Tokenizer *tokenizer;
    Examples e;
    Judge judge;
    Score score;
} Fixture;

static void open_fixture(Fixture *f, ExampleTask task, int64_t block, const char *text)
{
    Err err = {0};
    f->dir = test_dir();
    const TestPath v = test_file(&f->dir, "vocab.txt", vocabulary, strlen(vocabulary));
    const TestPath p = test_file(&f->dir, "examples", text, strlen(text));
    must(tokenizer_load(&f->tokenizer, v.s, NULL, &err), &err);
    const ExampleOptions o = {
        .task = task, .tokenizer = f->tokenizer, .block = block, .labelled = true};
    must(examples_open(&f->e, &o, &err), &err);
    must(examples_read(&f->e, p.s, &err), &err);
    judge_open(&f->judge, &f->e, f->e.labels.n);
    score_init(&f->score, &f->e);
}

static void close_fixture(Fixture *f)
{
    judge_close(&f->judge);
    examples_close(&f->e);
    tokenizer_close(f->tokenizer);
    test_dir_remove(&f->dir);
}

static Verdict judge(Fixture *f, int64_t sample, const float *logits, bool last)
{
    Err err = {0};
    Verdict v;
    bool done;
    must(judge_sample(&f->judge, sample, logits, &v, &done, &err), &err);
    assert_int_equal(done, last);
    score_loss(&f->score, &f->judge, sample, logits);
    if (done) must(score_verdict(&f->score, &f->e, &v, &err), &err);
    return v;
}

static void near(double got, double want)
{
    if (!(fabs(got - want) < 1e-6)) fail_msg("got %.9g, want %.9g", got, want);
}

static void a_class_is_the_first_of_the_largest(void **state)
{
    (void)state;
    Fixture f;
    open_fixture(&f, EXAMPLE_CLASSIFY, 8, "cat\ta\ndog\tb\ncat\tc\n");
    assert_int_equal(judge_logits(&f.judge, 0), 3);
    Verdict v = judge(&f, 0, (const float[]){1, 1, 0}, true);
    assert_int_equal(v.label, 0);
    near(v.p, 1 / (2 + exp(-1)));
    v = judge(&f, 1, (const float[]){0, 500, -500}, true); // nothing overflows
    assert_int_equal(v.label, 1);
    near(v.p, 1);
    v = judge(&f, 2, (const float[]){2, 0, 0}, true);
    assert_int_equal(v.label, 0);
    near(score_main(&f.score), 2.0 / 3);
    near(score_mean_loss(&f.score), (log(2 + exp(-1)) + 0 + log(exp(2) + 2)) / 3);
    close_fixture(&f);
}

static void words_that_were_not_seen_are_outside(void **state)
{
    (void)state;
    Fixture f;
    open_fixture(&f, EXAMPLE_TAG, 8,
                 "the B-X\ncat I-X\nsat O\nran O\nthe O\ndog B-X\nwho O\ncat O\n");
    assert_int_equal(judge_logits(&f.judge, 0), 6 * 3); // B-X I-X O; six words find room
    const float logits[18] = {9, 0, 0, 0, 9, 0, 0, 0, 9, 0, 0, 9, 0, 0, 9, 0, 9, 0};
    const Verdict v = judge(&f, 0, logits, true);
    const int32_t want[] = {0, 1, 2, 2, 2, 1, 2, 2};
    for (int i = 0; i < 8; i++) assert_int_equal(v.tag[i], want[i]);
    near(v.tag_p[6], 0);
    near(v.tag_p[0], 1 / (1 + 2 * exp(-9)));
    near(class_score_accuracy(&f.score.tags.word), 7.0 / 8);
    near(score_main(&f.score), 1); // I-X behind O begins an entity
    assert_int_equal(f.score.counted, 6);
    close_fixture(&f);
}

static void an_answer_is_the_best_span_of_all_windows(void **state)
{
    (void)state;
    Fixture f;
    open_fixture(&f, EXAMPLE_QA, 8,
                 "{\"question\":\"who\",\"context\":\"the cat sat, the dog ran\",\"answers\":"
                 "{\"text\":[\"the dog\"],\"answer_start\":[13]}}");
    // [CLS] who [SEP] the cat sat [UNK] [SEP], then two tokens further on
    assert_int_equal(f.e.example[0].samples, 3);
    float x[3][16] = {{0}};
    x[0][0] = x[0][1] = 3;             // none
    x[0][2 * 3] = x[0][2 * 4 + 1] = 4; // "the cat": 8
    x[1][2 * 5] = 6;                   // "the dog": 11
    x[1][2 * 6 + 1] = 5;
    x[1][2 * 3 + 1] = x[1][2 * 7] = 50; // no span: the end is in front, the start at [SEP]
    x[1][2 * 3] = x[1][2 * 7 + 1] = -100;
    (void)judge(&f, 0, x[0], false);
    (void)judge(&f, 1, x[1], false);
    const Verdict v = judge(&f, 2, x[2], true);
    assert_int_equal(v.answer.bytes, 7);
    assert_memory_equal(v.answer.text, "the dog", 7);
    assert_true(v.p > 0.5 && v.p < 1);
    near(score_main(&f.score), 1);
    close_fixture(&f);
}

static void no_answer_wins_where_every_window_says_so(void **state)
{
    (void)state;
    Fixture f;
    open_fixture(&f, EXAMPLE_QA, 8,
                 "{\"question\":\"who\",\"context\":\"the cat sat the dog ran\",\"answers\":[]}");
    float x[16] = {5, 5};
    (void)judge(&f, 0, x, false);
    const Verdict v = judge(&f, 1, x, true);
    assert_int_equal(v.answer.bytes, 0);
    near(score_main(&f.score), 1);
    assert_int_equal(f.score.counted, 4);
    near(score_mean_loss(&f.score), log(exp(5) + 7) - 5);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_class_is_the_first_of_the_largest),
        cmocka_unit_test(words_that_were_not_seen_are_outside),
        cmocka_unit_test(an_answer_is_the_best_span_of_all_windows),
        cmocka_unit_test(no_answer_wins_where_every_window_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
