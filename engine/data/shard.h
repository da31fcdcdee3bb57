// shard.h -- one split of a data folder as it is written: shards, document index, bit files.
//
// The bytes are laid out in FORMAT.md. Tokens stream through: a shard is written as NAME.part under
// a header that promises `shard_tokens`, and becomes NAME.bin when that many came. The last one is
// copied once more under a header with its true length.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/data/meta.h"

enum {
    SHARD_HEADER_WORDS = 256, // int32
    SHARD_HEADER_BYTES = 1024,
    SHARD_MAGIC_16 = 20240520, // version 1: uint16 tokens
    SHARD_VERSION_16 = 1,
    SHARD_MAGIC_32 = 20240801, // version 7: uint32 tokens
    SHARD_VERSION_32 = 7,
    INDEX_HEADER_BYTES = 8, // of document index, completion mask, next sentences
};
#define SHARD_MAX_TOKENS ((int64_t)INT32_MAX) // what the header can say
#define INDEX_MAGIC      "LTHDOCS1"
#define MASK_MAGIC       "LTHMASK1"
#define NEXT_MAGIC       "LTHNEXT1"

typedef struct SplitWriter SplitWriter;

LT_C_BEGIN
// Files dir/NAME-00000.bin ..., dir/NAME.documents, .mask, .next. token_bytes: 2 or 4.
LT_MUST_CHECK Status split_writer_open(SplitWriter **out, const char *dir, const char *name,
                                       int token_bytes, int64_t shard_tokens, Err *err);
// A document begins at the next token.
LT_MUST_CHECK Status split_writer_document(SplitWriter *w, Err *err);
// Of pairs, once a document: is its second segment a random one?
LT_MUST_CHECK Status split_writer_next(SplitWriter *w, bool random, Err *err);
// counts: false for a prompt, whose tokens are no targets under loss.mask=completion.
LT_MUST_CHECK Status split_writer_put(SplitWriter *w, const int32_t *id, int64_t n, bool counts,
                                      Err *err);
// Everything on disk and described in *out (text_bytes is the caller's). No tokens: no files.
LT_MUST_CHECK Status split_writer_finish(SplitWriter *w, MetaSplit *out, Err *err);
// What is not finished is dropped; NULL is fine.
void split_writer_close(SplitWriter *w);
LT_C_END
