// build_pairs.h -- `lathe data --format=bert`: documents of sentences to pairs of segments.
//
//     text source -> sentences -> batches, encoded by several threads -> staged ids
//     staged ids -> split by documents of text -> pairs [CLS] A [SEP] B [SEP]
//
// The pairs are those of BERT's create_pretraining_data: sentences of a document are gathered until
// they have max_seq_length - 3 tokens (with probability short_seq_prob, drawn once a document, a
// random shorter length) or the document ends. A is the first one or more of them. With probability
// one half B is the rest; else, and when there is no rest, B is sentences from a random place of
// another document of the same split, and the rest is gathered again. The longer of A and B loses
// tokens at its front or its back, each with probability one half, until the pair fits.
// Ours: a sentence of more tokens than a pair holds is cut at words into pieces of about half a
// pair (BERT's tools keep a random part of it); sentences without a token are dropped.
//
// The second segment may come from anywhere, so all ids are staged first, in files in the data
// folder that are mapped afterwards: 4 bytes a token, 8 a sentence and 16 a document of disk. In
// memory: one batch, and 8 bytes a document. Every draw is a function of (seed, pass, document,
// number of the draw): the pairs do not depend on threads.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/data/build.h"
#include "engine/data/shard.h"
#include "engine/data/text_source.h"
#include "tokenizer/tokenizer.h"

typedef struct PairBuild {
    const DataBuild *how; // with how->pairs
    const Tokenizer *tokenizer;
    TextSource *source;
    SplitWriter *split[2];
    // Results.
    MetaPairs meta;
    int64_t documents; // of text, those with a token
    int64_t empty;     // those without: left out
    int64_t unpaired;  // alone in their split and of one sentence: left out
    int64_t texts[2];
    int64_t text_bytes[2];
} PairBuild;

LT_C_BEGIN
// ERR_STOPPED once a signal asked for it. build.c asks, too.
LT_MUST_CHECK Status build_stop_if_told(Err *err);
LT_MUST_CHECK Status build_pairs(PairBuild *p, Err *err);
LT_C_END
