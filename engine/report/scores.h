// scores.h -- how right predictions are: classes, tags, answers. Arithmetic on what was predicted,
// no model and no file.
//
//   accuracy     right ones of all
//   macro F1     F1 of each class, averaged; a class that neither occurs nor is predicted is left
//                out (scikit-learn's f1_score with average="macro")
//   entity F1    of whole entities, their type and both ends right; entities are read from tags
//                B-TYPE, I-TYPE (also E-, S-) as conlleval and seqeval do: an I- that follows
//                nothing of its type begins one
//   exact match, F1 of answers: SQuAD's evaluation. Both sides lose capitals (of ASCII), ASCII's
//                punctuation, the words a, an, the, and runs of blanks; F1 is of the words. Of
//                several right answers the one that gives most counts; with none, the empty text
//                is right
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/err.h"

enum { SCORE_CLASSES = 256, SCORE_NAME_CAP = 64 };

typedef struct ClassScore { // zeroed: of nothing
    int64_t n, right;
    int64_t is[SCORE_CLASSES], said[SCORE_CLASSES], both[SCORE_CLASSES];
} ClassScore;

typedef struct TagScore {
    ClassScore word;
    bool entities;            // there are tags of entities
    char mark[SCORE_CLASSES]; // the tag's first letter
    int type[SCORE_CLASSES];  // the first tag of the same type
    int64_t is, said, both;   // entities
} TagScore;

typedef struct AnswerScore { // zeroed: of nothing
    int64_t n, exact;
    double f1; // sum
} AnswerScore;

typedef struct ScoreText { // borrowed
    const char *text;
    int64_t bytes;
} ScoreText;

LT_C_BEGIN
void class_score_add(ClassScore *s, int is, int said);
double class_score_accuracy(const ClassScore *s); // NaN: of nothing
double class_score_macro_f1(const ClassScore *s);

void tag_score_init(TagScore *s, const char (*name)[SCORE_NAME_CAP], int n);
void tag_score_add(TagScore *s, const int32_t *is, const int32_t *said, int64_t n); // a sentence
// Of entities; of the words' tags (macro) when the tags are none of entities.
double tag_score_f1(const TagScore *s);

LT_MUST_CHECK Status answer_score_add(AnswerScore *s, ScoreText said, const ScoreText *right, int n,
                                      Err *err);
double answer_score_exact(const AnswerScore *s); // NaN: of nothing
double answer_score_f1(const AnswerScore *s);
LT_C_END
