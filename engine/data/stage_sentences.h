// stage_sentences.h -- documents of sentences as ids on disk: written front to back, then mapped
// and read at any place.
//
//     staging.ids         int32 a token
//     staging.sentences   uint64 a sentence: its first token
//     staging.documents   16 bytes a document: its first sentence, and its bytes of text
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/base/file.h"

typedef struct StagedText { // a document
    uint64_t first;         // sentence
    uint64_t bytes;         // of text
} StagedText;

typedef struct SentenceStage {
    FileWriter writer[3];
    FileMap map[3];
    int64_t tokens, sentences, documents;
    StagedText open; // the document being written
    bool is_open;
    // After stage_map.
    const int32_t *id;          // [tokens]
    const uint64_t *sentence;   // [sentences]
    const StagedText *document; // [documents]
} SentenceStage;

LT_C_BEGIN
LT_MUST_CHECK Status stage_open(SentenceStage *s, const char *dir, Err *err);
// The next sentence is the first of a document.
LT_MUST_CHECK Status stage_document(SentenceStage *s, Err *err);
LT_MUST_CHECK Status stage_sentence(SentenceStage *s, const int32_t *id, int64_t n, Err *err);
LT_MUST_CHECK Status stage_map(SentenceStage *s, Err *err); // no more writing
// Sentences of document i: [first, end); the first token of sentence k, also of the one behind the
// last.
int64_t stage_first(const SentenceStage *s, int64_t i);
int64_t stage_end(const SentenceStage *s, int64_t i);
int64_t stage_token(const SentenceStage *s, int64_t k);
// The files are gone, too. Of a zeroed one too.
LT_MUST_CHECK Status stage_close(SentenceStage *s, Err *err);
LT_C_END
