// mmididx.h -- the .idx half of a Megatron dataset (MMIDIDX version 1).
//
//     "MMIDIDX\0\0"  u64 version = 1  u8 type  u64 sequences  u64 documents
//     i32 length[sequences]  i64 pointer[sequences]  i64 document[documents]
//
// all little-endian and unaligned. Sequence i is length[i] tokens at byte pointer[i] of the .bin
// file; document[] holds the first sequence of each document, `sequences` at its end. What may
// follow (modes of multimodal sets) is not read. The sequences must lie one after another without
// gaps, as Megatron writes them; then the .bin is a plain run of tokens.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/data/corpus.h"

typedef struct MmidIndex {
    TokenWidth width;
    int64_t    tokens;
    uint64_t   bytes;     // the .bin must have
    int64_t    documents; // that have tokens
    uint64_t  *document;  // [documents] first tokens; owned
} MmidIndex;

LT_C_BEGIN
LT_MUST_CHECK Status mmid_open(MmidIndex *m, const char *path, Err *err);
void                 mmid_close(MmidIndex *m);
LT_C_END
