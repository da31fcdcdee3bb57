// fuzz_tokenizer_json.c -- Hugging Face's tokenizer.json: byte-level BPE, WordPiece and lathe's
// characters.
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz_tokenizer_check.h"

static void feed(const uint8_t *data, size_t size)
{
    char path[PATH_CAP];
    fuzz_put(path, "tokenizer.json", data, size);
    Tokenizer *t = fuzz_tokenizer_load(path, NULL, size);
    if (t) fuzz_tokenizer_check(t, data, size);
}

// Saving and loading again included; fuzz_tokenizer_load is strict.
const FuzzTarget fuzz_target = {feed, .memory_factor = 1024, .memory_base = 12 << 20};
