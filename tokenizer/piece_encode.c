// piece_encode.c -- BPE and WordPiece of plain text: cut it, look each piece up, encode new ones.
//
// Text repeats its words, so a cache in front of the merging does most of the work: a table of
// 64-byte entries (one cache line), one for each hash value, the newer piece wins. It belongs to
// one thread and its size follows the size of the text, so that a short text pays for no empty
// table. Behind it, for BPE, a table of the short tokens themselves answers for pieces that are
// tokens; then bpe_merge.c and wordpiece.c do the work.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "tokenizer/tokenizer_impl.h"

#include <string.h>

enum {
    ENTRY_IDS = 9, // most ids a cached piece has
    BATCH = 256,
    CACHE_SMALL = 64,
    CACHE_LARGE = 1 << 15
};

typedef struct CacheEntry {
    PieceKey key;
    int16_t bytes; // 0: free
    int16_t n;
    int32_t id[ENTRY_IDS];
} CacheEntry;
_Static_assert(sizeof(CacheEntry) == 64, "one cache line");

struct PieceEncoder {
    const Tokenizer *t;
    void *memory; // of the cache
    CacheEntry *cache;
    uint64_t cache_mask;
    bool whole; // a piece may be a token as it stands: t->piece has it
    BpeScratch scratch;
    Buf words;     // WordPiece's scratch
    TokenIds *out; // of the current call
};

static Status encode_new(PieceEncoder *e, const uint8_t *piece, int64_t n, Err *err)
{
    return e->t->kind == KIND_WORDPIECE ? wordpiece_encode(e->t, piece, n, &e->words, e->out, err)
                                        : bpe_merge(e->t, piece, n, &e->scratch, e->out, err);
}

static Status encode_long(PieceEncoder *e, const uint8_t *piece, int64_t n, Err *err)
{
    if (e->whole) {
        const int32_t id = vocab_find(e->t, piece, (size_t)n);
        if (id >= 0) return token_ids_push(e->out, id, err);
    }
    return encode_new(e, piece, n, err);
}

LT_INLINE CacheEntry *cache_entry(const PieceEncoder *e, uint64_t hash)
{
    return &e->cache[(hash >> 40) & e->cache_mask];
}

static Status encode_short(PieceEncoder *e, const uint8_t *piece, int64_t n, const PieceKey *key,
                           uint64_t hash, Err *err)
{
    CacheEntry *const c = cache_entry(e, hash);
    TokenIds *const out = e->out;
    if (out->cap - out->n < ENTRY_IDS) TRY(token_ids_reserve(out, ENTRY_IDS, err));
    if (c->bytes == n && piece_key_equal(&c->key, key)) {
        memcpy(out->id + out->n, c->id, 4 * sizeof *c->id);
        if (c->n > 4) memcpy(out->id + out->n, c->id, sizeof c->id);
        out->n += c->n;
        return ERR_NONE;
    }
    const int64_t first = out->n;
    const int32_t whole = e->whole ? piece_find(e->t, key, n, hash) : -1;
    if (whole >= 0)
        out->id[out->n++] = whole;
    else
        TRY(encode_new(e, piece, n, err));
    const int64_t got = out->n - first;
    if (got <= ENTRY_IDS) {
        c->key = *key;
        memcpy(c->id, out->id + first, (size_t)got * sizeof *c->id);
        c->bytes = (int16_t)n;
        c->n = (int16_t)got;
    }
    return ERR_NONE;
}

// In two passes over each batch, so that the memory the second needs is on its way in the first.
static Status encode_pieces(PieceEncoder *e, const uint8_t *text, size_t bytes, Err *err)
{
    const uint8_t *at = text, *const end = text + bytes, *piece = text, *ends[BATCH];
    PieceKey key[BATCH];
    uint64_t hash[BATCH];
    for (int n; (n = pretoken_scan(e->t->pattern, &at, end, ends, BATCH)) > 0;) {
        const uint8_t *p = piece;
        for (int i = 0; i < n; i++) {
            const int64_t len = ends[i] - p;
            if (len <= PIECE_MAX) {
                key[i] = piece_key(p, len, end - p);
                hash[i] = piece_key_hash(&key[i], len);
                __builtin_prefetch(cache_entry(e, hash[i]));
                if (e->whole) __builtin_prefetch(&e->t->piece[hash[i] & e->t->piece_slots_mask]);
            }
            p = ends[i];
        }
        for (int i = 0; i < n; i++) {
            const int64_t len = ends[i] - piece;
            if (len <= PIECE_MAX)
                TRY(encode_short(e, piece, len, &key[i], hash[i], err));
            else
                TRY(encode_long(e, piece, len, err));
            piece = ends[i];
        }
    }
    return ERR_NONE;
}

Status piece_encoder_open(PieceEncoder **out, const Tokenizer *t, size_t bytes, Err *err)
{
    size_t entries = CACHE_SMALL;
    while (entries < CACHE_LARGE && entries < bytes / 16) entries *= 2;
    PieceEncoder *e = mem_calloc(1, sizeof *e);
    // One more, so that the entries can be aligned to cache lines.
    void *const memory = e ? mem_calloc(entries + 1, sizeof *e->cache) : NULL;
    if (!memory) {
        mem_free(e);
        return mem_err(err, entries * sizeof *e->cache, "the cache of words");
    }
    *e = (PieceEncoder){.t = t,
                        .memory = memory,
                        .cache = (CacheEntry *)(((uintptr_t)memory + 63) / 64 * 64),
                        .cache_mask = entries - 1,
                        .whole = t->kind == KIND_BPE && t->piece};
    *out = e;
    return ERR_NONE;
}

void piece_encoder_close(PieceEncoder *e)
{
    if (!e) return;
    mem_free(e->memory);
    bpe_scratch_free(&e->scratch);
    buf_free(&e->words);
    mem_free(e);
}

Status piece_encode(PieceEncoder *e, const uint8_t *text, size_t bytes, TokenIds *out, Err *err)
{
    e->out = out;
    // Most text has between three and five bytes to a token.
    TRY(token_ids_reserve(out, (int64_t)(bytes / 4) + 16, err));
    return encode_pieces(e, text, bytes, err);
}
