// examples.h -- labelled examples as token ids, in memory: what fine-tuning learns from.
//
//   classify   [CLS] text [SEP]          or  [CLS] text [SEP] text [SEP]     label of the whole
//   tag        [CLS] word word ... [SEP]      label of each word, at the first of its tokens
//   qa         [CLS] question [SEP] context [SEP]      first and last token of the answer
//
// A sample is one row of a batch. An example is one, but for a question whose context is too long:
// it is cut into windows that overlap by half of their room, at most QA_OVERLAP tokens, and each
// window is a sample; a window without the whole answer has its answer at [CLS], and so have all
// of a question that the context does not answer.
//
// Too long otherwise: the longer of the two texts loses tokens at its end; words behind the end of
// a sentence's room are not seen (predicted, they get the tag O or the first there is). A question
// keeps at most half of the row. `cut` counts such examples. An empty text is [CLS] [SEP], a word
// that the tokenizer makes nothing of is [UNK].
//
// Offsets of answers: WordPiece does not say which bytes a token stands for. The context is encoded
// word by word (as the tokenizer cuts it itself: at blanks and at ASCII's punctuation), so the ids
// are those of the whole; inside a word of ASCII the tokens' lengths tell, tokens of another word
// each stand for all of it.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/buf.h"
#include "engine/data/example_file.h"
#include "engine/data/labels.h"
#include "tokenizer/tokenizer.h"

enum { QA_OVERLAP = 128, EXAMPLE_BLOCK_MIN = 8 };

typedef struct ExampleOptions {
    ExampleTask task;
    const Tokenizer *tokenizer; // borrowed until examples_close
    int64_t block;              // most tokens of a sample, at least EXAMPLE_BLOCK_MIN
    bool labelled;
    bool keep_text;       // of tag: the words
    const Labels *labels; // the map; NULL: the file's own, sorted
} ExampleOptions;

typedef struct Example {
    int64_t line;
    int64_t sample, samples; // qa: one or more; else 1
    int32_t label;           // classify, -1: not given
    int64_t words;           // tag: all of them; the samples' picks are those that are seen
    int64_t tag;             // tag: of Examples.tag
    int64_t text, bytes;     // qa: the context, in Examples.text; tag: words, each with a 0 behind
    int64_t answer, answers; // qa: of Examples.answer
} Example;

typedef struct ExampleSample {
    int64_t example;
    int64_t id;      // first of its ids
    int32_t n;       // tokens
    int32_t second;  // the first token of type 1; n: none
    int64_t row;     // tag: first of its rows
    int32_t picks;   // tag: words that are seen
    int32_t span[2]; // qa: first and last token; 0, 0: none here
} ExampleSample;

typedef struct ExampleAnswer { // bytes of Examples.text
    int64_t at, bytes;
} ExampleAnswer;

typedef struct Examples {
    ExampleOptions o;
    int32_t cls, sep, pad, unk;
    Labels labels;
    Example *example;
    int64_t n, cap;
    ExampleSample *sample;
    int64_t samples, cap_samples;
    ExampleAnswer *answer;
    int64_t answers, cap_answers;
    TokenIds ids;
    TokenIds lo, hi; // qa: bytes of the context, of each id; 0, 0 in front of it and behind
    TokenIds row;    // tag: of each seen word
    TokenIds tag;    // tag: label of each word, also of those not seen
    Buf text;
    int64_t longest;    // tokens of a sample
    int64_t most_picks; // of a sample
    int64_t tokens;     // of all samples
    int64_t cut;        // examples that lost something to their length
    TokenIds scratch, piece_lo, piece_hi;
} Examples;

typedef struct ExampleRow { // where a sample goes: arrays of T, of most_picks, of one, of two
    int32_t *input, *type, *position, *seg_lo, *seg_hi;
    int32_t *pick_row, *pick_target; // tag
    int32_t *seq_row, *seq_target;   // classify
    int32_t *span_target;            // qa
} ExampleRow;

typedef struct ExampleView { // some of the examples, in an order
    const Examples *of;      // borrowed
    int64_t *sample;         // numbers of their samples; those of one example stand together
    int64_t samples, examples, tokens;
    int64_t picks; // of a row: of->most_picks, or what the caller raises it to
} ExampleView;

LT_C_BEGIN
// May samples be that long for the model in `dir`, which takes `most` tokens?
LT_MUST_CHECK Status examples_check_block(int64_t block, int64_t most, const char *dir, Err *err);
LT_MUST_CHECK Status examples_open(Examples *e, const ExampleOptions *o, Err *err);
void examples_close(Examples *e); // also of a zeroed one
// One record more. `file` is for messages.
LT_MUST_CHECK Status examples_add(Examples *e, const ExampleRecord *r, const char *file, Err *err);
void examples_clear(Examples *e); // none; memory is kept
// A whole file of labelled examples. None in it, or (with labels of its own) all of one label:
// ERR_USAGE.
LT_MUST_CHECK Status examples_read(Examples *e, const char *path, Err *err);

// Fill a row of T >= longest. Padding is [PAD] with seg_lo == seg_hi. P: picks there is room for.
void examples_put(const Examples *e, int64_t sample, int64_t T, int64_t P, const ExampleRow *to);

LT_MUST_CHECK Status example_view_all(ExampleView *v, const Examples *e, Err *err);
// A tenth (one at least) is held out, drawn by `seed`; of a single example nothing can be:
// ERR_USAGE. The order of the file is kept.
LT_MUST_CHECK Status example_view_split(ExampleView *rest, ExampleView *held, const Examples *e,
                                        uint64_t seed, Err *err);
void example_view_close(ExampleView *v); // also of a zeroed one
LT_C_END
