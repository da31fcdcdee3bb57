// tokenizer.c -- see tokenizer.h: encoding in parts, decoding, and what a Tokenizer says of itself.
//
// Encoding cuts the text at special tokens (when they are allowed) and, with several threads, at
// places that are piece boundaries whatever stands around them (pretoken_cut). The parts are taken
// by the threads in turn, each part into a list of its own, and joined in order: the ids cannot
// depend on the number of threads.
//
// SPDX-License-Identifier: MIT
#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "tokenizer/tokenizer_impl.h"
#include "tokenizer/unicode_class.h"

#include <string.h>

enum { PART_BYTES = 1 << 16, THREADS_MAX = 256 };

// TokenIds -------------------------------------------------------------------------------------

Status token_ids_reserve(TokenIds *ids, int64_t extra, Err *err)
{
    if (ids->cap - ids->n >= extra) return ERR_NONE;
    const int64_t cap = LT_MAX(ids->n + extra, LT_MAX(64, ids->cap + ids->cap / 2));
    int32_t *p = mem_realloc(ids->id, (size_t)cap * sizeof *p);
    if (!p) return mem_err(err, (size_t)cap * sizeof *p, "token ids");
    ids->id = p;
    ids->cap = cap;
    return ERR_NONE;
}

Status token_ids_push(TokenIds *ids, int32_t id, Err *err)
{
    if (ids->n == ids->cap) TRY(token_ids_reserve(ids, 1, err));
    ids->id[ids->n++] = id;
    return ERR_NONE;
}

void token_ids_free(TokenIds *ids)
{
    mem_free(ids->id);
    *ids = (TokenIds){0};
}

// Encoding -------------------------------------------------------------------------------------

typedef struct Part {
    const uint8_t *text;
    size_t bytes;
    int32_t id; // of a special token, or -1: plain text
    TokenIds ids;
} Part;

typedef struct PartList {
    Part *part;
    int64_t n, cap;
} PartList;

typedef struct Encode { // shared by the threads of one call
    const Tokenizer *t;
    const uint8_t *text;
    PartList parts;
    Mutex lock;
    int64_t next;   // part to take
    int64_t failed; // the first part that failed, or -1
    Err err;        // of that part
    size_t share;   // bytes a thread may expect
} Encode;

static Status part_add(PartList *l, const uint8_t *text, size_t bytes, int32_t id, Err *err)
{
    if (l->n == l->cap) {
        const int64_t cap = LT_MAX(16, 2 * l->cap);
        Part *p = mem_realloc(l->part, (size_t)cap * sizeof *p);
        if (!p) return mem_err(err, (size_t)cap * sizeof *p, "parts of a text");
        l->part = p;
        l->cap = cap;
    }
    l->part[l->n++] = (Part){.text = text, .bytes = bytes, .id = id};
    return ERR_NONE;
}

// A stretch without special tokens, in parts of about PART_BYTES; in one part when !cut.
static Status plain_add(const Tokenizer *t, PartList *l, const uint8_t *p, const uint8_t *end,
                        bool cut, Err *err)
{
    while (p < end) {
        const uint8_t *stop = end;
        if (cut && end - p > 2 * PART_BYTES) {
            if (t->kind != KIND_CHAR) {
                stop = pretoken_cut(t->pattern, p, p + PART_BYTES, end);
            } else { // any character boundary
                stop = p + PART_BYTES;
                while (stop < end && (*stop & 0xC0) == 0x80) stop++;
            }
        }
        TRY(part_add(l, p, (size_t)(stop - p), -1, err));
        p = stop;
    }
    return ERR_NONE;
}

// The longest special token at p, or -1.
static int32_t match_at(const Tokenizer *t, const uint8_t *p, const uint8_t *end, uint32_t want)
{
    for (int64_t k = 0; k < t->match_n; k++) {
        const int32_t id = t->match[k];
        const Token *m = &t->token[id];
        if ((m->flags & want) && end - p >= m->bytes &&
            memcmp(token_bytes(t, id), p, (size_t)m->bytes) == 0)
            return id;
    }
    return -1;
}

static Status parts_find(const Tokenizer *t, PartList *l, const uint8_t *text, size_t bytes,
                         uint32_t want, bool cut, Err *err)
{
    const uint8_t *const end = text + bytes, *plain = text;
    uint32_t any = 0;
    for (int64_t k = 0; k < t->match_n; k++) any |= t->token[t->match[k]].flags;
    if (any & want)
        for (const uint8_t *p = text; p < end;) {
            const int32_t id = t->match_first[*p] ? match_at(t, p, end, want) : -1;
            if (id < 0) {
                p++;
                continue;
            }
            TRY(plain_add(t, l, plain, p, cut, err));
            TRY(part_add(l, p, (size_t)t->token[id].bytes, id, err));
            p += t->token[id].bytes;
            plain = p;
        }
    return plain_add(t, l, plain, end, cut, err);
}

