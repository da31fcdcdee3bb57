// split_pick.h -- which documents of a text validate: one of every 1/val_fraction.
//
// Documents are numbered in the order they were read. Each stretch of 1/val_fraction of them gives
// one, picked by a random number of the stretch's index alone.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/compiler.h"

typedef struct SplitPick {
    double val_fraction;  // [0, 1)
    int64_t stretch;      // index of the current one
    int64_t stretch_end;  // the first document behind it
    int64_t val_document; // the one of it that is picked
} SplitPick;

LT_C_BEGIN
SplitPick split_pick(double val_fraction);
// The split of document i: 0 train, 1 validation. i goes up by one from call to call. limit: as
// many documents as there are, as far as that is known (INT64_MAX).
int split_of(SplitPick *p, int64_t i, int64_t limit);
LT_C_END
