// word_count.h -- the distinct pieces of a text and how often each occurs.
//
// The table keeps a copy of each distinct piece, so the text may go away: what training needs
// memory for is the words of a language, not the length of a text.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/buf.h"
#include "tokenizer/pretoken.h"

typedef struct Word {
    size_t at; // into WordCount.text
    int64_t bytes;
    int64_t count;
} Word;

typedef struct WordCount { // zero-initialise
    Buf text;              // the distinct pieces one behind the other
    Word *word;            // the n distinct ones, in no particular order
    int64_t n, cap;
    uint64_t *slot; // open addressing; upper half of the hash << 32 | index into word, or all ones
    uint64_t slot_mask;
} WordCount;

LT_C_BEGIN
// Adds the pieces from text to end, which is a place where a piece ends.
LT_MUST_CHECK Status word_count_pieces(WordCount *w, PretokenPattern pattern, const uint8_t *text,
                                       const uint8_t *end, Err *err);
// Adds one word `count` times.
LT_MUST_CHECK Status word_count_add(WordCount *w, const char *text, int64_t bytes, int64_t count,
                                    Err *err);
// Adds all of `from`.
LT_MUST_CHECK Status word_count_join(WordCount *w, const WordCount *from, Err *err);
void word_count_free(WordCount *w); // of a zeroed one too
LT_C_END
