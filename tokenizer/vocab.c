// vocab.c -- the tables inside a Tokenizer: filled by loaders and trainers, checked once, then only
// read. See tokenizer_impl.h.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "tokenizer/tokenizer_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

Status tokenizer_new(Tokenizer **out, TokenizerKind kind, PretokenPattern pattern, Err *err)
{
    Tokenizer *t = mem_calloc(1, sizeof *t);
    if (!t) return mem_err(err, sizeof *t, "a tokenizer");
    t->kind = kind;
    t->pattern = pattern;
    t->end_token = -1;
    t->id_limit = TOKEN_MAX_ID;
    t->word =
        (WordRules){.max_chars = 100, .unknown = -1, .before = -1, .after = -1, .clean_up = true};
    *out = t;
    return ERR_NONE;
}

void tokenizer_close(Tokenizer *t)
{
    if (!t) return;
    buf_free(&t->blob);
    mem_free(t->token);
    mem_free(t->find);
    mem_free(t->merge);
    mem_free(t->slot);
    mem_free(t->maybe);
    mem_free(t->byte_pair);
    mem_free(t->piece);
    mem_free(t->match);
    mem_free(t);
}

// Bytes -> id ----------------------------------------------------------------------------------

int32_t vocab_find(const Tokenizer *t, const void *bytes, size_t n)
{
    if (!t->find) return -1;
    const uint64_t h = hash_bytes(bytes, n);
    for (uint64_t i = h & t->find_mask; t->find[i] != FIND_FREE; i = (i + 1) & t->find_mask) {
        if ((t->find[i] ^ h) >> 32) continue;
        const int32_t id = (int32_t)t->find[i];
        if ((size_t)t->token[id].bytes == n && memcmp(token_bytes(t, id), bytes, n) == 0) return id;
    }
    return -1;
}

static void find_put(Tokenizer *t, int32_t id)
{
    const uint64_t h = hash_bytes(token_bytes(t, id), (size_t)t->token[id].bytes);
    uint64_t i = h & t->find_mask;
    while (t->find[i] != FIND_FREE) i = (i + 1) & t->find_mask;
    t->find[i] = h >> 32 << 32 | (uint32_t)id;
}

static Status find_rebuild(Tokenizer *t, uint64_t slots, Err *err)
{
    uint64_t *p = mem_alloc(slots * sizeof *p);
    if (!p) return mem_err(err, slots * sizeof *p, "a vocabulary");
    mem_free(t->find);
    memset(p, 0xFF, slots * sizeof *p);
    t->find = p;
    t->find_mask = slots - 1;
    t->find_n = 0;
    for (int64_t id = 0; id < t->n; id++)
        if (t->token[id].flags & TOKEN_PLAIN) {
            find_put(t, (int32_t)id);
            t->find_n++;
        }
    return ERR_NONE;
}

void vocab_expect(Tokenizer *t, int64_t tokens)
{
    t->id_limit = LT_MIN(4 * tokens + (1 << 16), (int64_t)TOKEN_MAX_ID);
}

Status vocab_add(Tokenizer *t, int64_t id, const void *bytes, size_t n, uint32_t flags, Err *err)
{
    if (id < 0 || id >= TOKEN_MAX_ID)
        return err_set(err, ERR_FORMAT, "token id %" PRId64 " is out of range", id);
    if (id >= t->id_limit)
        return err_set(err, ERR_FORMAT, "token id %" PRId64 " is far from the others", id);
    if (n == 0) return err_set(err, ERR_FORMAT, "token %" PRId64 " is empty", id);
    if (n > INT32_MAX) return err_set(err, ERR_FORMAT, "token %" PRId64 " is too long", id);
    if (id < t->n && t->token[id].flags)
        return err_set(err, ERR_FORMAT,
                       "two tokens have the id %" PRId64 ": \"%.40s\" and \"%.*s\"", id,
                       token_bytes(t, (int32_t)id), (int)LT_MIN(n, 40), (const char *)bytes);
    if (id >= t->cap) {
        const int64_t cap = LT_MAX(id + 1, LT_MAX(1024, 2 * t->cap));
        Token *p = mem_realloc(t->token, (size_t)cap * sizeof *p);
        if (!p) return mem_err(err, (size_t)cap * sizeof *p, "a vocabulary");
        memset(p + t->cap, 0, (size_t)(cap - t->cap) * sizeof *p);
        t->token = p;
        t->cap = cap;
    }
    const int64_t at = (int64_t)t->blob.len;
    TRY(buf_append(&t->blob, bytes, n, err));
    TRY(buf_append(&t->blob, "", 1, err)); // so that a token can be printed
    const uint32_t other = flags & ~(uint32_t)TOKEN_PLAIN;
    t->token[id] = (Token){.at = at, .bytes = (int32_t)n, .flags = other | TOKEN_USED};
    t->n = LT_MAX(t->n, id + 1);
    return flags & TOKEN_PLAIN ? vocab_make_plain(t, (int32_t)id, err) : ERR_NONE;
}

