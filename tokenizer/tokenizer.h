// tokenizer.h -- bytes in, token ids out, and back.
//
// One Tokenizer serves byte-level BPE (GPT-2, cl100k, our own) and character level; WordPiece joins
// it later. It knows nothing of models or data. Immutable after loading: any number of threads may
// encode with one Tokenizer at once.
//
// Sources a path may name (tokenizer_load):
//   a folder with tokenizer.json, or vocab.json / encoder.json + merges.txt / vocab.bpe
//   a tokenizer.json (Hugging Face, byte-level BPE; or lathe's character level)
//   a tiktoken rank file (*.tiktoken); its pattern is chosen by its number of ranks or by `pattern`
//
// Decoding returns exactly the bytes that were encoded, valid UTF-8 or not.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/on_progress.h"

typedef struct Tokenizer Tokenizer;
typedef struct TokenizerTrainer TokenizerTrainer;

typedef struct TokenIds { // a growable list; zero-initialise
    int32_t *id;
    int64_t n, cap;
} TokenIds;

typedef struct TokenizerTrain {
    const char *type;   // "bpe", "char" (later: "wordpiece")
    int64_t vocab_size; // bpe: ids in all, the end token included; char: ignored
    int threads;
    const char *pattern; // bpe: "gpt2" (also when NULL) or "cl100k"
} TokenizerTrain;

LT_C_BEGIN
// pattern: NULL (choose), "gpt2" or "cl100k".
LT_MUST_CHECK Status tokenizer_load(Tokenizer **out, const char *path, const char *pattern,
                                    Err *err);
// From text in memory. Same merges on every machine and for every number of threads: the most
// frequent pair wins, ties by the smaller pair of ids.
LT_MUST_CHECK Status tokenizer_train(Tokenizer **out, const TokenizerTrain *how, const char *text,
                                     size_t bytes, Err *err);
// The same for texts of any size, which are never in memory as a whole: only their distinct words.
LT_MUST_CHECK Status tokenizer_trainer_open(TokenizerTrainer **out, const TokenizerTrain *how,
                                            Err *err);
// The next stretch of a document, cut anywhere. more: the document goes on in the next call; else
// it ends here, and no word goes across.
LT_MUST_CHECK Status tokenizer_trainer_add(TokenizerTrainer *r, const char *text, size_t bytes,
                                           bool more, Err *err);
// Once, when all text was added. on: ids of the vocabulary done and wanted; may be NULL.
LT_MUST_CHECK Status tokenizer_trainer_finish(TokenizerTrainer *r, const OnProgress *on,
                                              Tokenizer **out, Err *err);
void tokenizer_trainer_close(TokenizerTrainer *r); // NULL is fine
// dir/tokenizer.json and tokenizer_config.json (Hugging Face layout) and, for BPE with GPT-2's
// pattern, dir/vocab.json + dir/merges.txt. A save that fails leaves none of these files.
LT_MUST_CHECK Status tokenizer_save(const Tokenizer *t, const char *dir, Err *err);
void tokenizer_close(Tokenizer *t); // NULL is fine

// Append the ids of `text`. allow_special: "<|endoftext|>" and the like become their own ids;
// otherwise they are plain text. threads > 1 splits large inputs at safe places: same ids.
// A character tokenizer meets an unknown character: ERR_FORMAT with the character and its offset.
LT_MUST_CHECK Status tokenizer_encode(const Tokenizer *t, const char *text, size_t bytes,
                                      bool allow_special, int threads, TokenIds *out, Err *err);
// The same for text[from, to): offsets in messages count from `text`. A long text may be encoded
// range by range where tokenizer_cut says: same ids.
LT_MUST_CHECK Status tokenizer_encode_range(const Tokenizer *t, const char *text, size_t from,
                                            size_t to, bool allow_special, int threads,
                                            TokenIds *out, Err *err);
// The first place from `at` on that no token can go across; `bytes` when there is none before.
size_t tokenizer_cut(const Tokenizer *t, const char *text, size_t bytes, size_t at,
                     bool allow_special);
// Append the bytes of the ids. An id outside the vocabulary: ERR_FORMAT.
LT_MUST_CHECK Status tokenizer_decode(const Tokenizer *t, const int32_t *id, int64_t n, Buf *out,
                                      Err *err);
// Streaming decode for terminals: `pending` keeps an incomplete UTF-8 sequence between calls; only
// complete sequences reach `out` (an impossible byte is passed through at once).
LT_MUST_CHECK Status tokenizer_decode_stream(const Tokenizer *t, int32_t id, Buf *pending, Buf *out,
                                             Err *err);

int64_t tokenizer_vocab_size(const Tokenizer *t); // ids are below this
int32_t tokenizer_end_token(const Tokenizer *t);  // <|endoftext|>, or -1
const char *tokenizer_kind(const Tokenizer *t);   // "bpe", "char"
// Bytes of one token; NULL when the id is not used.
const char *tokenizer_token(const Tokenizer *t, int32_t id, size_t *bytes);
// A fingerprint of everything that decides ids (vocabulary, merges, pattern, special tokens): the
// same for every file format the same tokenizer can be written in.
uint64_t tokenizer_fingerprint(const Tokenizer *t);

LT_MUST_CHECK Status token_ids_push(TokenIds *ids, int32_t id, Err *err);
void token_ids_free(TokenIds *ids);
LT_C_END