// *pieces: of the calling thread; made when it is needed first.
static Status encode_part(const Encode *e, const Part *p, PieceEncoder **pieces, TokenIds *out,
                          Err *err)
{
    if (p->id >= 0) return token_ids_push(out, p->id, err);
    if (e->t->kind == KIND_CHAR)
        return char_encode(e->t, p->text, p->bytes, (size_t)(p->text - e->text), out, err);
    if (!*pieces) TRY(piece_encoder_open(pieces, e->t, e->share, err));
    return piece_encode(*pieces, p->text, p->bytes, out, err);
}

static void *encode_worker(void *arg)
{
    Encode *const e = arg;
    PieceEncoder *pieces = NULL;
    Err err;
    for (;;) {
        mutex_lock(&e->lock);
        const int64_t i = e->failed >= 0 ? e->parts.n : e->next++;
        mutex_unlock(&e->lock);
        if (i >= e->parts.n) break;
        Part *const p = &e->parts.part[i];
        err_clear(&err);
        if (encode_part(e, p, &pieces, &p->ids, &err) == ERR_NONE) continue;
        // Parts are taken in order, so every part before the smallest one that failed was done.
        mutex_lock(&e->lock);
        if (e->failed < 0 || i < e->failed) {
            e->failed = i;
            e->err = err;
        }
        mutex_unlock(&e->lock);
    }
    piece_encoder_close(pieces);
    return NULL;
}

static Status encode_threads(Encode *e, int threads, TokenIds *out, Err *err)
{
    Thread *worker = mem_calloc((size_t)threads, sizeof *worker);
    const bool started = worker != NULL;
    for (int i = 1; started && i < threads; i++)
        if (thread_start(&worker[i], encode_worker, e, NULL) != ERR_NONE) break; // fewer will do
    encode_worker(e);
    for (int i = 1; started && i < threads; i++) thread_join(&worker[i]);
    mem_free(worker);
    if (e->failed >= 0) {
        if (err) *err = e->err;
        return e->err.code;
    }
    int64_t n = 0;
    for (int64_t i = 0; i < e->parts.n; i++) n += e->parts.part[i].ids.n;
    TRY(token_ids_reserve(out, n, err));
    for (int64_t i = 0; i < e->parts.n; i++) {
        const TokenIds *p = &e->parts.part[i].ids;
        if (p->n) memcpy(out->id + out->n, p->id, (size_t)p->n * sizeof *p->id);
        out->n += p->n;
    }
    return ERR_NONE;
}

// Does a token that is looked for in the text go across p?
static bool match_across(const Tokenizer *t, const uint8_t *text, const uint8_t *p,
                         const uint8_t *end, uint32_t want)
{
    for (int64_t k = 0; k < t->match_n; k++) {
        const int32_t id = t->match[k];
        const int64_t n = t->token[id].bytes;
        if (!(t->token[id].flags & want)) continue;
        for (int64_t before = 1; before < n && before <= p - text; before++)
            if (end - p >= n - before && memcmp(token_bytes(t, id), p - before, (size_t)n) == 0)
                return true;
    }
    return false;
}

static uint32_t wanted(bool allow_special)
{
    return TOKEN_ALWAYS | (allow_special ? (uint32_t)TOKEN_SPECIAL : 0u);
}

size_t tokenizer_cut(const Tokenizer *t, const char *text, size_t bytes, size_t at,
                     bool allow_special)
{
    const uint8_t *const begin = (const uint8_t *)text, *const end = begin + bytes;
    const uint8_t *p = begin + LT_MIN(at, bytes);
    for (; p < end; p++) {
        if (t->kind != KIND_CHAR) p = pretoken_cut(t->pattern, begin, p, end);
        const bool inside = t->kind == KIND_CHAR && p < end && (*p & 0xC0) == 0x80;
        if (!inside && !match_across(t, begin, p, end, wanted(allow_special))) break;
    }
    return (size_t)(LT_MIN(p, end) - begin);
}

Status tokenizer_encode(const Tokenizer *t, const char *text, size_t bytes, bool allow_special,
                        int threads, TokenIds *out, Err *err)
{
    return tokenizer_encode_range(t, text, 0, bytes, allow_special, threads, out, err);
}

