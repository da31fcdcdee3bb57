// hf_json.h -- what the readers of a tokenizer.json share.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <jansson.h>
#include "tokenizer/tokenizer_impl.h"

LT_MUST_CHECK Status hf_parse(json_t **out, const Buf *text, Err *err);
// Absent, null or false; the same, or an empty string.
bool hf_off(const json_t *v);
bool hf_empty(const json_t *v);
const char *hf_type(const json_t *v); // the member "type"; "(no type)"
// The id of a token in a vocabulary.
LT_MUST_CHECK Status hf_id(const json_t *v, const char *key, int32_t *id, Err *err);
LT_MUST_CHECK Status hf_check_vocab(const json_t *vocab, Err *err);
// Adds the added tokens. normalizes: the file has a normaliser, so tokens may be looked for in
// normalised text.
LT_MUST_CHECK Status hf_read_added(Tokenizer *t, const json_t *list, const json_t *vocab,
                                   bool normalizes, Err *err);

// load_wordpiece.c
bool hf_is_wordpiece(const json_t *model);
LT_MUST_CHECK Status hf_read_wordpiece(Tokenizer **t, const json_t *root, Err *err);
