// fuzz_tokenizer_check.c -- see fuzz_tokenizer_check.h.
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz_tokenizer_check.h"

#include <string.h>

enum {
    OWN_MAX = 1024,
    SAVED_MAX = 4096,
    LOAD_FACTOR = 192,
    LOAD_BASE = 8 << 20 // the merges of all pairs of bytes, and blocks to read into
};

Tokenizer *fuzz_tokenizer_load(const char *path, const char *pattern, size_t bytes)
{
    Err err = {0};
    Tokenizer *t = NULL;
    const int64_t before = fuzz_memory_begin();
    const bool good = fuzz_good(tokenizer_load(&t, path, pattern, &err), &err);
    const int64_t heap = fuzz_memory_peak() - before;
    fuzz_must(heap <= (int64_t)(LOAD_FACTOR * bytes + LOAD_BASE),
              "loading takes %lld bytes of heap for %zu bytes", (long long)heap, bytes);
    return good ? t : NULL;
}

static const char *const texts[] = {
    "The quick brown fox doesn't jump over 1234567 lazy dogs.\n\n  It's  spaces \t\r\n",
    "\xc3\x9c \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x98\x80\xf0\x9f\x8f\xbd \xcc\x81 \xc2\xa0",
    "\xff\xfe\x80 \xc3 \xe4\xb8 \xed\xa0\x80 \xf4\x90\x80\x80",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa        <|endoftext|><s>",
    "Unaffable \xe1\xbe\xb4\xea\xb0\x81\xe0\xa3\x94\xe3\x80\xae [MASK] [UNK]\v\0\xef\xbf\xbd",
};

// WordPiece does not keep the text: what it says of its ids must hold together.
static bool is_lossy(const Tokenizer *t)
{
    return strcmp(tokenizer_kind(t), "wordpiece") == 0;
}

static void check_ranges(const Tokenizer *t, const TokenIds *ids, const char *text, size_t n,
                         bool special)
{
    TokenIds got = {0};
    Err err = {0};
    for (size_t at = 0, to; at < n; at = to) {
        to = tokenizer_cut(t, text, n, at + n / 3 + 1, special);
        fuzz_must(tokenizer_encode_range(t, text, at, to, special, 1, &got, &err) == ERR_NONE, "%s",
                  err.text);
    }
    fuzz_must(got.n == ids->n &&
                  (got.n == 0 || memcmp(got.id, ids->id, (size_t)got.n * sizeof *got.id) == 0),
              "ranges give other ids: %lld, not %lld", (long long)got.n, (long long)ids->n);
    token_ids_free(&got);
}

static void check_stream(const Tokenizer *t, const TokenIds *ids, const char *text, size_t n)
{
    Buf pending = {0}, out = {0};
    Err err = {0};
    for (int64_t i = 0; i < ids->n; i++)
        fuzz_must(tokenizer_decode_stream(t, ids->id[i], &pending, &out, &err) == ERR_NONE, "%s",
                  err.text);
    fuzz_must(buf_append(&out, pending.data ? pending.data : "", pending.len, &err) == ERR_NONE,
              "%s", err.text);
    fuzz_must(is_lossy(t) || (out.len == n && memcmp(out.data, text, n) == 0),
              "streaming gives another text of %zu bytes, not %zu", out.len, n);
    buf_free(&pending);
    buf_free(&out);
}

static void check_text(const Tokenizer *t, const char *text, size_t n, bool special)
{
    TokenIds ids = {0};
    Buf out = {0};
    Err err = {0};
    // A character tokenizer may not know a character; special tokens may not fit into text.
    if (fuzz_good(tokenizer_encode(t, text, n, special, 1, &ids, &err), &err)) {
        for (int64_t i = 0; i < ids.n; i++)
            fuzz_must(ids.id[i] >= 0 && ids.id[i] < tokenizer_vocab_size(t), "id %d", ids.id[i]);
        fuzz_must(tokenizer_decode(t, ids.id, ids.n, &out, &err) == ERR_NONE, "%s", err.text);
        fuzz_must(is_lossy(t) || (out.len == n && (n == 0 || memcmp(out.data, text, n) == 0)),
                  "%zu bytes became %lld ids and then another text of %zu bytes", n,
                  (long long)ids.n, out.len);
        check_stream(t, &ids, text, n);
        check_ranges(t, &ids, text, n, special);
    } else {
        fuzz_must(special || strcmp(tokenizer_kind(t), "char") == 0, "cannot encode: %s", err.text);
    }
    token_ids_free(&ids);
    buf_free(&out);
}

static void check_saved(const Tokenizer *t)
{
    char dir[PATH_CAP];
    Err err = {0};
    Tokenizer *again = NULL;
    fuzz_path(dir, "saved");
    fuzz_must(file_mkdirs(dir, &err) == ERR_NONE, "%s", err.text);
    if (!fuzz_good(tokenizer_save(t, dir, &err), &err)) return;
    fuzz_must(tokenizer_load(&again, dir, NULL, &err) == ERR_NONE, "cannot load what was saved: %s",
              err.text);
    fuzz_must(tokenizer_fingerprint(again) == tokenizer_fingerprint(t),
              "another tokenizer after saving and loading");
    tokenizer_close(again);
}

void fuzz_tokenizer_check(Tokenizer *t, const uint8_t *own, size_t bytes)
{
    for (size_t i = 0; i < LT_COUNT(texts); i++) {
        check_text(t, texts[i], strlen(texts[i]), false);
        check_text(t, texts[i], strlen(texts[i]), true);
    }
    check_text(t, (const char *)own, LT_MIN(bytes, (size_t)OWN_MAX), false);
    check_text(t, (const char *)own + bytes - LT_MIN(bytes, (size_t)OWN_MAX),
               LT_MIN(bytes, (size_t)OWN_MAX), true);
    size_t n = 0;
    for (int64_t id = 0; id < LT_MIN(tokenizer_vocab_size(t), (int64_t)SAVED_MAX); id++)
        fuzz_must(!tokenizer_token(t, (int32_t)id, &n) || n > 0, "token %lld is empty",
                  (long long)id);
    if (tokenizer_vocab_size(t) <= SAVED_MAX) check_saved(t);
    tokenizer_close(t);
}
