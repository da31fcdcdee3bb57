// bpe_merge.c -- byte pair encoding of one piece: merge the pair of smallest priority, the leftmost
// of equals, until no pair can merge.
//
// Short pieces: an array, scanned for its minimum before each merge. Nothing beats it up to some
// dozens of symbols. Long ones: a linked list of symbols in arrays, and a heap of (priority,
// position); each merge touches two neighbours, so the whole costs O(n log n). A heap entry is
// stale when its position died or its pair changed; it is dropped when it surfaces.
//
// Very long ones (a megabyte of spaces is one piece) are merged window by window, so that the list
// and the heap stay in the processor's cache and the time grows with n alone:
//
//     window 1   a b c d e f g         the last tokens of a window may be others than the whole
//     window 2           e' f' ...     piece has; they are dropped and the next window starts there
//
// This is exact when e' == e. For a list of tokens is what its bytes merge to if and only if each
// two neighbours are what the bytes of these two merge to: as long as no merge has crossed the
// boundary of two tokens, the text of two neighbours goes through the same merges as it would
// alone, and alone no merge crosses. Both windows have only such neighbours, and (d, e) is from the
// first. When e' is another token, or hardly anything of a window can be kept, all is done again
// with windows twice as long; in the end one window holds the piece.
//
// SPDX-License-Identifier: MIT
#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "tokenizer/tokenizer_impl.h"

#include <string.h>

enum {
    SHORT = 48,
    WINDOW = 4096, // bytes
    DROPPED = 16   // the last 1/16 of a window is not kept
};

typedef struct Part {
    int32_t id;
    int32_t priority; // of the merge with the next part
    int32_t result;   // of that merge
} Part;

// Symbols of a long piece, by position of their first byte.
typedef struct Node {
    int32_t id; // -1: merged into an earlier one
    int32_t prev, next;
    int32_t priority, result; // of the merge with `next`
} Node;

typedef struct HeapEntry {
    int32_t priority, at;
} HeapEntry;

void bpe_scratch_free(BpeScratch *s)
{
    mem_free(s->node);
    mem_free(s->heap);
    *s = (BpeScratch){.steps = s->steps};
}

LT_INLINE void part_pair(const Tokenizer *t, Part *p, const Part *next)
{
    const MergeSlot *m = merge_find(t, p->id, next->id);
    p->priority = m ? m->priority : NO_PRIORITY;
    p->result = m ? m->result : -1;
}

static Status merge_short(const Tokenizer *t, const uint8_t *bytes, int n, TokenIds *out, Err *err)
{
    Part part[SHORT];
    for (int i = 0; i < n; i++) {
        part[i].id = t->byte_id[bytes[i]];
        if (i + 1 < n) {
            const BytePair *m = &t->byte_pair[bytes[i] << 8 | bytes[i + 1]];
            part[i].priority = m->priority;
            part[i].result = m->result;
        }
    }
    part[n - 1].priority = NO_PRIORITY;
    while (n > 1) {
        int best = 0;
        int32_t low = part[0].priority;
        for (int i = 1; i < n - 1; i++)
            if (part[i].priority < low) {
                low = part[i].priority;
                best = i;
            }
        if (low == NO_PRIORITY) break;
        part[best].id = part[best].result;
        n--;
        memmove(&part[best + 1], &part[best + 2], (size_t)(n - best - 1) * sizeof *part);
        if (best + 1 < n)
            part_pair(t, &part[best], &part[best + 1]);
        else
            part[best].priority = NO_PRIORITY;
        if (best > 0) part_pair(t, &part[best - 1], &part[best]);
    }
    TRY(token_ids_reserve(out, n, err));
    for (int i = 0; i < n; i++) out->id[out->n + i] = part[i].id;
    out->n += n;
    return ERR_NONE;
}

// Long pieces ----------------------------------------------------------------------------------

LT_INLINE bool before(HeapEntry a, HeapEntry b)
{
    return a.priority < b.priority || (a.priority == b.priority && a.at < b.at);
}

static void sift_down(HeapEntry *heap, int64_t n, int64_t i)
{
    const HeapEntry e = heap[i];
    for (int64_t c; (c = 2 * i + 1) < n; i = c) {
        if (c + 1 < n && before(heap[c + 1], heap[c])) c++;
        if (!before(heap[c], e)) break;
        heap[i] = heap[c];
    }
    heap[i] = e;
}

