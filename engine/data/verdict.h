// verdict.h -- what a model's logits say of examples, and how right it is.
//
//   classify   the first of the largest logits, with its softmax
//   tag        the same for each word; a word that was not seen is O, or the first tag
//   qa         of all windows of the context the span (first token, last token behind it, at most
//              QA_ANSWER_MAX tokens) with the largest sum of its two logits; the sum at [CLS], in
//              the window where it is least, stands for no answer. The probability is the softmax
//              over all of these
//
// The loss is the mean cross-entropy of the labels: of examples, of seen words, of the ends of
// answers over the tokens of their window.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/buf.h"
#include "engine/data/examples.h"
#include "engine/report/scores.h"

enum { QA_ANSWER_MAX = 30 };

typedef struct Verdict { // owned by the Judge, valid until its next one
    int64_t example;
    int32_t label;       // classify
    const int32_t *tag;  // tag: of all words
    const double *tag_p; // 0: not seen
    ExampleText answer;  // qa; of no bytes: the context has none
    double p;            // classify, qa
} Verdict;

typedef struct Judge {
    const Examples *e; // borrowed
    int n_labels;
    int32_t other; // the tag of a word that was not seen
    int32_t *tag;
    double *tag_p;
    int64_t cap;
    // qa: the windows of an example so far
    double best, none, sum; // logits; sum of exp(logit - top)
    double top;
    int64_t from, to; // bytes of the context
} Judge;

typedef struct Score {
    ExampleTask task;
    ClassScore classes;
    TagScore tags;
    AnswerScore answers;
    double loss; // sum
    int64_t counted;
} Score;

LT_C_BEGIN
void judge_open(Judge *j, const Examples *e, int n_labels);
void judge_close(Judge *j); // also of a zeroed one
// How many logits a sample has: labels, picks x labels, tokens x 2.
int64_t judge_logits(const Judge *j, int64_t sample);
// The samples of an example one after another. *done: the last one, *v is set.
LT_MUST_CHECK Status judge_sample(Judge *j, int64_t sample, const float *logits, Verdict *v,
                                  bool *done, Err *err);

void score_init(Score *s, const Examples *e);
// The labels of a sample's own loss.
void score_loss(Score *s, const Judge *j, int64_t sample, const float *logits);
LT_MUST_CHECK Status score_verdict(Score *s, const Examples *e, const Verdict *v, Err *err);
// The next sample: judge_sample, then what it adds to the score.
LT_MUST_CHECK Status score_sample(Score *s, Judge *j, int64_t sample, const float *logits,
                                  Err *err);
// What the best checkpoint is chosen by: accuracy, F1 of tags, exact match. NaN: nothing judged.
double score_main(const Score *s);
const char *score_name(ExampleTask task); // "accuracy", "f1", "exact_match"
double score_mean_loss(const Score *s);
// "accuracy 0.9312 f1 0.9280"
LT_MUST_CHECK Status score_text(const Score *s, Buf *out, Err *err);
// "\"accuracy\":0.93125,\"f1\":..."
LT_MUST_CHECK Status score_json(const Score *s, Buf *out, Err *err);
LT_C_END
