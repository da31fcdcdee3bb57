// build.h -- `lathe data` without the command line: text in, a data folder out.
//
//     text source -> batches of documents, encoded by several threads -> train and val splits
//
// A document becomes its ids and, where the tokenizer has one, the end token. A prompt/completion
// pair is two texts encoded apart; completion and end token count under loss.mask=completion.
//
// Validation: with 20 documents or more, one document of every 1/val_fraction, picked by a random
// number of the stretch's index (at least one document in all). With fewer, the end of the token
// stream. Which it will be is known only after max(20, 1/val_fraction) documents: until then ids go
// to a staging file in the data folder (4 bytes a token), so memory holds one batch at a time.
//
// Pairs for BERT (`pairs` given) are made otherwise: build_pairs.h.
//
// The folder holds INCOMPLETE from the first moment and meta.json at the last; on failure
// everything written is removed again.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/base/on_progress.h"
#include "engine/data/meta.h"
#include "tokenizer/tokenizer.h"

typedef struct DataPairs {
    int64_t max_seq_length; // tokens of a pair at most, with [CLS] and two [SEP]
    double short_seq_prob;
    int64_t dupe_factor;
    uint64_t seed;
    bool lines;      // a line is a sentence; else text is cut (sentence.h)
    bool empty_line; // of a text file an empty line ends a document; with `lines`
} DataPairs;

typedef struct DataBuild {
    const char *input;     // FILE, DIR or "-"
    const char *out;       // a folder that is empty or absent
    const char *separator; // of documents in text files, "" for none; escapes already undone
    double val_fraction;   // [0, 1)
    int64_t shard_tokens;
    bool allow_special;
    const DataPairs *pairs; // NULL: a stream of tokens
    int threads;            // at least 1
    OnProgress on;          // hears bytes of input that are done, and how many there are
} DataBuild;

typedef struct DataBuilt { // what was made, for the summary
    DataMeta meta;         // data_meta_free
    int64_t files;
    int64_t marks;         // byte order marks removed
    int64_t skipped_files; // of a folder, by their names
    char first_skipped[4096];
    bool split_by_stream; // fewer than DATA_SPLIT_DOCUMENTS documents
    int64_t unpaired;     // pairs: documents without a partner, left out
    bool lone[2];         // pairs: the split has one document; random segments are its own
    double seconds;
} DataBuilt;

enum { DATA_SPLIT_DOCUMENTS = 20 };

LT_C_BEGIN
// The tokenizer is saved into the folder, too.
LT_MUST_CHECK Status data_build(const DataBuild *how, const Tokenizer *t, DataBuilt *out, Err *err);
LT_C_END
