// bert_normal.h -- BERT's normalisation and pre-tokenisation: a text becomes words.
//
// In this order, each step on or off:
//   clean   control characters and U+FFFD go, white space becomes a space
//   cjk     an ideograph stands alone
//   strip   canonical decomposition, then accents (non-spacing marks) go
//   lower   lower case, character by character
// and then words are what is between white space, a punctuation character being a word by itself.
// A byte that is no part of valid UTF-8 counts as U+FFFD.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/buf.h"
#include "tokenizer/pretoken.h"

enum { BERT_CLEAN = 1, BERT_CJK = 2, BERT_STRIP = 4, BERT_LOWER = 8 };

enum {
    // A word of more characters is [UNK] under any vocabulary we read: then the order of its
    // marks does not matter.
    BERT_WORD_MAX = 1024
};

LT_C_BEGIN
// The steps that PRETOKEN_UNCASED, _CASED, _LOWER stand for; and back (PRETOKEN_BERT: no name).
uint32_t bert_steps(PretokenPattern pattern);
PretokenPattern bert_pattern(uint32_t steps);
// Appends the words of a text with one space or more between two: valid UTF-8.
LT_MUST_CHECK Status bert_normalize(uint32_t steps, const uint8_t *text, size_t bytes, Buf *out,
                                    Err *err);
// The next word of such a text: from *at on, before end; NULL when there is none. *at moves behind.
const char *bert_word(const char **at, const char *end, int64_t *bytes, int64_t *chars);
LT_C_END
