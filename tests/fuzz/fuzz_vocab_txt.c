// fuzz_vocab_txt.c -- BERT's vocab.txt, a separator, and the tokenizer_config.json beside it (when
// there is one); read as the config says and with a pattern.
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz_tokenizer_check.h"

static void feed(const uint8_t *data, size_t size)
{
    static const char *const patterns[] = {NULL, "uncased", "cased"};
    char vocab[PATH_CAP], config[PATH_CAP];
    Err err = {0};
    FuzzPart part[2];
    fuzz_split(data, size, part, 2);
    fuzz_put(vocab, "vocab.txt", part[0].data, part[0].size);
    fuzz_put(config, "tokenizer_config.json", part[1].data, part[1].size);
    if (part[1].size == 0) fuzz_must(file_remove(config, &err) == ERR_NONE, "%s", err.text);
    for (size_t i = 0; i < LT_COUNT(patterns); i++) {
        Tokenizer *t = fuzz_tokenizer_load(vocab, patterns[i], size);
        if (t) fuzz_tokenizer_check(t, data, size);
    }
}

const FuzzTarget fuzz_target = {feed, .memory_factor = 1024, .memory_base = 12 << 20};
