// pretoken.h -- cuts text into the pieces BPE works on, as the well-known regular expressions do.
//
// Hand-written scanners, no regular expression engine: each walks the text once, with a table for
// ASCII and unicode_class.h for the rest. A scanner looks ahead only inside a run of white space,
// and never behind; so text may be cut where pretoken_cut says, and the parts scanned alone.
//
//   gpt2    '(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s
//   cl100k  '(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*
//           |\s+\z|\s*[\r\n]|\s+(?!\S)|\s
//   llama3  cl100k without \s+\z (as cl100k's own pattern once was)
//   qwen2   llama3 with \p{N} for \p{N}{1,3}
//   none    the whole text is one piece
//
// and for WordPiece, whose pieces bert_normal.h turns into words,
//
//   uncased, cased, lower, bert    [ \t\r\n]*(ASCII punctuation | all up to the next of either)
//
// These names say what normalisation does to the words: lower case without accents, nothing, lower
// case with accents; `bert` is any other choice of its steps.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/compiler.h"

typedef enum PretokenPattern {
    PRETOKEN_NONE,
    PRETOKEN_GPT2,
    PRETOKEN_CL100K,
    PRETOKEN_LLAMA3,
    PRETOKEN_QWEN2,
    PRETOKEN_UNCASED, // from here on WordPiece
    PRETOKEN_CASED,
    PRETOKEN_LOWER,
    PRETOKEN_BERT,
    PRETOKEN_COUNT
} PretokenPattern;

LT_C_BEGIN
// Up to `cap` pieces from *at on: their ends go to ends[], *at moves behind the last one. Returns
// their number; 0 only when *at == end.
int pretoken_scan(PretokenPattern pattern, const uint8_t **at, const uint8_t *end,
                  const uint8_t **ends, int cap);
// The first place at or behind p that is certainly a boundary between two pieces, whatever stands
// around it: an ASCII white space behind an ASCII letter or digit. `end` when there is none.
const uint8_t *pretoken_cut(PretokenPattern pattern, const uint8_t *begin, const uint8_t *p,
                            const uint8_t *end);
// The last such place in front of `end`; `begin` when there is none.
const uint8_t *pretoken_last_cut(PretokenPattern pattern, const uint8_t *begin, const uint8_t *end);

const char *pretoken_name(PretokenPattern pattern);
// By name ("gpt2", "cl100k"; "uncased", "cased", "lower"): false when there is none such.
bool pretoken_by_name(const char *name, PretokenPattern *out);
LT_INLINE bool pretoken_is_bert(PretokenPattern pattern)
{
    return pattern >= PRETOKEN_UNCASED;
}
// By regular expression as it stands in a tokenizer.json: false when it is none we know.
bool pretoken_by_regex(const char *regex, PretokenPattern *out);
// The expression to write into a tokenizer.json; NULL for PRETOKEN_NONE. Valid in Oniguruma and
// fancy-regex alike.
const char *pretoken_regex(PretokenPattern pattern);
LT_C_END
