// pack.h -- which short sequences share a row: best fit decreasing.
//
// Sequences are taken from the longest to the shortest. Each goes into the row with the least room
// that it fits into, or opens a new one. Rows lie in bins by the room they have left, so a look-up
// is a search for the first bin with a row in it, whatever the number of sequences. The result
// depends on the lengths alone. Rows are numbered by the first sequence in each, so that their
// order is about that of the sequences, not that of their lengths.
//
// Memory: 12 bytes a sequence while packing, 4 bytes and 4 a row afterwards.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/err.h"

typedef struct PackRule { // what a row holds at most
    int64_t tokens;
    int64_t sequences;
    int64_t picks;
    const int32_t *picks_of; // [tokens + 1] of a sequence of so many tokens
} PackRule;

typedef struct Packs {
    int64_t n;
    uint32_t *first;    // [n + 1] of each pack, in `document`
    uint32_t *document; // [documents] those of a pack in rising order
} Packs;

LT_C_BEGIN
// begin[n]: first tokens of the sequences; `end`: behind the last. Each fits into a row.
LT_MUST_CHECK Status packs_make(Packs *p, const PackRule *rule, const uint64_t *begin, int64_t n,
                                int64_t end, Err *err);
void packs_free(Packs *p); // of a zeroed one too
LT_C_END
