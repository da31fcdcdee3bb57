// fuzz_vocab_merges.c -- GPT-2's older form: vocab.json, a separator, merges.txt.
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz_tokenizer_check.h"

static void feed(const uint8_t *data, size_t size)
{
    char vocab[PATH_CAP], merges[PATH_CAP];
    FuzzPart part[2];
    fuzz_split(data, size, part, 2);
    fuzz_put(vocab, "vocab.json", part[0].data, part[0].size);
    fuzz_put(merges, "merges.txt", part[1].data, part[1].size);
    Tokenizer *t = fuzz_tokenizer_load(merges, NULL, size);
    if (t) fuzz_tokenizer_check(t, data, size);
}

const FuzzTarget fuzz_target = {feed, .memory_factor = 1024, .memory_base = 12 << 20};