Status tokenizer_encode_range(const Tokenizer *t, const char *text, size_t from, size_t to,
                              bool allow_special, int threads, TokenIds *out, Err *err)
{
    const size_t bytes = to - from;
    ASSERT(t && out && from <= to && (text || to == 0), "encode of nothing");
    if (allow_special && t->strips) {
        const Status wrong =
            err_set(err, ERR_UNSUPPORTED,
                    "a special token of this tokenizer takes the white space around it with it, or "
                    "is looked for in normalised text");
        err_hint(err, "encode without special tokens");
        return wrong;
    }
    threads = LT_MIN(LT_MAX(threads, 1), THREADS_MAX);
    const int64_t first = out->n;
    Encode e = {
        .t = t, .text = (const uint8_t *)text, .failed = -1, .share = bytes / (size_t)threads};
    Status s = bytes == 0 ? ERR_NONE
                          : parts_find(t, &e.parts, e.text + from, bytes, wanted(allow_special),
                                       threads > 1, err);
    if (s == ERR_NONE && threads > 1 && e.parts.n > 1) {
        mutex_init(&e.lock);
        s = encode_threads(&e, (int)LT_MIN(threads, e.parts.n), out, err);
        mutex_destroy(&e.lock);
    } else {
        PieceEncoder *pieces = NULL;
        for (int64_t i = 0; i < e.parts.n && s == ERR_NONE; i++)
            s = encode_part(&e, &e.parts.part[i], &pieces, out, err);
        piece_encoder_close(pieces);
    }
    for (int64_t i = 0; i < e.parts.n; i++) token_ids_free(&e.parts.part[i].ids);
    mem_free(e.parts.part);
    if (s != ERR_NONE) out->n = first;
    return s;
}

// Decoding -------------------------------------------------------------------------------------

static Status check_id(const Tokenizer *t, int32_t id, Err *err)
{
    if (id >= 0 && id < t->n && t->token[id].flags) return ERR_NONE;
    return err_set(err, ERR_FORMAT, "token id %d is not in the vocabulary of %lld ids", id,
                   (long long)t->n);
}

Status tokenizer_decode(const Tokenizer *t, const int32_t *id, int64_t n, Buf *out, Err *err)
{
    size_t bytes = 0;
    Buf text = {0};
    Status s = ERR_NONE;
    for (int64_t i = 0; i < n; i++) {
        TRY_CTX(check_id(t, id[i], err), err, "decoding id number %lld", (long long)i);
        bytes += (size_t)t->token[id[i]].bytes;
    }
    TRY(buf_reserve(out, bytes, err));
    for (int64_t i = 0; i < n && s == ERR_NONE; i++)
        s = t->kind == KIND_WORDPIECE
                ? wordpiece_decode(t, id[i], i == 0, &text, out, err)
                : buf_append(out, token_bytes(t, id[i]), (size_t)t->token[id[i]].bytes, err);
    buf_free(&text);
    return s;
}

// Could the bytes from p to end be the beginning of a valid sequence that more bytes complete?
static bool utf8_unfinished(const uint8_t *p, const uint8_t *end)
{
    const int64_t n = end - p;
    const int need = *p >= 0xF0 && *p < 0xF5   ? 4
                     : *p >= 0xE0 && *p < 0xF0 ? 3
                     : *p >= 0xC2 && *p < 0xE0 ? 2
                                               : 1;
    if (n >= need) return false;
    // Complete it in the smallest and in the largest way the first bytes allow.
    uint8_t low[4] = {0x80, 0x80, 0x80, 0x80}, high[4] = {0xBF, 0xBF, 0xBF, 0xBF};
    memcpy(low, p, (size_t)n);
    memcpy(high, p, (size_t)n);
    int a, b;
    utf8_decode(low, low + need, &a);
    utf8_decode(high, high + need, &b);
    return a == need || b == need;
}

Status tokenizer_decode_stream(const Tokenizer *t, int32_t id, Buf *pending, Buf *out, Err *err)
{
    TRY(check_id(t, id, err));
    if (t->kind == KIND_WORDPIECE) { // its tokens are whole characters
        const Status s = wordpiece_decode(t, id, false, pending, out, err);
        buf_clear(pending);
        return s;
    }
    TRY(buf_append(pending, token_bytes(t, id), (size_t)t->token[id].bytes, err));
    const uint8_t *p = (const uint8_t *)pending->data, *const end = p + pending->len;
    while (p < end && !utf8_unfinished(p, end)) {
        int bytes;
        utf8_decode(p, end, &bytes);
        p += bytes;
    }
    const size_t done = (size_t)(p - (const uint8_t *)pending->data);
    TRY(buf_append(out, pending->data, done, err));
    memmove(pending->data, pending->data + done, pending->len - done);
    pending->len -= done;
    pending->data[pending->len] = 0;
    return ERR_NONE;
}

