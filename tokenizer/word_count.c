// word_count.c -- see word_count.h.
//
// In two passes over each batch of pieces, as in piece_encode.c: the first hashes and asks for the
// memory that the second looks at.
//
// SPDX-License-Identifier: MIT
#include "tokenizer/word_count.h"
#include "engine/base/mem.h"
#include "tokenizer/tokenizer_impl.h"

#include <string.h>

enum { BATCH = 256, FIRST_WORDS = 4096 };

void word_count_free(WordCount *w)
{
    buf_free(&w->text);
    mem_free(w->word);
    mem_free(w->slot);
    *w = (WordCount){0};
}

// `left` bytes may be read at p, n of them at least.
LT_INLINE uint64_t hash_piece(const uint8_t *p, int64_t n, int64_t left)
{
    if (n > PIECE_MAX) return hash_bytes(p, (size_t)n);
    const PieceKey key = piece_key(p, n, left);
    return piece_key_hash(&key, n);
}

LT_INLINE const uint8_t *word_text(const WordCount *w, const Word *k)
{
    return (const uint8_t *)w->text.data + k->at;
}

static Status grow(WordCount *w, Err *err)
{
    const int64_t cap = LT_MAX((int64_t)FIRST_WORDS, 2 * w->cap);
    const size_t slots = 2 * (size_t)cap;
    if (cap > INT32_MAX) return err_set(err, ERR_UNSUPPORTED, "too many different words");
    Word *word = mem_realloc(w->word, (size_t)cap * sizeof *word);
    if (!word) return mem_err(err, (size_t)cap * sizeof *word, "a table of words");
    w->word = word;
    uint64_t *slot = mem_alloc(slots * sizeof *slot);
    if (!slot) return mem_err(err, slots * sizeof *slot, "a table of words");
    w->cap = cap; // both are there: until now it was the smaller table
    mem_free(w->slot);
    memset(slot, 0xFF, slots * sizeof *slot);
    w->slot = slot;
    w->slot_mask = slots - 1;
    for (int64_t k = 0; k < w->n; k++) {
        const int64_t left = (int64_t)(w->text.len - word[k].at);
        const uint64_t h = hash_piece(word_text(w, &word[k]), word[k].bytes, left);
        uint64_t i = h & w->slot_mask;
        while (slot[i] != FIND_FREE) i = (i + 1) & w->slot_mask;
        slot[i] = h >> 32 << 32 | (uint64_t)k;
    }
    return ERR_NONE;
}

LT_INLINE Status add(WordCount *w, const uint8_t *text, int64_t bytes, uint64_t hash, int64_t count,
                     Err *err)
{
    if (w->n == w->cap) TRY(grow(w, err));
    uint64_t i = hash & w->slot_mask;
    for (; w->slot[i] != FIND_FREE; i = (i + 1) & w->slot_mask) {
        if ((w->slot[i] ^ hash) >> 32) continue;
        Word *k = &w->word[(uint32_t)w->slot[i]];
        if (k->bytes == bytes && memcmp(word_text(w, k), text, (size_t)bytes) == 0) {
            k->count += count;
            return ERR_NONE;
        }
    }
    const size_t at = w->text.len;
    TRY(buf_append(&w->text, text, (size_t)bytes, err));
    w->slot[i] = hash >> 32 << 32 | (uint64_t)w->n;
    w->word[w->n++] = (Word){at, bytes, count};
    return ERR_NONE;
}

Status word_count_pieces(WordCount *w, PretokenPattern pattern, const uint8_t *text,
                         const uint8_t *end, Err *err)
{
    const uint8_t *at = text, *piece = text, *ends[BATCH];
    uint64_t hash[BATCH];
    if (!w->slot) TRY(grow(w, err));
    for (int n; (n = pretoken_scan(pattern, &at, end, ends, BATCH)) > 0;) {
        const uint8_t *p = piece;
        for (int i = 0; i < n; i++) {
            hash[i] = hash_piece(p, ends[i] - p, end - p);
            __builtin_prefetch(&w->slot[hash[i] & w->slot_mask]);
            p = ends[i];
        }
        for (int i = 0; i < n; i++) {
            TRY(add(w, piece, ends[i] - piece, hash[i], 1, err));
            piece = ends[i];
        }
    }
    return ERR_NONE;
}

Status word_count_add(WordCount *w, const char *text, int64_t bytes, int64_t count, Err *err)
{
    const uint8_t *p = (const uint8_t *)text;
    return add(w, p, bytes, hash_piece(p, bytes, bytes), count, err);
}

Status word_count_join(WordCount *w, const WordCount *from, Err *err)
{
    for (int64_t k = 0; k < from->n; k++) {
        const Word *m = &from->word[k];
        const uint8_t *text = word_text(from, m);
        const uint64_t h = hash_piece(text, m->bytes, (int64_t)(from->text.len - m->at));
        TRY(add(w, text, m->bytes, h, m->count, err));
    }
    return ERR_NONE;
}
