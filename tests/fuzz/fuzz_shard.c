// fuzz_shard.c -- token files: llm.c's header (16 and 32 bits), and none (train.bin).
//
// Every token of a file that is accepted can be read, or is refused by its place.
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz.h"

#include "engine/data/corpus.h"

#include <string.h>

enum { BLOCK = 512 };

static void read_all(const Corpus *c, int64_t vocab_size)
{
    for (int64_t at = 0; at < c->tokens; at += BLOCK) {
        int32_t id[BLOCK];
        Err err = {0};
        const int64_t n = LT_MIN((int64_t)BLOCK, c->tokens - at);
        if (!fuzz_good(corpus_read(c, at, n, vocab_size, id, &err), &err)) return;
        for (int64_t i = 0; i < n; i++)
            fuzz_must(id[i] >= 0 && (!vocab_size || id[i] < vocab_size), "id %d", id[i]);
    }
}

static void feed(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"tokens.bin", "train.bin"};
    for (size_t i = 0; i < LT_COUNT(names); i++) {
        char path[PATH_CAP];
        Err err = {0};
        Corpus c;
        fuzz_put(path, names[i], data, size);
        if (!fuzz_good(corpus_open(&c, path, 0, &err), &err)) continue;
        fuzz_must(c.tokens > 0 && (uint64_t)c.tokens <= size / 2, "%lld tokens in %zu bytes",
                  (long long)c.tokens, size);
        read_all(&c, 0);
        read_all(&c, 1000);
        corpus_close(&c);
    }
}

const FuzzTarget fuzz_target = {feed, .memory_factor = 0, .memory_base = 64 << 10};
