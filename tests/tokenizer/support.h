// support.h -- for the tests of tokenizer/: errors as failures, a scratch folder, golden files.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "engine/base/file.h"
#include "tokenizer/tokenizer.h"

typedef struct Path {
    char s[PATH_CAP];
} Path;

static inline void must(Status s, const Err *err)
{
    if (s != ERR_NONE) fail_msg("%s: %s", err_name(s), err->text);
}

static inline Path path_in(const char *dir, const char *name)
{
    Path p;
    Err err = {0};
    must(path_join(p.s, dir, name, &err), &err);
    return p;
}

static inline Path golden_path(const char *name)
{
    const char *source = getenv("LATHE_SOURCE_DIR");
    return path_in(path_in(source ? source : ".", "tests/tokenizer/golden").s, name);
}

// A scratch folder: made by scratch_new, removed by scratch_remove.
static inline Path scratch_new(void)
{
    Path p;
    const char *tmp = getenv("TMPDIR");
    snprintf(p.s, sizeof p.s, "%s/lathe-tokenizer-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(p.s));
    return p;
}

static inline void scratch_remove(const Path *p)
{
    Err err = {0};
    must(file_remove_tree(p->s, &err), &err);
}

static inline Path scratch_file(const Path *dir, const char *name, const void *bytes, size_t n)
{
    const Path p = path_in(dir->s, name);
    Err err = {0};
    must(file_replace(p.s, bytes, n, &err), &err);
    return p;
}

// A number below `below`, the same for the same seed.
static inline uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*seed >> 33) % below);
}

static inline Tokenizer *load(const char *path, const char *pattern)
{
    Tokenizer *t = NULL;
    Err err = {0};
    must(tokenizer_load(&t, path, pattern, &err), &err);
    return t;
}

static inline TokenIds encode(const Tokenizer *t, const void *text, size_t n, int threads)
{
    TokenIds ids = {0};
    Err err = {0};
    must(tokenizer_encode(t, text, n, false, threads, &ids, &err), &err);
    return ids;
}

static inline void expect_round_trip(const Tokenizer *t, const void *text, size_t n)
{
    TokenIds ids = encode(t, text, n, 1);
    Buf back = {0};
    Err err = {0};
    must(tokenizer_decode(t, ids.id, ids.n, &back, &err), &err);
    assert_int_equal(back.len, n);
    if (n) assert_memory_equal(back.data, text, n);
    buf_free(&back);
    token_ids_free(&ids);
}

// CRC-32 of the ids as little-endian int32.
static inline uint32_t ids_crc(const TokenIds *ids)
{
    uLong crc = crc32(0, NULL, 0);
    for (int64_t i = 0; i < ids->n; i++) {
        const uint32_t v = (uint32_t)ids->id[i];
        const Bytef b[4] = {(Bytef)v, (Bytef)(v >> 8), (Bytef)(v >> 16), (Bytef)(v >> 24)};
        crc = crc32(crc, b, 4);
    }
    return (uint32_t)crc;
}

// Every Unicode scalar value in order, each between `before` and `after`.
static inline void every_code_point(const char *before, const char *after, Buf *out)
{
    Err err = {0};
    for (uint32_t c = 0; c < 0x110000; c++) {
        if (c >= 0xD800 && c < 0xE000) continue;
        char u[4];
        int n = 0;
        if (c < 0x80) {
            u[n++] = (char)c;
        } else {
            const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
            u[n++] = (char)(((0xFF00 >> (more + 1)) & 0xFF) | c >> (6 * more));
            for (int k = more - 1; k >= 0; k--) u[n++] = (char)(0x80 | (c >> (6 * k) & 63));
        }
        must(buf_puts(out, before, &err), &err);
        must(buf_append(out, u, (size_t)n, &err), &err);
        must(buf_puts(out, after, &err), &err);
    }
}

// What a script wrote into a golden file of one encoding, checked against a tokenizer. `texts` is
// the folder of the text files named there; NULL: there are none. Returns the number of lines
// checked.
static inline int expect_golden_in(const char *file, const Tokenizer *t, const char *encoding,
                                   const char *texts)
{
    static const struct {
        const char *name, *before;
    } sets[] = {
        {"every-code-point", ""},
        {"every-code-point-behind-x", "x"},
        {"every-code-point-behind-space", " "},
        {"every-code-point-behind-1", "1"},
        {"every-code-point-behind-apostrophe", "'"},
    };
    Buf golden = {0};
    Err err = {0};
    int lines = 0;
    must(file_read(golden_path(file).s, &golden, &err), &err);
    char *save = NULL;
    for (char *line = strtok_r(golden.data, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        char *word = NULL;
        const char *kind = strtok_r(line, " ", &word), *name = strtok_r(NULL, " ", &word);
        if (!name || strcmp(name, encoding) != 0 || *kind == '#') continue;
        const char *what = strtok_r(NULL, " ", &word);
        Buf text = {0};
        if (strcmp(kind, "string") == 0) {
            for (const char *h = what; *h; h += 2) {
                unsigned v = 0;
                assert_int_equal(sscanf(h, "%2x", &v), 1);
                must(buf_append(&text, &(char){(char)v}, 1, &err), &err);
            }
            TokenIds ids = encode(t, text.data, text.len, 1);
            int64_t n = 0;
            for (const char *w; (w = strtok_r(NULL, " ", &word)); n++)
                if (n >= ids.n || ids.id[n] != atoi(w))
                    fail_msg("%s: id %lld of \"%s\" is %d, not %s", encoding, (long long)n,
                             text.data, n < ids.n ? ids.id[n] : -1, w);
            assert_int_equal(ids.n, n);
            token_ids_free(&ids);
        } else {
            for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
                if (strcmp(what, sets[i].name) == 0) every_code_point(sets[i].before, "", &text);
            if (text.len == 0) must(file_read(path_in(texts, what).s, &text, &err), &err);
            TokenIds ids = encode(t, text.data, text.len, 1);
            const long count = atol(strtok_r(NULL, " ", &word));
            if (ids.n != count)
                fail_msg("%s: %s: %lld ids, not %ld", encoding, what, (long long)ids.n, count);
            assert_int_equal(ids_crc(&ids), strtoul(strtok_r(NULL, " ", &word), NULL, 16));
            token_ids_free(&ids);
        }
        buf_free(&text);
        lines++;
    }
    buf_free(&golden);
    return lines;
}

static inline int expect_golden(const Tokenizer *t, const char *encoding, const char *texts)
{
    return expect_golden_in("golden.txt", t, encoding, texts);
}
