// bpe_train.c -- learns the merges of a byte-level BPE vocabulary (Sennrich, Haddow, Birch: "Neural
// machine translation of rare words with subword units", ACL 2016; on bytes, as GPT-2), and in the
// same way the pieces of a WordPiece vocabulary, whose symbols are characters.
//
// The distinct pieces of the text stand one behind the other as symbols, each piece with its count.
// Merging the most frequent pair again and again needs, for each pair, its total count and the
// places where it occurs; both are kept exact:
//
//     symbols      l o w _ | l o w e r | ...        next[], prev[] skip merged-away positions
//     pair (l,o)   count 9, first place 0           chain_next[], chain_prev[]: a list through
//                                                   the places, for each is in one pair only
//
// A merge visits the places of its pair and touches their neighbours: all merges together are
// linear in the distinct text. A heap finds the best pair; the counts in it may be out of date
// (too large, never too small), which is noticed when an entry surfaces.
//
// Repeat: counts are integers, ties go to the smaller pair of ids, and places of a pair are merged
// from left to right; so the merges depend on nothing but the text. A pair that occurs once is not
// merged: the vocabulary of a very small text stays smaller than asked for.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "tokenizer/tokenizer_impl.h"
#include "tokenizer/word_count.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NONE = -1 };

typedef struct Place { // a position in the text of distinct pieces
    int32_t id;        // NONE: merged into an earlier place
    int32_t prev, next;
    int32_t chain_prev, chain_next; // in the list of its pair (id, id of next)
    int32_t pair;                   // index of that pair, or NONE
    int32_t word;
} Place;

typedef struct Pair {
    int32_t left, right;
    int64_t count;
    int32_t first, last; // places
    bool fresh;          // the current merge added a place
} Pair;

typedef struct HeapEntry {
    int64_t count;
    int32_t pair;
} HeapEntry;

typedef struct Trainer {
    int64_t *count; // of each word
    Place *place;
    int32_t place_n;
    Pair *pair;
    int32_t pair_n;
    int64_t pair_cap;
    int32_t *slot; // (left, right) -> pair, open addressing
    uint64_t slot_mask;
    HeapEntry *heap;
    int64_t heap_n, heap_cap;
    int32_t *todo; // places of the pair being merged
    int64_t todo_cap;
    int32_t *fresh; // pairs that the current merge made or made larger
    int64_t fresh_n, fresh_cap;
    int64_t steps; // places and heap entries looked at: the work done
} Trainer;

static void trainer_free(Trainer *t)
{
    mem_free(t->count);
    mem_free(t->place);
    mem_free(t->pair);
    mem_free(t->slot);
    mem_free(t->heap);
    mem_free(t->todo);
    mem_free(t->fresh);
}

// The array p, moved if need be to where at least `need` elements of `size` bytes have room. NULL
// when memory is out: then p stands.
static void *grown(void *p, int64_t *cap, int64_t need, size_t size, Err *err)
{
    if (need <= *cap) return p;
    const int64_t more = LT_MAX(need, LT_MAX(1024, 2 * *cap));
    void *q = mem_realloc(p, (size_t)more * size);
    if (q)
        *cap = more;
    else
        (void)mem_err(err, (size_t)more * size, "tokenizer training");
    return q;
}

// The heap: largest count first, then the smaller pair of ids -----------------------------------

static bool before(const Trainer *t, HeapEntry a, HeapEntry b)
{
    if (a.count != b.count) return a.count > b.count;
    const Pair *p = &t->pair[a.pair], *q = &t->pair[b.pair];
    return p->left != q->left ? p->left < q->left : p->right < q->right;
}

