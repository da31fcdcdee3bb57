// corpus.h -- one split of one data source as a single run of tokens, whatever files it lies in.
//
//     folder with meta.json       lathe's own (FORMAT.md): shards, document index, completion mask
//     x.bin with x.idx beside it  MMIDIDX version 1 (Megatron), with its documents
//     x.bin with an llm.c header  magic 20240520 (uint16) or 20240801 (uint32)
//     train.bin, val.bin          headerless uint16 (nanoGPT)
//
// A folder without meta.json: .bin files whose name holds "val" are the validation split, the rest
// is the training split, each in the order of their names. A single file, or a MMIDIDX prefix, is a
// training split.
//
// Files are mapped. Every size is checked when the file is opened, every id when it is read.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/base/file.h"
#include "engine/data/meta.h"

typedef enum TokenWidth {
    TOKEN_U8,
    TOKEN_I8,
    TOKEN_U16,
    TOKEN_I16,
    TOKEN_I32,
    TOKEN_U32,
    TOKEN_I64
} TokenWidth;

typedef struct CorpusPiece { // tokens [begin, begin + tokens) of the split
    FileMap map;
    const uint8_t *data; // of the first token, in map
    int64_t begin, tokens;
    TokenWidth width;
    char *path; // owned
} CorpusPiece;

typedef struct Corpus {
    char path[PATH_CAP]; // as it was named
    CorpusPiece *piece;  // owned
    int pieces;
    int64_t tokens;
    bool has_meta;
    DataMeta meta; // when has_meta
    int split;

    int64_t documents;        // 0: not known
    const uint64_t *document; // [documents] first tokens, rising from 0; NULL: not known
    uint64_t *own_document;   // behind `document` when it is not a map
    FileMap index_map;
    const uint8_t *mask; // one bit a token, lowest first: counts on completions; NULL: none
    FileMap mask_map;
    const uint8_t *next; // one bit a document: its second segment is a random one; NULL: no pairs
    FileMap next_map;
} Corpus;

LT_C_BEGIN
// split: 0 train, 1 val. On failure *c is closed.
LT_MUST_CHECK Status corpus_open(Corpus *c, const char *path, int split, Err *err);
// dst[n] = the ids of tokens [at, at + n). vocab_size 0: ids are only checked to be ids at all.
LT_MUST_CHECK Status corpus_read(const Corpus *c, int64_t at, int64_t n, int64_t vocab_size,
                                 int32_t *dst, Err *err);
// The number of documents that begin at or before token `at`. Needs `document`.
int64_t corpus_documents_until(const Corpus *c, int64_t at);
bool corpus_counts(const Corpus *c, int64_t at); // is this token a target on completions?
// Where document i ends: the first token behind it. Needs `document`.
int64_t corpus_document_end(const Corpus *c, int64_t i);
bool corpus_random_next(const Corpus *c, int64_t i); // of pair i. Needs `next`.
void corpus_close(Corpus *c);                        // of a zeroed one too
LT_C_END
