// bert_chars.h -- what BERT's normaliser and pre-tokeniser make of a character.
//
// The tables say what Hugging Face's `tokenizers` does with each code point, found out by asking
// it: accents, punctuation and controls are Unicode 8.0's, decomposition and its order 9.0's, lower
// case 17.0's, and unassigned code points are ordinary characters. The ids of published
// vocabularies hang on this, so unicode_class.h (16.0) cannot serve.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/compiler.h"

typedef enum BertClass {
    BERT_OTHER = 0,        // part of a word
    BERT_SPACE = 1,        // white space
    BERT_PUNCT = 2,        // a word by itself
    BERT_MARK = 3,         // an accent: stripping removes it
    BERT_MARK_STARTER = 4, // the same; marks on its two sides do not change places
    BERT_NONSTARTER = 5,   // a mark that stays; in a row of such the order is by bert_order
    BERT_DROP = 6,         // a control character, or U+FFFD: cleaning removes it
    BERT_DROP_SPACE = 7,   // the same; white space where nothing is cleaned
    BERT_CLASSES = 8,
    BERT_MAPPED = 8 // a bit: stripping or lower case makes another character of it
} BertClass;

enum {
    BERT_STRIP_ONE = 2000,
    BERT_STRIP_MORE = 42,
    BERT_LOWER_RANGES = 184,
    BERT_ORDER_RANGES = 25,
    BERT_CJK_RANGES = 7
};

typedef struct BertPair {
    uint32_t from, to;
} BertPair;

typedef struct BertRange { // each step-th code point from first to last
    uint32_t first, last;
    int32_t step, value;
} BertRange;

extern const uint8_t bert_class_index[0x1100];
extern const uint32_t bert_class_block[][32];
// All sorted. Without accents: one code point for one, up to three (then zeros) for one.
extern const BertPair bert_strip_one[BERT_STRIP_ONE];
extern const uint32_t bert_strip_more[BERT_STRIP_MORE][4];
extern const BertRange bert_lower_range[BERT_LOWER_RANGES]; // value: what is added
extern const BertRange bert_order_range[BERT_ORDER_RANGES]; // value: the order
extern const BertRange bert_cjk_range[BERT_CJK_RANGES];

// A BertClass, and BERT_MAPPED.
LT_INLINE uint32_t bert_class(uint32_t cp)
{
    const uint32_t eight = bert_class_block[bert_class_index[cp >> 8]][(cp & 255) >> 3];
    return eight >> (4 * (cp & 7)) & 15;
}