// Questions ------------------------------------------------------------------------------------

int64_t tokenizer_vocab_size(const Tokenizer *t)
{
    return t->n;
}
int32_t tokenizer_end_token(const Tokenizer *t)
{
    return t->end_token;
}
const char *tokenizer_kind(const Tokenizer *t)
{
    static const char *const names[] = {
        [KIND_BPE] = "bpe", [KIND_CHAR] = "char", [KIND_WORDPIECE] = "wordpiece"};
    return names[t->kind];
}
const char *tokenizer_pattern(const Tokenizer *t)
{
    return pretoken_name(t->pattern);
}

int32_t tokenizer_special(const Tokenizer *t, const char *text)
{
    const size_t n = strlen(text);
    for (int64_t id = 0; id < t->n; id++)
        if ((t->token[id].flags & TOKEN_SPECIAL) && (size_t)t->token[id].bytes == n &&
            memcmp(token_bytes(t, (int32_t)id), text, n) == 0)
            return (int32_t)id;
    return -1;
}

void tokenizer_around(const Tokenizer *t, int32_t *before, int32_t *after)
{
    *before = t->kind == KIND_WORDPIECE ? t->word.before : -1;
    *after = t->kind == KIND_WORDPIECE ? t->word.after : -1;
}

bool tokenizer_goes_on(const Tokenizer *t, int32_t id)
{
    return t->kind == KIND_WORDPIECE && id >= 0 && id < t->n && wordpiece_goes_on(t, id);
}

size_t tokenizer_text_bytes(const Tokenizer *t, int32_t id)
{
    if (id < 0 || id >= t->n || !t->token[id].flags) return 0;
    const size_t n = (size_t)t->token[id].bytes;
    if (t->kind != KIND_WORDPIECE) return n;
    if (t->token[id].flags & TOKEN_MATCH) return id == t->word.unknown ? 2 : 0;
    return wordpiece_goes_on(t, id) ? n - 2 : n + 1;
}

const char *tokenizer_token(const Tokenizer *t, int32_t id, size_t *bytes)
{
    if (id < 0 || id >= t->n || !t->token[id].flags) return NULL;
    if (bytes) *bytes = (size_t)t->token[id].bytes;
    return token_bytes(t, id);
}

// FNV-1a, 64 bits (Fowler, Noll, Vo), over little-endian words: the same on every machine.
static void mix(uint64_t *h, uint64_t v)
{
    for (int i = 0; i < 8; i++) *h = (*h ^ (v >> (8 * i) & 255)) * 0x100000001B3u;
}

uint64_t tokenizer_fingerprint(const Tokenizer *t)
{
    uint64_t h = 0xCBF29CE484222325u;
    mix(&h, (uint64_t)t->kind);
    mix(&h, (uint64_t)t->pattern);
    mix(&h, (uint64_t)t->n);
    for (int64_t id = 0; id < t->n; id++) {
        const Token *k = &t->token[id];
        mix(&h, k->flags);
        mix(&h, (uint64_t)k->bytes);
        if (!k->flags) continue;
        const uint8_t *p = (const uint8_t *)token_bytes(t, (int32_t)id);
        for (int32_t i = 0; i < k->bytes; i++) h = (h ^ p[i]) * 0x100000001B3u;
    }
    // In a regular vocabulary the order of the results decides: whether pairs are listed once for
    // each result (merges.txt) or follow from ranks (tiktoken) makes no difference to any text.
    if (!t->regular && t->kind == KIND_BPE) mix(&h, 1 + (uint64_t)t->whole_first);
    if (t->kind == KIND_WORDPIECE) {
        mix(&h, t->word.steps);
        mix(&h, (uint64_t)t->word.max_chars);
        mix(&h, (uint64_t)t->word.unknown);
    }
    int32_t last = -1;
    for (int64_t i = 0; i < t->merge_n; i++) {
        const Merge *m = &t->merge[i];
        if (t->regular && m->result == last) continue;
        last = m->result;
        mix(&h, (uint64_t)m->result);
        if (!t->regular) mix(&h, (uint64_t)(uint32_t)m->left << 32 | (uint32_t)m->right);
    }
    return h;
}
