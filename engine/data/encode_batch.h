// encode_batch.h -- many documents tokenized by several threads, results in the order they came.
//
// Small documents are copied into a batch and shared out among threads; a large one is a batch of
// its own, encoded where it lies, its stretches shared out by the tokenizer.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/data/text_source.h"
#include "tokenizer/tokenizer.h"

enum { BATCH_DOCUMENTS = 4096, BATCH_BYTES = 4 << 20 };

typedef struct EncodedDocument {
    size_t      at;         // of its text in the batch
    size_t      bytes;      // of text, or of the prompt
    size_t      pair_bytes; // of the completion
    bool        pair;       // prompt and completion
    const char *borrowed[2]; // a large one's text and completion, where they lie; else NULL
    char        place[160]; // "FILE:LINE", its end when too long
    TokenIds    ids;        // the end token included, unless the batch is bare
    int64_t     prompt_ids; // how many of them are the prompt's
} EncodedDocument;

typedef struct EncodeBatch {
    const Tokenizer *tokenizer;
    bool             allow_special;
    int              threads;
    Buf              text;
    EncodedDocument *doc; // [BATCH_DOCUMENTS]
    int              n;
    bool             bare; // no end token behind a document; may be set after encode_batch_init
} EncodeBatch;

LT_C_BEGIN
LT_MUST_CHECK Status encode_batch_init(EncodeBatch *b, const Tokenizer *t, bool allow_special,
                                       int threads, Err *err);
// Is there room for this document behind those already added? An empty batch has room for any.
bool                 encode_batch_fits(const EncodeBatch *b, const TextDocument *d);
LT_MUST_CHECK Status encode_batch_add(EncodeBatch *b, const TextDocument *d, Err *err);
// Does the batch refer to the text of the document added last? Then run it before that text goes.
bool encode_batch_borrows(const EncodeBatch *b);
// Fill `ids` of every document. The error of the first document that failed.
LT_MUST_CHECK Status encode_batch_run(EncodeBatch *b, Err *err);
void                 encode_batch_clear(EncodeBatch *b); // memory is kept
void                 encode_batch_free(EncodeBatch *b);
LT_C_END
