// fuzz_tokenizer_check.h -- what must hold of every tokenizer that was loaded, whatever the format.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "tests/fuzz/fuzz.h"
#include "tokenizer/tokenizer.h"

// tokenizer_load, with a look at the heap it takes for files of `bytes` bytes. NULL: refused.
Tokenizer *fuzz_tokenizer_load(const char *path, const char *pattern, size_t bytes);
// Encode and decode are inverse on text of all kinds and on `own`, with and without special tokens
// (but of WordPiece, which does not keep the text); streaming agrees; ranges have the ids of the
// whole; saved and loaded it is the same tokenizer. Closes t.
void fuzz_tokenizer_check(Tokenizer *t, const uint8_t *own, size_t bytes);
