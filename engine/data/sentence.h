// sentence.h -- text cut into sentences, by a few rules and no dictionary.
//
// A sentence ends
//   - at an empty line (a paragraph's end), and at the end of the text;
//   - behind . ! ? or U+2026 (...), U+061F, and the quotes and brackets that close there, when
//     white space follows and no small letter comes next; a full stop not behind a single letter
//     (an initial) nor behind one of a few abbreviations ("Mr.", "etc.", ...);
//   - behind the full stops of Chinese, Japanese and Indian scripts (U+3002, U+FF01, U+FF0E,
//     U+FF1F, U+FF61, U+0964), whatever follows.
// A line end that is no empty line is white space: lines may be wrapped. Text without any of these
// is one sentence.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "engine/base/compiler.h"

typedef struct Sentence { // text[from, to), no white space at either end, not empty
    size_t from, to;
} Sentence;

LT_C_BEGIN
// The first sentence of text[*at, bytes); *at moves behind it. false: there is none.
bool sentence_next(const char *text, size_t bytes, size_t *at, Sentence *out);
// The same where a line is a sentence. *gap: there was an empty line in front of it, or there is
// one and nothing behind.
bool sentence_next_line(const char *text, size_t bytes, size_t *at, Sentence *out, bool *gap);
LT_C_END
