// fuzz_text.c -- input text: .jsonl, .txt, and both under gzip.
//
// The first byte of an input says what the rest is:
//
//     'j'  .jsonl     't'  .txt with an empty line between documents
//     'J', 'T'        the same content, packed by this program: must give the same documents
//     'z'  a .jsonl.gz, as it is
//
// The documents of a text, put together again, are the text. Memory is bounded by the bytes
// unpacked: a document must fit.
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz.h"

#include "engine/base/buf.h"
#include "engine/data/text_source.h"

#include <string.h>
#include <zlib.h>

enum { PACKED_MAX = 1 << 17, PLAIN_FACTOR = 192, PLAIN_BASE = 4 << 20 };

static const char separator[] = "\n\n";

typedef struct Told { // a fingerprint of everything that came out
    int64_t documents, empty, bytes, marks;
    uint32_t crc;
    Status status;
} Told;

static void take(Told *t, const char *text, size_t n)
{
    const uint64_t length = n;
    t->crc = (uint32_t)crc32_z(t->crc, (const uint8_t *)&length, sizeof length);
    if (n) t->crc = (uint32_t)crc32_z(t->crc, (const uint8_t *)text, n);
    t->bytes += (int64_t)n;
}

static Told read_all(const char *path)
{
    Told t = {0};
    Err err = {0};
    TextSource *s = NULL;
    TextDocument d;
    TextStats stats;
    bool more = true;
    t.status = text_source_open(&s, path, separator, &err);
    while (t.status == ERR_NONE) {
        t.status = text_source_next(s, &d, &more, &err);
        if (t.status != ERR_NONE || !more) break;
        take(&t, d.text, d.bytes);
        if (d.completion) take(&t, d.completion, d.completion_bytes);
        fuzz_must(d.bytes + d.completion_bytes > 0, "a document of no bytes");
        t.documents++;
    }
    fuzz_good(t.status, &err);
    if (s) {
        text_source_stats(s, &stats);
        t.empty = stats.empty;
        t.marks = stats.marks;
        fuzz_must(stats.documents == t.documents, "%lld documents, %lld counted",
                  (long long)t.documents, (long long)stats.documents);
    }
    text_source_close(s);
    return t;
}

// The same bytes as a gzip file.
static size_t pack(const uint8_t *data, size_t size, uint8_t *out)
{
    z_stream z = {0};
    fuzz_must(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib");
    z.next_in = (uint8_t *)(uintptr_t)data;
    z.avail_in = (uInt)size;
    z.next_out = out;
    z.avail_out = PACKED_MAX;
    fuzz_must(deflate(&z, Z_FINISH) == Z_STREAM_END, "zlib");
    const size_t n = z.total_out;
    deflateEnd(&z);
    return n;
}

static void must_agree(const Told *a, const Told *b)
{
    fuzz_must(a->status == b->status && a->documents == b->documents && a->bytes == b->bytes &&
                  a->crc == b->crc && a->empty == b->empty && a->marks == b->marks,
              "%lld documents, but %lld when packed", (long long)a->documents,
              (long long)b->documents);
}

// Every byte of a text is in a document or in a separator, but for one byte order mark.
static void must_be_whole(const Told *t, size_t size)
{
    const int64_t missing = (int64_t)size - t->bytes - 3 * t->marks;
    const int64_t between = t->documents + t->empty;
    fuzz_must(missing >= 0 && missing <= 2 * between,
              "%zu bytes of text, %lld of them in %lld documents", size, (long long)t->bytes,
              (long long)between);
}

static void feed(const uint8_t *data, size_t size)
{
    static uint8_t packed[PACKED_MAX];
    char path[PATH_CAP];
    const char kind = size ? (char)*data : 'j';
    if (size) data++, size--;
    if (kind == 'z') {
        read_all(fuzz_put(path, "in.jsonl.gz", data, size));
        return;
    }
    const bool text = kind == 't' || kind == 'T';
    const bool gzip = size >= 2 && data[0] == 0x1f && data[1] == 0x8b;
    const int64_t before = fuzz_memory_begin();
    const Told told = read_all(fuzz_put(path, text ? "in.txt" : "in.jsonl", data, size));
    const int64_t heap = fuzz_memory_peak() - before;
    fuzz_must(gzip || heap <= (int64_t)(PLAIN_FACTOR * size + PLAIN_BASE),
              "%lld bytes of heap for %zu bytes of text", (long long)heap, size);
    if (text && told.status == ERR_NONE) must_be_whole(&told, size);
    if ((kind != 'T' && kind != 'J') || gzip || size > PACKED_MAX / 2) return;
    const size_t n = pack(data, size, packed);
    const Told again = read_all(fuzz_put(path, text ? "in.txt.gz" : "in.jsonl.gz", packed, n));
    must_agree(&told, &again);
}

// gzip makes at most 1032 bytes of one.
const FuzzTarget fuzz_target = {feed, .memory_factor = 1032 * 4, .memory_base = 8 << 20};