Status vocab_make_plain(Tokenizer *t, int32_t id, Err *err)
{
    if (t->token[id].flags & TOKEN_PLAIN) return ERR_NONE;
    const int32_t old = vocab_find(t, token_bytes(t, id), (size_t)t->token[id].bytes);
    if (old >= 0)
        return err_set(err, ERR_FORMAT, "the ids %d and %d have the same token \"%.40s\"", old, id,
                       token_bytes(t, id));
    t->token[id].flags |= TOKEN_PLAIN;
    if (!t->find || (uint64_t)t->find_n * 2 >= t->find_mask)
        return find_rebuild(t, t->find ? 2 * (t->find_mask + 1) : 2048, err);
    find_put(t, id);
    t->find_n++;
    return ERR_NONE;
}

// Merges ---------------------------------------------------------------------------------------

Status merge_add(Tokenizer *t, int32_t left, int32_t right, int32_t result, int32_t priority,
                 Err *err)
{
    if (t->merge_n == t->merge_cap) {
        const int64_t cap = LT_MAX(1024, 2 * t->merge_cap);
        Merge *p = mem_realloc(t->merge, (size_t)cap * sizeof *p);
        if (!p) return mem_err(err, (size_t)cap * sizeof *p, "merges");
        t->merge = p;
        t->merge_cap = cap;
    }
    t->merge[t->merge_n++] = (Merge){left, right, result, priority};
    return ERR_NONE;
}

Status vocab_all_splits(Tokenizer *t, Err *err)
{
    // The merges of a token and of its parts grow with the square of its length, and with the cube
    // the text they are saved as; published vocabularies stay at 128 bytes.
    enum { LONGEST = 256 };
    for (int64_t id = 0; id < t->n; id++) {
        if (!(t->token[id].flags & TOKEN_PLAIN)) continue;
        const char *bytes = token_bytes(t, (int32_t)id);
        const int32_t n = t->token[id].bytes;
        if (n > LONGEST)
            return err_set(err, ERR_UNSUPPORTED, "token %lld has %d bytes; at most %d are read",
                           (long long)id, (int)n, (int)LONGEST);
        for (int32_t k = 1; k < n; k++) {
            const int32_t left = vocab_find(t, bytes, (size_t)k);
            if (left < 0) continue;
            const int32_t right = vocab_find(t, bytes + k, (size_t)(n - k));
            if (right >= 0) TRY(merge_add(t, left, right, (int32_t)id, (int32_t)id, err));
        }
    }
    return ERR_NONE;
}

static int merge_order(const void *pa, const void *pb)
{
    const Merge *a = pa, *b = pb;
    if (a->priority != b->priority) return a->priority < b->priority ? -1 : 1;
    if (a->left != b->left) return a->left < b->left ? -1 : 1;
    return (a->right > b->right) - (a->right < b->right);
}

static Status merge_index(Tokenizer *t, Err *err)
{
    uint64_t slots = 256;
    while (slots < 2 * (uint64_t)t->merge_n) slots *= 2;
    t->slot = mem_alloc(slots * sizeof *t->slot);
    t->byte_pair = mem_alloc(65536 * sizeof *t->byte_pair);
    t->maybe = mem_calloc(slots / 16, sizeof *t->maybe); // four bits a slot
    if (!t->slot || !t->byte_pair || !t->maybe)
        return mem_err(err, slots * sizeof *t->slot, "merges");
    memset(t->slot, 0xFF, slots * sizeof *t->slot);
    t->slot_mask = slots - 1;
    t->maybe_mask = 4 * slots - 1;
    for (int64_t k = 0; k < t->merge_n; k++) {
        const Merge *m = &t->merge[k];
        const uint64_t pair = (uint64_t)(uint32_t)m->left << 32 | (uint32_t)m->right;
        const uint64_t h = hash_pair(pair), bit = (h >> 24) & t->maybe_mask;
        t->maybe[bit >> 6] |= (uint64_t)1 << (bit & 63);
        uint64_t i = h & t->slot_mask;
        for (; t->slot[i].pair != MERGE_FREE; i = (i + 1) & t->slot_mask)
            if (t->slot[i].pair == pair)
                return err_set(err, ERR_FORMAT, "the pair \"%.40s\" \"%.40s\" is merged twice",
                               token_bytes(t, m->left), token_bytes(t, m->right));
        t->slot[i] = (MergeSlot){pair, m->priority, m->result};
    }
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++) {
            const MergeSlot *m = merge_find(t, t->byte_id[a], t->byte_id[b]);
            t->byte_pair[a << 8 | b] =
                m ? (BytePair){m->priority, m->result} : (BytePair){NO_PRIORITY, -1};
        }
    return ERR_NONE;
}

