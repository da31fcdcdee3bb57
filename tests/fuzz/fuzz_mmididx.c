// fuzz_mmididx.c -- a Megatron index (MMIDIDX).
//
// An accepted index gets the .bin it asks for, where that is small: then the pair is a corpus, and
// its documents begin at rising places inside it.
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz.h"

#include "engine/data/mmididx.h"

#include <string.h>
#include <unistd.h>

enum { BIN_MAX = 1 << 16 };

static void open_pair(const MmidIndex *m, const char *prefix, const char *bin)
{
    Corpus c;
    Err err = {0};
    fuzz_must(truncate(bin, (off_t)m->bytes) == 0, "cannot make %s", bin);
    if (!fuzz_good(corpus_open(&c, prefix, 0, &err), &err)) {
        fuzz_must(m->tokens == 0, "index and file agree, but: %s", err.text);
        return;
    }
    fuzz_must(c.tokens == m->tokens && c.documents == m->documents, "another number of tokens");
    for (int64_t d = 0; d < c.documents; d++)
        fuzz_must(corpus_documents_until(&c, (int64_t)c.document[d]) == d + 1,
                  "document %lld is not found", (long long)d);
    int32_t last;
    fuzz_must(corpus_read(&c, c.tokens - 1, 1, 0, &last, &err) == ERR_NONE && last == 0, "%s",
              err.text);
    corpus_close(&c);
}

static void feed(const uint8_t *data, size_t size)
{
    char idx[PATH_CAP], bin[PATH_CAP], prefix[PATH_CAP];
    Err err = {0};
    MmidIndex m;
    fuzz_put(idx, "set.idx", data, size);
    fuzz_put(bin, "set.bin", "", 0);
    if (!fuzz_good(mmid_open(&m, idx, &err), &err)) return;
    fuzz_must(m.tokens >= 0 && m.documents >= 0 && (uint64_t)m.documents <= size, "%lld documents",
              (long long)m.documents);
    for (int64_t d = 0; d < m.documents; d++)
        fuzz_must(m.document[d] < (uint64_t)m.tokens && (!d || m.document[d] > m.document[d - 1]),
                  "document %lld begins at %llu of %lld", (long long)d,
                  (unsigned long long)m.document[d], (long long)m.tokens);
    if (m.bytes <= BIN_MAX) open_pair(&m, fuzz_path(prefix, "set"), bin);
    mmid_close(&m);
}

const FuzzTarget fuzz_target = {feed, .memory_factor = 8, .memory_base = 64 << 10};
