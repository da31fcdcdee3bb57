// fuzz_tokenizer_json.c -- Hugging Face's tokenizer.json: byte-level BPE and lathe's characters.
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz_tokenizer_check.h"

static void feed(const uint8_t *data, size_t size)
{
    char path[PATH_CAP];
    Err err = {0};
    Tokenizer *t = NULL;
    fuzz_put(path, "tokenizer.json", data, size);
    if (fuzz_good(tokenizer_load(&t, path, NULL, &err), &err)) fuzz_tokenizer_check(t, data, size);
}

// The base: the merges of all pairs of bytes, and the buffers that files are written through.
const FuzzTarget fuzz_target = {feed, .memory_factor = 256, .memory_base = 12 << 20};
