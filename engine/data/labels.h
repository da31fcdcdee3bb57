// labels.h -- the names of classes or tags, and their numbers.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "engine/base/err.h"

enum { LABELS_MAX = 256, LABEL_CAP = 64 };

typedef struct Labels { // zeroed: none
    int n;
    char name[LABELS_MAX][LABEL_CAP];
} Labels;

LT_C_BEGIN
void labels_from(Labels *l, const char (*name)[LABEL_CAP], int n); // n names that a map holds
int labels_find(const Labels *l, const char *name, size_t bytes); // -1: not there
// Its number; a new name is put behind the others. ERR_USAGE (the caller adds the place): empty,
// too long, not printable UTF-8, one too many.
LT_MUST_CHECK Status labels_add(Labels *l, const char *name, size_t bytes, int *number, Err *err);
// By the values of their bytes; names that are all integers by what they count.
void labels_sort(Labels *l);
// Are these the names that stand for none: LABEL_0, LABEL_1, ...?
bool labels_unnamed(const Labels *l);
// "a, b, c, ...": the first of them, for messages. Returns out.
const char *labels_show(const Labels *l, char out[256]);
LT_C_END
