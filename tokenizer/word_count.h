// word_count.h -- the distinct pieces of a text and how often each occurs.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/err.h"
#include "tokenizer/pretoken.h"

typedef struct Word {
    const uint8_t *text; // into the text counted
    int64_t bytes;
    int64_t count;
} Word;

typedef struct WordCount { // zero-initialise
    Word *word;            // the n distinct ones, in no particular order
    int64_t n, cap;
    int64_t *slot; // open addressing: index into word, or -1
    uint64_t slot_mask;
} WordCount;

LT_C_BEGIN
// Adds the pieces of `text`, on up to `threads` threads. The text must outlive the counts.
LT_MUST_CHECK Status word_count_text(WordCount *w, PretokenPattern pattern, const uint8_t *text,
                                     size_t bytes, int threads, Err *err);
void word_count_free(WordCount *w);
LT_C_END
