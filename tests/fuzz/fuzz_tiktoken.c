// fuzz_tiktoken.c -- a rank file, read with the pattern of GPT-2 and without a pattern.
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz_tokenizer_check.h"

static void feed(const uint8_t *data, size_t size)
{
    static const char *const patterns[] = {"gpt2", "cl100k", NULL};
    char path[PATH_CAP];
    fuzz_put(path, "ranks.tiktoken", data, size);
    for (size_t i = 0; i < LT_COUNT(patterns); i++) {
        Tokenizer *t = fuzz_tokenizer_load(path, patterns[i], size);
        if (t) fuzz_tokenizer_check(t, data, size);
    }
}

const FuzzTarget fuzz_target = {feed, .memory_factor = 1024, .memory_base = 12 << 20};
