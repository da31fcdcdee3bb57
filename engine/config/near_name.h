// near_name.h -- "did you mean": the candidate closest to a mistyped word.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stddef.h>
#include "engine/base/compiler.h"

typedef struct NearName { // zero-initialise, offer candidates, read best
    const char *best;     // NULL: nothing is close enough
    int         distance;
} NearName;

LT_C_BEGIN
// Edit distance (insert, delete, replace, swap of neighbours count one each) of at most a third of
// the word's length, and at least one edit, counts as close. The first of equals stays.
void near_offer(NearName *near, const char *word, const char *candidate);
int  near_distance(const char *a, const char *b); // words over 63 bytes: their first 63
LT_C_END
