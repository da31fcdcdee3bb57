// word_count.c -- see word_count.h. Each thread counts a stretch of the text into a table of its
// own; the tables are added up. The counts, as a set, do not depend on the number of threads.
//
// SPDX-License-Identifier: MIT
#include "tokenizer/word_count.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "tokenizer/tokenizer_impl.h"

#include <string.h>

enum { THREADS_MAX = 64, BATCH = 256 };

void word_count_free(WordCount *w)
{
    mem_free(w->word);
    mem_free(w->slot);
    *w = (WordCount){0};
}

static Status grow(WordCount *w, Err *err)
{
    const int64_t cap = LT_MAX(4096, 2 * w->cap);
    const size_t slots = 2 * (size_t)cap;
    Word *word = mem_realloc(w->word, (size_t)cap * sizeof *word);
    if (!word) return mem_err(err, (size_t)cap * sizeof *word, "a table of words");
    w->word = word;
    w->cap = cap;
    int64_t *slot = mem_alloc(slots * sizeof *slot);
    if (!slot) return mem_err(err, slots * sizeof *slot, "a table of words");
    mem_free(w->slot);
    memset(slot, 0xFF, slots * sizeof *slot);
    w->slot = slot;
    w->slot_mask = slots - 1;
    for (int64_t k = 0; k < w->n; k++) {
        uint64_t i = hash_bytes(word[k].text, (size_t)word[k].bytes) & w->slot_mask;
        while (slot[i] >= 0) i = (i + 1) & w->slot_mask;
        slot[i] = k;
    }
    return ERR_NONE;
}

static Status add(WordCount *w, const uint8_t *text, int64_t bytes, int64_t count, Err *err)
{
    if (w->n == w->cap) TRY(grow(w, err));
    uint64_t i = hash_bytes(text, (size_t)bytes) & w->slot_mask;
    for (; w->slot[i] >= 0; i = (i + 1) & w->slot_mask) {
        Word *k = &w->word[w->slot[i]];
        if (k->bytes == bytes && memcmp(k->text, text, (size_t)bytes) == 0) {
            k->count += count;
            return ERR_NONE;
        }
    }
    w->slot[i] = w->n;
    w->word[w->n++] = (Word){text, bytes, count};
    return ERR_NONE;
}

typedef struct Job {
    Thread thread;
    PretokenPattern pattern;
    const uint8_t *text, *end;
    WordCount words;
    Status status;
    Err err;
} Job;

static void *count_job(void *arg)
{
    Job *const j = arg;
    const uint8_t *at = j->text, *piece = j->text, *ends[BATCH];
    for (int n; (n = pretoken_scan(j->pattern, &at, j->end, ends, BATCH)) > 0;)
        for (int i = 0; i < n; i++) {
            j->status = add(&j->words, piece, ends[i] - piece, 1, &j->err);
            if (j->status != ERR_NONE) return NULL;
            piece = ends[i];
        }
    return NULL;
}

Status word_count_text(WordCount *w, PretokenPattern pattern, const uint8_t *text, size_t bytes,
                       int threads, Err *err)
{
    threads = LT_MIN(LT_MAX(threads, 1), THREADS_MAX);
    Job *job = mem_calloc((size_t)threads, sizeof *job);
    if (!job) return mem_err(err, (size_t)threads * sizeof *job, "threads");
    const uint8_t *const end = text + bytes, *from = text;
    for (int i = 0; i < threads; i++) {
        const uint8_t *to =
            i + 1 == threads ? end : text + bytes / (size_t)threads * (size_t)(i + 1);
        if (to < from) to = from;
        if (to < end) to = pretoken_cut(pattern, text, to, end);
        job[i].pattern = pattern;
        job[i].text = from;
        job[i].end = to;
        from = to;
    }
    Status s = ERR_NONE;
    for (int i = 1; i < threads && s == ERR_NONE; i++)
        s = thread_start(&job[i].thread, count_job, &job[i], err);
    if (s == ERR_NONE) count_job(&job[0]);
    for (int i = 1; i < threads; i++) thread_join(&job[i].thread);
    for (int i = 0; i < threads && s == ERR_NONE; i++) {
        s = job[i].status;
        if (s != ERR_NONE && err) *err = job[i].err;
        for (int64_t k = 0; k < job[i].words.n && s == ERR_NONE; k++) {
            const Word *m = &job[i].words.word[k];
            s = add(w, m->text, m->bytes, m->count, err);
        }
    }
    for (int i = 0; i < threads; i++) word_count_free(&job[i].words);
    mem_free(job);
    return s;
}
