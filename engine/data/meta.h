// meta.h -- meta.json of a data folder: what it holds and which tokenizer made it.
//
// Written last, so that a folder with a meta.json is complete. While a folder is being made it
// holds META_MARKER; a folder with the marker and no meta.json was interrupted.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/err.h"

#define META_FILE   "meta.json"
#define META_MARKER "INCOMPLETE"

typedef struct MetaFile {
    char name[64];  // in the data folder; "" when there is none
    int64_t tokens; // of a shard
    uint64_t bytes;
    uint32_t crc; // CRC-32 (zlib) of the file
} MetaFile;

typedef struct MetaSplit {
    int64_t tokens;
    int64_t documents;
    int64_t text_bytes;     // that the tokens stand for; end tokens stand for none
    int64_t counted_tokens; // targets under loss.mask=completion
    MetaFile *shard;        // owned
    int shards;
    MetaFile index; // of documents
    MetaFile mask;  // "": no prompt/completion data
    // Pairs.
    MetaFile next;       // which documents have a random second segment
    int64_t random_next; // how many
    int64_t texts;       // documents of text that the pairs were made from
} MetaSplit;

typedef struct MetaPairs {  // a document is [CLS] A [SEP] B [SEP]
    int64_t max_seq_length; // tokens of one at most; 0: this is no folder of pairs
    double short_seq_prob;
    int64_t dupe_factor;
    uint64_t seed;
    char sentences[8]; // "cut" or "line"
    int32_t cls, sep, mask, pad;
} MetaPairs;

typedef struct DataMeta {
    uint64_t tokenizer; // fingerprint
    char kind[16];
    int64_t vocab_size;
    int32_t end_token; // -1: none
    int token_bytes;   // 2 or 4
    int64_t empty_documents;
    MetaPairs pairs;
    MetaSplit split[2]; // train, val
} DataMeta;

LT_C_BEGIN
LT_MUST_CHECK Status data_meta_write(const DataMeta *m, const char *dir, Err *err);
// Checks that the parts agree with each other; sizes of files are the reader's to check.
LT_MUST_CHECK Status data_meta_read(DataMeta *m, const char *dir, Err *err);
void data_meta_free(DataMeta *m); // of a zeroed one too
LT_C_END