// Is every plain token what its own bytes merge to? Then a look-up of the whole piece is a
// short cut that changes nothing.
static Status check_regular(Tokenizer *t, Err *err)
{
    BpeScratch scratch = {0};
    TokenIds ids = {0};
    Status s = ERR_NONE;
    t->regular = true;
    for (int64_t id = 0; id < t->n && t->regular && s == ERR_NONE; id++) {
        if (!(t->token[id].flags & TOKEN_PLAIN) || t->token[id].bytes < 2) continue;
        ids.n = 0;
        s = bpe_merge(t, (const uint8_t *)token_bytes(t, (int32_t)id), t->token[id].bytes, &scratch,
                      &ids, err);
        t->regular = s == ERR_NONE && ids.n == 1;
    }
    bpe_scratch_free(&scratch);
    token_ids_free(&ids);
    return s;
}

// Short plain tokens by their keys.
static Status piece_index(Tokenizer *t, Err *err)
{
    uint64_t slots = 512;
    while (slots < 2 * (uint64_t)t->find_n) slots *= 2;
    t->piece = mem_calloc(slots, sizeof *t->piece);
    if (!t->piece) return mem_err(err, slots * sizeof *t->piece, "a vocabulary");
    t->piece_slots_mask = slots - 1;
    for (int64_t id = 0; id < t->n; id++) {
        const Token *k = &t->token[id];
        if (!(k->flags & TOKEN_PLAIN) || k->bytes > PIECE_MAX) continue;
        const uint8_t *bytes = (const uint8_t *)token_bytes(t, (int32_t)id);
        const PieceKey key = piece_key(bytes, k->bytes, k->bytes);
        uint64_t i = piece_key_hash(&key, k->bytes) & t->piece_slots_mask;
        while (t->piece[i].bytes) i = (i + 1) & t->piece_slots_mask;
        t->piece[i] = (PieceSlot){key, k->bytes, (int32_t)id};
    }
    return ERR_NONE;
}

// Special tokens -------------------------------------------------------------------------------

typedef struct MatchKey {
    int32_t id, bytes;
} MatchKey;

static int match_order(const void *pa, const void *pb)
{
    const MatchKey *a = pa, *b = pb;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static Status match_index(Tokenizer *t, Err *err)
{
    int64_t n = 0;
    for (int64_t id = 0; id < t->n; id++) n += (t->token[id].flags & TOKEN_MATCH) != 0;
    MatchKey *key = mem_alloc((size_t)n * sizeof *key);
    t->match = mem_alloc((size_t)n * sizeof *t->match);
    if (!key || !t->match) {
        mem_free(key);
        return mem_err(err, (size_t)n * sizeof *key, "special tokens");
    }
    t->match_n = n;
    n = 0;
    for (int64_t id = 0; id < t->n; id++) {
        if (!(t->token[id].flags & TOKEN_MATCH)) continue;
        key[n++] = (MatchKey){(int32_t)id, t->token[id].bytes};
        t->match_first[(uint8_t)*token_bytes(t, (int32_t)id)] = true;
        if (t->token[id].flags & TOKEN_AROUND) t->strips = true;
    }
    qsort(key, (size_t)n, sizeof *key, match_order);
    for (int64_t k = 0; k < n; k++) t->match[k] = key[k].id;
    mem_free(key);

    static const char *const end_names[] = {"<|endoftext|>", "<|end_of_text|>", "</s>"};
    for (size_t e = 0; e < LT_COUNT(end_names) && t->end_token < 0; e++)
        for (int64_t k = 0; k < t->match_n; k++)
            if (strcmp(token_bytes(t, t->match[k]), end_names[e]) == 0) t->end_token = t->match[k];
    return ERR_NONE;
}

Status tokenizer_finish(Tokenizer *t, Err *err)
{
    int64_t plain = 0, top = -1;
    for (int64_t id = 0; id < t->n; id++)
        if (t->token[id].flags & TOKEN_PLAIN) {
            plain++;
            top = id;
        }
    if (plain == 0) return err_set(err, ERR_FORMAT, "the vocabulary is empty");
    for (int64_t id = 0; id < top; id++)
        if (!t->token[id].flags)
            return err_set(err, ERR_FORMAT,
                           "the vocabulary has a hole: no token has the id %" PRId64, id);
    TRY(match_index(t, err));
    if (t->kind == KIND_WORDPIECE) {
        for (int64_t id = 0; id < t->n; id++)
            if (t->token[id].flags & TOKEN_PLAIN)
                t->word.longest = LT_MAX(t->word.longest, t->token[id].bytes);
        if (t->end_token < 0) t->end_token = t->word.after;
        return piece_index(t, err);
    }
    for (int b = 0; b < 256; b++) {
        const uint8_t byte = (uint8_t)b;
        t->byte_id[b] = vocab_find(t, &byte, 1);
        if (t->kind == KIND_BPE && t->byte_id[b] < 0)
            return err_set(err, ERR_FORMAT, "the vocabulary has no token for the byte 0x%02X", b);
    }
    if (t->kind == KIND_CHAR) return ERR_NONE;
    if (t->merge_n) qsort(t->merge, (size_t)t->merge_n, sizeof *t->merge, merge_order);
    TRY(merge_index(t, err));
    TRY(check_regular(t, err));
    return t->whole_first || t->regular ? piece_index(t, err) : ERR_NONE;
}
