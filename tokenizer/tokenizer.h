// tokenizer.h -- bytes in, token ids out, and back.
//
// One Tokenizer serves byte-level BPE (GPT-2, cl100k, our own), character level and WordPiece
// (BERT). It knows nothing of models or data. Immutable after loading: any number of threads may
// encode with one Tokenizer at once.
//
// Sources a path may name (tokenizer_load):
//   a folder with tokenizer.json, or vocab.json / encoder.json + merges.txt / vocab.bpe
//   a folder with vocab.txt (WordPiece), or a vocab.txt; with a tokenizer_config.json beside it
//   a tokenizer.json (Hugging Face, byte-level BPE or WordPiece; or lathe's character level)
//   a tiktoken rank file (*.tiktoken); its pattern is chosen by its number of ranks or by `pattern`
//
// Decoding returns exactly the bytes that were encoded, valid UTF-8 or not; except with WordPiece,
// which keeps neither white space nor, in most vocabularies, capitals and accents: it decodes to
// readable text.
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
    const char *type;   // "bpe", "wordpiece", "char"
    int64_t vocab_size; // ids in all, special tokens included; char: ignored
    int threads;
    // bpe: "gpt2" (also when NULL) or "cl100k"; wordpiece: "uncased" (also when NULL: lower case,
    // no accents), "cased" or "lower" (accents stay)
    const char *pattern;
} TokenizerTrain;

LT_C_BEGIN
// pattern: what a file that does not say it has. NULL (choose); "gpt2", "cl100k"; "uncased",
// "cased", "lower". Of a file that says it: must be the same.
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
// pattern, dir/vocab.json + dir/merges.txt; for WordPiece dir/vocab.txt. A save that fails leaves
// none of these files.
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
// complete sequences reach `out` (an impossible byte is passed through at once). WordPiece: as
// behind other text, so a word begins with its space.
LT_MUST_CHECK Status tokenizer_decode_stream(const Tokenizer *t, int32_t id, Buf *pending, Buf *out,
                                             Err *err);

int64_t tokenizer_vocab_size(const Tokenizer *t);  // ids are below this
int32_t tokenizer_end_token(const Tokenizer *t);   // <|endoftext|>, WordPiece: [SEP]; or -1
const char *tokenizer_kind(const Tokenizer *t);    // "bpe", "char", "wordpiece"
const char *tokenizer_pattern(const Tokenizer *t); // "gpt2", ..., "uncased", ...; "none"
// The special token with this text ("[MASK]"), or -1.
int32_t tokenizer_special(const Tokenizer *t, const char *text);
// What the tokenizer would put around a text when asked to ([CLS], [SEP]), or -1 each. Encoding
// never adds them.
void tokenizer_around(const Tokenizer *t, int32_t *before, int32_t *after);
// Does the token go on with the word of the token before it ("##...")? WordPiece only.
bool tokenizer_goes_on(const Tokenizer *t, int32_t id);
// Bytes of one token (WordPiece: with its "##"); NULL when the id is not used.
const char *tokenizer_token(const Tokenizer *t, int32_t id, size_t *bytes);
// How many bytes of text it stands for; of WordPiece about, a word with the space in front of it.
size_t tokenizer_text_bytes(const Tokenizer *t, int32_t id);
// A fingerprint of everything that decides ids (vocabulary, merges, pattern, special tokens): the
// same for every file format the same tokenizer can be written in.
uint64_t tokenizer_fingerprint(const Tokenizer *t);

LT_MUST_CHECK Status token_ids_push(TokenIds *ids, int32_t id, Err *err);
void token_ids_free(TokenIds *ids);
LT_C_END
