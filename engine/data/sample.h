// sample.h -- what a kind of data tells the stream: how many samples it has, how to make one.
//
//     kind       a source is          a sample is                          file
//     windows    a run of tokens      block_size + 1 tokens, for a GPT     sample_windows.c
//     pairs      documents [CLS] A    one document, or a pack of them,     sample_pairs.c
//                [SEP] B [SEP]        masked, for BERT
//     examples   labelled examples,   one of them, or a window of one      sample_examples.c
//                in memory
//
// The stream (stream.c) decides which sample comes when, in which thread, and into which memory; a
// kind only fills the row it is given. All that a sample depends on is in SampleAt.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/data/corpus.h"
#include "engine/data/stream.h"

typedef struct SampleShape { // which arrays of a StreamBatch there are, and how wide
    bool target;             // [T]
    bool segments;           // position, seg_lo [T]
    bool bert;               // type, seg_hi [T]
    int64_t picks;           // P
    int64_t seqs;            // Q
    bool spans;              // [2]
} SampleShape;

typedef struct SampleRow { // of one sample in the arrays of a StreamBatch; NULL: there is none
    int32_t *input, *target, *position, *seg_lo, *type, *seg_hi; // [T]
    int32_t *pick_row, *pick_target;                             // [P]
    int32_t *seq_row, *seq_target;                               // [Q]
    int32_t *span_target;                                        // [2]
    int64_t counted, tokens, counted_seqs, sequences; // set by `make`: what StreamBatch adds up
} SampleRow;

typedef struct SampleSource { // one folder of a mixture
    Corpus corpus;            // opened by the stream; examples have none
    int number;               // in the mixture
    StreamOptions o;          // o.data is not kept
    SampleShape shape;        // set by `open`, like the rest
    int64_t samples;          // an epoch; at least 1
    int64_t sequences;        // that they hold
    int64_t dropped_tokens;
    void *own; // of the kind
} SampleSource;

typedef struct SampleAt {
    int64_t epoch; // of the source
    int64_t index; // of the sample in its source: the shuffle is behind us
} SampleAt;

typedef struct SampleKind {
    // Check the files against s->o, set the fields above. What was taken, `close` gives back, after
    // a failure too.
    Status (*open)(SampleSource *s, Err *err);
    // Called by one thread at a time.
    Status (*make)(const SampleSource *s, const SampleAt *at, SampleRow *to, Err *err);
    void (*close)(SampleSource *s);
} SampleKind;

extern const SampleKind sample_windows, sample_pairs, sample_examples;