static void sift_up(HeapEntry *heap, int64_t i)
{
    const HeapEntry e = heap[i];
    for (; i > 0 && before(e, heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = e;
}

// Looks up the pair at `at`; an entry goes to the heap when it can merge.
LT_INLINE bool node_pair(const Tokenizer *t, Node *node, int32_t at)
{
    const MergeSlot *m =
        node[at].next < 0 ? NULL : merge_find(t, node[at].id, node[node[at].next].id);
    node[at].priority = m ? m->priority : NO_PRIORITY;
    node[at].result = m ? m->result : -1;
    return m != NULL;
}

static Status merge_window(const Tokenizer *t, const uint8_t *bytes, int64_t n, BpeScratch *s,
                           TokenIds *out, Err *err)
{
    // Each merge takes one entry out and puts at most two in, and there are fewer than n merges.
    const int64_t heap_cap = 2 * n;
    if (s->node_cap < n) {
        bpe_scratch_free(s);
        s->node = mem_alloc((size_t)n * sizeof(Node));
        s->heap = mem_alloc((size_t)heap_cap * sizeof(HeapEntry));
        if (!s->node || !s->heap) {
            bpe_scratch_free(s);
            return mem_err(err, (size_t)n * sizeof(Node), "a piece of text");
        }
        s->node_cap = n;
        s->heap_cap = heap_cap;
    }
    Node *node = s->node;
    HeapEntry *heap = s->heap;
    int64_t heap_n = 0;
    for (int32_t i = 0; i < (int32_t)n; i++) {
        node[i] = (Node){.id = t->byte_id[bytes[i]],
                         .prev = i - 1,
                         .next = i + 1,
                         .priority = NO_PRIORITY,
                         .result = -1};
        if (i + 1 == n) {
            node[i].next = -1;
            break;
        }
        const BytePair *m = &t->byte_pair[bytes[i] << 8 | bytes[i + 1]];
        node[i].priority = m->priority;
        node[i].result = m->result;
        if (m->priority != NO_PRIORITY) heap[heap_n++] = (HeapEntry){m->priority, i};
    }
    for (int64_t i = heap_n / 2; i-- > 0;) sift_down(heap, heap_n, i);

    while (heap_n > 0) {
        const HeapEntry e = heap[0];
        heap[0] = heap[--heap_n];
        if (heap_n > 1) sift_down(heap, heap_n, 0);
        s->steps++;
        Node *const a = &node[e.at];
        if (a->id < 0 || a->priority != e.priority) continue;
        const int32_t gone = a->next;
        a->id = a->result;
        a->next = node[gone].next;
        node[gone].id = -1;
        if (a->next >= 0) node[a->next].prev = e.at;
        const int32_t changed[2] = {e.at, a->prev};
        for (int k = 0; k < 2; k++)
            if (changed[k] >= 0 && node_pair(t, node, changed[k])) {
                DASSERT(heap_n < s->heap_cap, "heap of %lld", (long long)s->heap_cap);
                heap[heap_n] = (HeapEntry){node[changed[k]].priority, changed[k]};
                sift_up(heap, heap_n++);
            }
    }
    for (int32_t i = 0; i >= 0; i = node[i].next) TRY(token_ids_push(out, node[i].id, err));
    return ERR_NONE;
}

// Of the tokens from out->id[first] on, that n bytes merged to, keeps those of about the first
// `want` bytes. Returns the bytes kept; 0 when that is less than half.
static int64_t keep(const Tokenizer *t, TokenIds *out, int64_t first, int64_t n, int64_t want)
{
    int64_t last = out->n, left = n;
    while (last > first && left > want) left -= t->token[out->id[--last]].bytes;
    if (left < n / 2) return 0;
    out->n = last;
    return left;
}

// All of the piece in windows of `window` bytes; *joined == false when these do not fit together.
static Status merge_windows(const Tokenizer *t, const uint8_t *bytes, int64_t n, int64_t window,
                            BpeScratch *s, TokenIds *out, bool *joined, Err *err)
{
    int32_t expected = -1; // the token at the start of the window, as the last one had it
    *joined = false;
    for (int64_t at = 0;;) {
        const int64_t first = out->n, w = LT_MIN(window, n - at);
        TRY(merge_window(t, bytes + at, w, s, out, err));
        if (expected >= 0 && out->id[first] != expected) return ERR_NONE;
        if (at + w == n) break;
        const int64_t kept = keep(t, out, first, w, w - w / DROPPED);
        if (kept == 0) return ERR_NONE;
        expected = out->id[out->n];
        at += kept;
    }
    *joined = true;
    return ERR_NONE;
}

Status bpe_merge(const Tokenizer *t, const uint8_t *bytes, int64_t n, BpeScratch *s, TokenIds *out,
                 Err *err)
{
    if (n <= SHORT) return merge_short(t, bytes, (int)n, out, err);
    const int64_t first = out->n;
    bool joined = false;
    for (int64_t window = WINDOW; !joined; window *= 2) {
        if (LT_MIN(window, n) > WORD_MAX)
            return err_set(err, ERR_UNSUPPORTED, "a piece of %lld bytes without a place to cut it",
                           (long long)n);
        out->n = first;
        TRY(merge_windows(t, bytes, n, window, s, out, &joined, err));
    }
    return ERR_NONE;
}
