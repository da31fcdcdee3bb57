// fuzz_tokenizer_check.h -- what must hold of every tokenizer that was loaded, whatever the format.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "tests/fuzz/fuzz.h"
#include "tokenizer/tokenizer.h"

// Encode and decode are inverse on text of all kinds and on `own`, with and without special tokens;
// streaming agrees; saved and loaded it is the same tokenizer. Closes t.
void fuzz_tokenizer_check(Tokenizer *t, const uint8_t *own, size_t bytes);
