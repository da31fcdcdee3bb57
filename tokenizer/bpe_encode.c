// bpe_encode.c -- byte pair encoding of plain text: cut it, look each piece up, merge new ones.
//
// Text repeats its words, so a cache in front of the merging does most of the work: a table of
// 64-byte entries (one cache line), one for each hash value, the newer piece wins. It lives for one
// call on one thread and its size follows the size of the text, so that a short text pays for no
// empty table. A piece is loaded as three 8-byte words with everything behind its end masked off,
// which serves as key and as hash input alike.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "tokenizer/tokenizer_impl.h"

#include <string.h>

enum {
    KEY_BYTES = 24, // pieces up to this length are cached
    ENTRY_IDS = 9,  // when they have at most this many ids
    BATCH = 256,
    CACHE_SMALL = 64,
    CACHE_LARGE = 1 << 15
};

typedef struct CacheEntry {
    uint64_t key[KEY_BYTES / 8];
    int16_t bytes; // 0: free
    int16_t n;
    int32_t id[ENTRY_IDS];
} CacheEntry;
_Static_assert(sizeof(CacheEntry) == 64, "one cache line");

// KEY_BYTES ones, then as many zeros: the mask for n bytes starts at KEY_BYTES - n.
static const uint8_t key_mask[2 * KEY_BYTES] = {
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
};

typedef struct BpeEncoder {
    const Tokenizer *t;
    CacheEntry *cache;
    uint64_t cache_mask;
    BpeScratch scratch;
    bool lookup; // try the whole piece as one token first
    TokenIds *out;
} BpeEncoder;

// A piece that is not in the cache.
static Status encode_piece(BpeEncoder *e, const uint8_t *piece, int64_t n, Err *err)
{
    if (n == 1) return token_ids_push(e->out, e->t->byte_id[*piece], err);
    if (e->lookup) {
        const int32_t id = vocab_find(e->t, piece, (size_t)n);
        if (id >= 0) return token_ids_push(e->out, id, err);
    }
    return bpe_merge(e->t, piece, n, &e->scratch, e->out, err);
}

static Status encode_cached(BpeEncoder *e, const uint8_t *piece, int64_t n, const uint8_t *end,
                            Err *err)
{
    uint64_t key[KEY_BYTES / 8], mask[KEY_BYTES / 8];
    if (end - piece >= KEY_BYTES) {
        memcpy(key, piece, KEY_BYTES);
    } else {
        memset(key, 0, KEY_BYTES);
        memcpy(key, piece, (size_t)n);
    }
    memcpy(mask, key_mask + KEY_BYTES - n, KEY_BYTES);
    for (int i = 0; i < KEY_BYTES / 8; i++) key[i] &= mask[i];

    uint64_t h = (key[0] ^ (uint64_t)n << 56) * 0x9E3779B97F4A7C15u;
    h = (h ^ h >> 32 ^ key[1]) * 0xD6E8FEB86659FD93u;
    h = (h ^ h >> 32 ^ key[2]) * 0xD6E8FEB86659FD93u;
    CacheEntry *const c = &e->cache[(h >> 32) & e->cache_mask];

    TokenIds *const out = e->out;
    if (c->bytes == n && c->key[0] == key[0] && c->key[1] == key[1] && c->key[2] == key[2]) {
        if (out->cap - out->n < ENTRY_IDS) TRY(token_ids_reserve(out, ENTRY_IDS, err));
        memcpy(out->id + out->n, c->id, 4 * sizeof *c->id);
        if (c->n > 4) memcpy(out->id + out->n, c->id, sizeof c->id);
        out->n += c->n;
        return ERR_NONE;
    }
    const int64_t first = out->n;
    TRY(encode_piece(e, piece, n, err));
    const int64_t got = out->n - first;
    if (got <= ENTRY_IDS) {
        memcpy(c->key, key, KEY_BYTES);
        memcpy(c->id, out->id + first, (size_t)got * sizeof *c->id);
        c->bytes = (int16_t)n;
        c->n = (int16_t)got;
    }
    return ERR_NONE;
}

static Status encode_pieces(BpeEncoder *e, const uint8_t *text, size_t bytes, Err *err)
{
    const uint8_t *at = text, *const end = text + bytes, *piece = text, *ends[BATCH];
    for (int n; (n = pretoken_scan(e->t->pattern, &at, end, ends, BATCH)) > 0;)
        for (int i = 0; i < n; i++) {
            const int64_t len = ends[i] - piece;
            if (len <= KEY_BYTES)
                TRY(encode_cached(e, piece, len, end, err));
            else
                TRY(encode_piece(e, piece, len, err));
            piece = ends[i];
        }
    return ERR_NONE;
}

Status bpe_encode(const Tokenizer *t, const uint8_t *text, size_t bytes, TokenIds *out, Err *err)
{
    if (bytes == 0) return ERR_NONE;
    size_t entries = CACHE_SMALL;
    while (entries < CACHE_LARGE && entries < bytes / 16) entries *= 2;
    BpeEncoder e = {
        .t = t, .out = out, .cache_mask = entries - 1, .lookup = t->whole_first || t->regular};
    e.cache = mem_calloc(entries, sizeof *e.cache);
    if (!e.cache) return mem_err(err, entries * sizeof *e.cache, "the cache of words");
    // Most text has between three and five bytes to a token.
    Status s = token_ids_reserve(out, (int64_t)(bytes / 4) + 16, err);
    if (s == ERR_NONE) s = encode_pieces(&e, text, bytes, err);
    mem_free(e.cache);
    bpe_scratch_free(&e.scratch);
    return s;
}