static Status heap_push(Trainer *t, int32_t pair, Err *err)
{
    HeapEntry *heap = grown(t->heap, &t->heap_cap, t->heap_n + 1, sizeof *heap, err);
    if (!heap) return ERR_NOMEM;
    t->heap = heap;
    const HeapEntry e = {t->pair[pair].count, pair};
    int64_t i = t->heap_n++;
    for (; i > 0 && before(t, e, heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = e;
    return ERR_NONE;
}

static void heap_down(Trainer *t)
{
    const HeapEntry e = t->heap[0];
    int64_t i = 0;
    for (int64_t c; (c = 2 * i + 1) < t->heap_n; i = c) {
        if (c + 1 < t->heap_n && before(t, t->heap[c + 1], t->heap[c])) c++;
        if (!before(t, t->heap[c], e)) break;
        t->heap[i] = t->heap[c];
    }
    t->heap[i] = e;
}

// The pair of largest count, or NONE when none occurs twice.
static int32_t heap_best(Trainer *t)
{
    while (t->heap_n > 0) {
        HeapEntry *const top = &t->heap[0];
        t->steps++;
        const Pair *p = &t->pair[top->pair];
        if (top->count == p->count && p->count >= 2) return top->pair;
        if (p->count >= 2) {
            top->count = p->count; // it has shrunk since it was queued
        } else {
            *top = t->heap[--t->heap_n];
            if (t->heap_n == 0) break;
        }
        heap_down(t);
    }
    return NONE;
}

// Pairs and their places -------------------------------------------------------------------------

static Status pair_slots(Trainer *t, uint64_t slots, Err *err)
{
    int32_t *slot = mem_alloc(slots * sizeof *slot);
    if (!slot) return mem_err(err, slots * sizeof *slot, "tokenizer training");
    mem_free(t->slot);
    memset(slot, 0xFF, slots * sizeof *slot);
    t->slot = slot;
    t->slot_mask = slots - 1;
    for (int32_t k = 0; k < t->pair_n; k++) {
        const Pair *p = &t->pair[k];
        uint64_t i =
            hash_pair((uint64_t)(uint32_t)p->left << 32 | (uint32_t)p->right) & t->slot_mask;
        while (slot[i] >= 0) i = (i + 1) & t->slot_mask;
        slot[i] = k;
    }
    return ERR_NONE;
}

static Status pair_of(Trainer *t, int32_t left, int32_t right, int32_t *out, Err *err)
{
    uint64_t i = hash_pair((uint64_t)(uint32_t)left << 32 | (uint32_t)right) & t->slot_mask;
    for (; t->slot[i] >= 0; i = (i + 1) & t->slot_mask) {
        const Pair *p = &t->pair[t->slot[i]];
        if (p->left == left && p->right == right) {
            *out = t->slot[i];
            return ERR_NONE;
        }
    }
    Pair *pair = grown(t->pair, &t->pair_cap, (int64_t)t->pair_n + 1, sizeof *pair, err);
    if (!pair) return ERR_NOMEM;
    t->pair = pair;
    t->pair[t->pair_n] = (Pair){.left = left, .right = right, .first = NONE, .last = NONE};
    t->slot[i] = t->pair_n;
    *out = t->pair_n++;
    if (2 * (uint64_t)t->pair_n > t->slot_mask) TRY(pair_slots(t, 2 * (t->slot_mask + 1), err));
    return ERR_NONE;
}

// Takes place i out of its pair's list.
static void place_leave(Trainer *t, int32_t i)
{
    Place *const p = &t->place[i];
    if (p->pair == NONE) return;
    Pair *const q = &t->pair[p->pair];
    q->count -= t->count[p->word];
    if (p->chain_prev == NONE)
        q->first = p->chain_next;
    else
        t->place[p->chain_prev].chain_next = p->chain_next;
    if (p->chain_next == NONE)
        q->last = p->chain_prev;
    else
        t->place[p->chain_next].chain_prev = p->chain_prev;
    p->pair = NONE;
}

// Puts place i into the list of the pair it now begins.
static Status place_join(Trainer *t, int32_t i, Err *err)
{
    Place *const p = &t->place[i];
    if (p->next == NONE) return ERR_NONE;
    int32_t k;
    TRY(pair_of(t, p->id, t->place[p->next].id, &k, err));
    Pair *const q = &t->pair[k];
    p->pair = k;
    p->chain_prev = q->last;
    p->chain_next = NONE;
    if (q->last == NONE)
        q->first = i;
    else
        t->place[q->last].chain_next = i;
    q->last = i;
    q->count += t->count[p->word];
    if (!q->fresh) {
        q->fresh = true;
        int32_t *fresh = grown(t->fresh, &t->fresh_cap, t->fresh_n + 1, sizeof *fresh, err);
        if (!fresh) return ERR_NOMEM;
        t->fresh = fresh;
        fresh[t->fresh_n++] = k;
    }
    return ERR_NONE;
}

static Status queue_fresh(Trainer *t, Err *err)
{
    for (int64_t i = 0; i < t->fresh_n; i++) {
        t->pair[t->fresh[i]].fresh = false;
        TRY(heap_push(t, t->fresh[i], err));
    }
    t->fresh_n = 0;
    return ERR_NONE;
}

static Status too_much(int64_t bytes, Err *err)
{
    return err_set(err, ERR_UNSUPPORTED,
                   "the text has %" PRId64 " bytes of distinct words, more than a tokenizer can be "
                   "trained on; train on a part of it",
                   bytes);
}

// The symbol that begins at byte `at` of a word, and its length there.
static int32_t symbol(const Tokenizer *vocab, const char *word, int64_t at, int64_t bytes,
                      int64_t *len)
{
    *len = 1;
    if (vocab->kind == KIND_BPE) return vocab->byte_id[(uint8_t)word[at]];
    char name[WORDPIECE_SYMBOL];
    return vocab_find(vocab, name, wordpiece_symbol(word, at, bytes, name, len));
}

// Writes the words out as places, and frees them.
static Status place_words(Trainer *t, const Tokenizer *vocab, WordCount *words, Err *err)
{
    const size_t total = words->text.len;
    if (total > INT32_MAX) return too_much((int64_t)total, err);
    t->count = mem_alloc((size_t)words->n * sizeof *t->count);
    t->place = mem_alloc(total * sizeof *t->place);
    if (!t->count || !t->place) return mem_err(err, total * sizeof *t->place, "tokenizer training");
    for (int64_t w = 0; w < words->n; w++) {
        const Word *word = &words->word[w];
        const char *text = words->text.data + word->at;
        t->count[w] = word->count;
        int64_t len;
        for (int64_t k = 0; k < word->bytes && word->count > 0; k += len) {
            const int32_t i = t->place_n++;
            t->place[i] = (Place){.id = symbol(vocab, text, k, word->bytes, &len),
                                  .pair = NONE,
                                  .prev = k > 0 ? i - 1 : NONE,
                                  .next = k + len < word->bytes ? i + 1 : NONE,
                                  .word = (int32_t)w};
        }
    }
    word_count_free(words);
    return ERR_NONE;
}

static Status trainer_start(Trainer *t, const Tokenizer *vocab, WordCount *words, Err *err)
{
    TRY(place_words(t, vocab, words, err));
    TRY(pair_slots(t, 1 << 16, err));
    for (int32_t i = 0; i < t->place_n; i++) TRY(place_join(t, i, err));
    return queue_fresh(t, err);
}

static int by_place(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static Status merge_pair(Trainer *t, int32_t best, int32_t id, Err *err)
{
    int64_t n = 0;
    bool sorted = true;
    for (int32_t i = t->pair[best].first; i != NONE; i = t->place[i].chain_next) {
        int32_t *todo = grown(t->todo, &t->todo_cap, n + 1, sizeof *todo, err);
        if (!todo) return ERR_NOMEM;
        t->todo = todo;
        sorted = sorted && (n == 0 || todo[n - 1] < i);
        todo[n++] = i;
    }
    t->steps += n;
    // In "aaa" the first two a's are the ones to merge, not the last two. Lists grow at their ends,
    // from left to right: only that of a token made by several pairs may need sorting.
    if (!sorted) qsort(t->todo, (size_t)n, sizeof *t->todo, by_place);
    for (int64_t k = 0; k < n; k++) {
        const int32_t i = t->todo[k];
        Place *const p = &t->place[i];
        if (p->pair != best) continue; // its symbol went into the merge on its left
        const int32_t gone = p->next, prev = p->prev, next = t->place[gone].next;
        place_leave(t, i);
        place_leave(t, gone);
        if (prev != NONE) place_leave(t, prev);
        p->id = id;
        p->next = next;
        t->place[gone].id = NONE;
        if (next != NONE) t->place[next].prev = i;
        TRY(place_join(t, i, err));
        if (prev != NONE) TRY(place_join(t, prev, err));
    }
    return queue_fresh(t, err);
}

// One merge: the pair `best`, whose tokens become a token of the vocabulary.
static Status merge_best(Trainer *t, Tokenizer *vocab, int32_t best, Buf *bytes, Err *err)
{
    const int32_t left = t->pair[best].left, right = t->pair[best].right;
    const bool bpe = vocab->kind == KIND_BPE;
    const int hashes = bpe ? 0 : 2; // un + ##able: unable
    buf_clear(bytes);
    TRY(buf_append(bytes, token_bytes(vocab, left), (size_t)vocab->token[left].bytes, err));
    TRY(buf_append(bytes, token_bytes(vocab, right) + hashes,
                   (size_t)(vocab->token[right].bytes - hashes), err));
    // Two different pairs may spell the same token: it is one token, both pairs merge to it.
    int32_t id = vocab_find(vocab, bytes->data, bytes->len);
    if (id < 0) {
        id = (int32_t)vocab->n;
        TRY(vocab_add(vocab, id, bytes->data, bytes->len, TOKEN_PLAIN, err));
    }
    if (bpe) TRY(merge_add(vocab, left, right, id, (int32_t)vocab->merge_n, err));
    return merge_pair(t, best, id, err);
}

Status bpe_learn(Tokenizer *vocab, int64_t limit, WordCount *words, const OnProgress *on,
                 int64_t *steps, Err *err)
{
    Trainer t = {0};
    Buf bytes = {0};
    Status s = trainer_start(&t, vocab, words, err);
    while (vocab->n < limit && s == ERR_NONE) {
        const int32_t best = heap_best(&t);
        if (best == NONE) break;
        s = merge_best(&t, vocab, best, &bytes, err);
        on_progress(on, (double)vocab->n, (double)limit);
    }
    buf_free(&bytes);
    if (steps) *steps += t.steps;
    trainer_free(&t);
    return s;
}

Status bpe_check_size(int64_t vocab_size, Err *err)
{
    if (vocab_size >= 257 && vocab_size <= TOKEN_MAX_ID) return ERR_NONE;
    const Status wrong = err_set(err, ERR_USAGE, "vocab_size %" PRId64 " is not between 257 and %d",
                                 vocab_size, TOKEN_MAX_ID);
    err_hint(err,
             "256 ids are the single bytes and one is the end token; 4096 suits a small model");
    return wrong;
}

Status bpe_train(Tokenizer **out, PretokenPattern pattern, int64_t vocab_size, WordCount *words,
                 const OnProgress *on, int64_t *steps, Err *err)
{
    static const char end_token[] = "<|endoftext|>";
    Tokenizer *vocab = NULL;
    Status s = tokenizer_new(&vocab, KIND_BPE, pattern, err);
    for (int id = 0; id < 256 && s == ERR_NONE; id++) {
        vocab->byte_id[byte_map_order[id]] = id;
        s = vocab_add(vocab, id, &byte_map_order[id], 1, TOKEN_PLAIN, err);
    }
    if (s == ERR_NONE) s = bpe_learn(vocab, vocab_size - 1, words, on, steps, err);
    if (s == ERR_NONE)
        s = vocab_add(vocab, vocab->n, end_token, sizeof end_token - 1, TOKEN_SPECIAL, err);
    if (s == ERR_NONE) s = tokenizer_finish(vocab, err);
    if (s != ERR_NONE) {
        tokenizer_close(vocab);
        return s;
    }
    *out = vocab;
    return ERR_NONE;
}
