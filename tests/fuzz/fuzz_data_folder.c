// fuzz_data_folder.c -- a data folder as lathe writes it: meta.json, document index, completion
// mask and shard, as four parts of one input.
//
// What is accepted can be read to its last token, index and mask included, gives a stream of
// samples, and its meta.json reads the same after it was written once more.
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz.h"

#include "engine/data/corpus.h"
#include "engine/data/stream.h"

#include <stdio.h>
#include <string.h>

enum { SAMPLES = 4, BLOCK = 8 };

static int64_t counted; // so that no read is optimised away

static void walk(const Corpus *c)
{
    Err err = {0};
    int64_t before = 0;
    for (int64_t at = 0; at < c->tokens; at++) {
        int32_t id;
        if (!fuzz_good(corpus_read(c, at, 1, c->meta.vocab_size, &id, &err), &err)) break;
        counted += corpus_counts(c, at);
        if (!c->document) continue;
        const int64_t documents = corpus_documents_until(c, at);
        fuzz_must(documents >= before && documents <= c->documents, "%lld documents before %lld",
                  (long long)documents, (long long)at);
        before = documents;
    }
}

static void check_meta(const DataMeta *m)
{
    char dir[PATH_CAP], path[PATH_CAP];
    Err err = {0};
    DataMeta again;
    Buf first = {0}, second = {0};
    fuzz_must(file_mkdirs(fuzz_path(dir, "again"), &err) == ERR_NONE, "%s", err.text);
    fuzz_path(path, "again/" META_FILE);
    fuzz_must(data_meta_write(m, dir, &err) == ERR_NONE, "%s", err.text);
    fuzz_must(file_read(path, &first, &err) == ERR_NONE, "%s", err.text);
    fuzz_must(data_meta_read(&again, dir, &err) == ERR_NONE, "cannot read what was written: %s",
              err.text);
    fuzz_must(data_meta_write(&again, dir, &err) == ERR_NONE, "%s", err.text);
    fuzz_must(file_read(path, &second, &err) == ERR_NONE, "%s", err.text);
    fuzz_must(strcmp(first.data, second.data) == 0, "changes when written and read:\n%s\n%s",
              first.data, second.data);
    data_meta_free(&again);
    buf_free(&first);
    buf_free(&second);
}

static void check_stream(const char *dir)
{
    const StreamOptions o = {.data = dir,
                             .block_size = BLOCK,
                             .batch = SAMPLES,
                             .ranks = 1,
                             .shuffle = true,
                             .document_mask = true,
                             .completion_only = true};
    Stream *s = NULL;
    Err err = {0};
    StreamBatch b;
    if (!fuzz_good(stream_open(&s, &o, &err), &err)) return;
    if (fuzz_good(stream_next(s, &b, &err), &err))
        for (int64_t i = 0; i < b.samples * BLOCK; i++)
            fuzz_must(b.position[i] >= 0 && b.position[i] <= i % BLOCK &&
                          b.seg_lo[i] + b.position[i] == i % BLOCK,
                      "row %lld stands at %d of the document that begins in row %d", (long long)i,
                      b.position[i], b.seg_lo[i]);
    stream_close(s);
}

static void feed(const uint8_t *data, size_t size)
{
    static const char *const names[] = {META_FILE, "train.documents", "train.mask",
                                        "train-00000.bin"};
    char dir[PATH_CAP], path[PATH_CAP], name[64];
    Err err = {0};
    Corpus c;
    FuzzPart part[LT_COUNT(names)];
    fuzz_must(file_mkdirs(fuzz_path(dir, "set"), &err) == ERR_NONE, "%s", err.text);
    fuzz_split(data, size, part, LT_COUNT(names));
    for (size_t i = 0; i < LT_COUNT(names); i++) {
        snprintf(name, sizeof name, "set/%s", names[i]);
        fuzz_put(path, name, part[i].data, part[i].size);
    }
    if (!fuzz_good(corpus_open(&c, dir, 0, &err), &err)) return;
    walk(&c);
    check_meta(&c.meta);
    corpus_close(&c);
    check_stream(dir);
}

const FuzzTarget fuzz_target = {feed, .memory_factor = 256, .memory_base = 8 << 20};
