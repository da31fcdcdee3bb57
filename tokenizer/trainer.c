// trainer.c -- tokenizer.h's training: takes text in stretches of any size, counts words on several
// threads, and has the counts made into a vocabulary.
//
// What arrives is copied into a batch of some megabytes. When that is full, its words are counted
// and forgotten, but for the end of an unfinished document behind the last place that is certainly
// a boundary between pieces: that end begins the next batch. Each thread has a table of its own,
// and the tables are added up at last. So what is counted depends neither on how the text was
// handed over nor on the number of threads.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "tokenizer/tokenizer_impl.h"

#include <string.h>

// PART_BYTES: what a thread takes at a time.
enum { BATCH_BYTES = 8 << 20, PART_BYTES = 128 << 10, THREADS_MAX = 64 };

struct TokenizerTrainer {
    TokenizerKind kind;
    PretokenPattern pattern;
    int64_t vocab_size;
    int threads;
    uint64_t bytes; // taken so far
    Buf text;       // the batch
    size_t limit;   // a batch of so many bytes is counted
    size_t *end;    // where the documents in the batch end
    int64_t ends, ends_cap;
    WordCount *words; // [threads]
    CharSet *chars;
};

typedef struct Batch { // shared by the threads that count one
    TokenizerTrainer *r;
    Mutex lock;
    size_t at;    // not taken yet
    int64_t next; // end[next] is the first document end behind `at`
    Status status;
    Err err;
} Batch;

typedef struct Counter { // one thread
    Batch *batch;
    WordCount *words;
    Thread thread;
} Counter;

static Status check_how(const TokenizerTrain *how, TokenizerKind *kind, PretokenPattern *pattern,
                        Err *err)
{
    const bool word = strcmp(how->type, "wordpiece") == 0, bpe = strcmp(how->type, "bpe") == 0;
    *kind = word ? KIND_WORDPIECE : bpe ? KIND_BPE : KIND_CHAR;
    *pattern = word ? PRETOKEN_UNCASED : PRETOKEN_GPT2;
    if (!word && !bpe && strcmp(how->type, "char") != 0)
        return err_set(err, ERR_USAGE, "no tokenizer of type \"%s\" can be trained", how->type);
    if (!word && !bpe) return ERR_NONE;
    if (how->pattern && *how->pattern) {
        if (!pretoken_by_name(how->pattern, pattern))
            return err_set(err, ERR_USAGE, "no pattern is called \"%s\"", how->pattern);
        if (pretoken_is_bert(*pattern) != word)
            return err_set(err, ERR_USAGE, "the pattern \"%s\" is not one for %s: %s", how->pattern,
                           how->type,
                           word ? "uncased, cased and lower are" : "gpt2 and cl100k are");
    }
    return word ? wordpiece_check_size(how->vocab_size, err) : bpe_check_size(how->vocab_size, err);
}

Status tokenizer_trainer_open(TokenizerTrainer **out, const TokenizerTrain *how, Err *err)
{
    *out = NULL;
    TokenizerKind kind;
    PretokenPattern pattern;
    TRY(check_how(how, &kind, &pattern, err));
    TokenizerTrainer *r = mem_calloc(1, sizeof *r);
    if (!r) return mem_err(err, sizeof *r, "a tokenizer");
    r->kind = kind;
    r->pattern = pattern;
    r->vocab_size = how->vocab_size;
    r->threads = LT_MIN(LT_MAX(how->threads, 1), (int)THREADS_MAX);
    r->limit = BATCH_BYTES;
    r->words = mem_calloc((size_t)r->threads, sizeof *r->words);
    r->chars = kind == KIND_CHAR ? mem_calloc(1, sizeof *r->chars) : NULL;
    if (!r->words || (kind == KIND_CHAR && !r->chars)) {
        tokenizer_trainer_close(r);
        return mem_err(err, sizeof *r->chars, "a tokenizer");
    }
    *out = r;
    return ERR_NONE;
}

void tokenizer_trainer_close(TokenizerTrainer *r)
{
    if (!r) return;
    for (int i = 0; r->words && i < r->threads; i++) word_count_free(&r->words[i]);
    mem_free(r->words);
    mem_free(r->chars);
    mem_free(r->end);
    buf_free(&r->text);
    mem_free(r);
}

// Counting -------------------------------------------------------------------------------------

// Takes about PART_BYTES; false when all is taken. The part may hold several documents.
static bool take(Batch *b, size_t *from, size_t *to, int64_t *first)
{
    const TokenizerTrainer *r = b->r;
    const uint8_t *const text = (const uint8_t *)r->text.data;
    mutex_lock(&b->lock);
    const bool some = b->status == ERR_NONE && b->next < r->ends;
    if (some) {
        *from = b->at;
        *first = b->next;
        const size_t want = LT_MIN(b->at + PART_BYTES, r->end[r->ends - 1]);
        while (r->end[b->next] < want) b->next++;
        const uint8_t *cut = text + r->end[b->next];
        if (text + want < cut) cut = pretoken_cut(r->pattern, text, text + want, cut);
        b->at = *to = (size_t)(cut - text);
        if (b->at == r->end[b->next]) b->next++;
    }
    mutex_unlock(&b->lock);
    return some;
}

static void *count_parts(void *arg)
{
    const Counter *c = arg;
    Batch *const b = c->batch;
    const TokenizerTrainer *r = b->r;
    const uint8_t *const text = (const uint8_t *)r->text.data;
    size_t from, to;
    int64_t k;
    Err err;
    while (take(b, &from, &to, &k)) {
        Status s = ERR_NONE;
        err_clear(&err);
        for (; from < to && s == ERR_NONE; k++) {
            const size_t end = LT_MIN(to, r->end[k]);
            s = word_count_pieces(c->words, r->pattern, text + from, text + end, &err);
            from = end;
        }
        if (s == ERR_NONE) continue;
        mutex_lock(&b->lock);
        b->status = s;
        b->err = err;
        mutex_unlock(&b->lock);
    }
    return NULL;
}

// Counts the batch up to its last document end.
static Status count_words(TokenizerTrainer *r, Err *err)
{
    Batch batch = {.r = r};
    Counter counter[THREADS_MAX] = {{0}};
    mutex_init(&batch.lock);
    for (int i = 0; i < r->threads; i++) {
        counter[i].batch = &batch;
        counter[i].words = &r->words[i];
    }
    // A thread that cannot start is work for the others.
    for (int i = 1; i < r->threads; i++)
        if (thread_start(&counter[i].thread, count_parts, &counter[i], NULL) != ERR_NONE) break;
    count_parts(&counter[0]);
    for (int i = 1; i < r->threads; i++) thread_join(&counter[i].thread);
    mutex_destroy(&batch.lock);
    if (batch.status != ERR_NONE && err) *err = batch.err;
    return batch.status;
}

static Status end_here(TokenizerTrainer *r, size_t at, Err *err)
{
    if (r->ends > 0 ? r->end[r->ends - 1] >= at : at == 0) return ERR_NONE;
    if (r->ends == r->ends_cap) {
        const int64_t cap = LT_MAX(256, 2 * r->ends_cap);
        size_t *p = mem_realloc(r->end, (size_t)cap * sizeof *p);
        if (!p) return mem_err(err, (size_t)cap * sizeof *p, "the documents of a text");
        r->end = p;
        r->ends_cap = cap;
    }
    r->end[r->ends++] = at;
    return ERR_NONE;
}

// Counts the batch; what may go on in the next one is kept.
static Status count_batch(TokenizerTrainer *r, Err *err)
{
    const uint8_t *const text = (const uint8_t *)r->text.data, *const end = text + r->text.len;
    const uint8_t *const open = text + (r->ends ? r->end[r->ends - 1] : 0);
    const uint8_t *cut =
        r->kind == KIND_CHAR ? char_last_cut(open, end) : pretoken_last_cut(r->pattern, open, end);
    const size_t done = (size_t)(cut - text);
    TRY(end_here(r, done, err));
    if (r->kind != KIND_CHAR)
        TRY(count_words(r, err));
    else
        for (int64_t k = 0; k < r->ends; k++) {
            const size_t from = k ? r->end[k - 1] : 0;
            char_set_add(r->chars, text + from, r->end[k] - from);
        }
    r->ends = 0;
    r->text.len -= done;
    memmove(r->text.data, r->text.data + done, r->text.len);
    // A word as long as the batch is looked through again only when it is twice as long.
    r->limit = LT_MAX((size_t)BATCH_BYTES, 2 * r->text.len);
    return ERR_NONE;
}

Status tokenizer_trainer_add(TokenizerTrainer *r, const char *text, size_t bytes, bool more,
                             Err *err)
{
    r->bytes += bytes;
    while (bytes > 0) {
        const size_t n = LT_MIN(bytes, r->limit - r->text.len);
        TRY(buf_append(&r->text, text, n, err));
        text += n;
        bytes -= n;
        if (r->text.len == r->limit) TRY(count_batch(r, err));
    }
    return more ? ERR_NONE : end_here(r, r->text.len, err);
}

// The vocabulary -------------------------------------------------------------------------------

Status tokenizer_trainer_finish(TokenizerTrainer *r, const OnProgress *on, Tokenizer **out,
                                Err *err)
{
    *out = NULL;
    if (r->bytes == 0) return err_set(err, ERR_FORMAT, "there is no text to train a tokenizer on");
    TRY(end_here(r, r->text.len, err));
    TRY(count_batch(r, err));
    buf_free(&r->text);
    if (r->kind == KIND_CHAR) return char_train(out, r->chars, err);
    for (int i = 1; i < r->threads; i++) {
        TRY(word_count_join(&r->words[0], &r->words[i], err));
        word_count_free(&r->words[i]);
    }
    if (r->kind == KIND_WORDPIECE)
        return wordpiece_train(out, r->pattern, r->vocab_size, &r->words[0], on, err);
    return bpe_train(out, r->pattern, r->vocab_size, &r->words[0], on, NULL, err);
}

Status tokenizer_train(Tokenizer **out, const TokenizerTrain *how, const char *text, size_t bytes,
                       Err *err)
{
    *out = NULL;
    TokenizerTrainer *r = NULL;
    TRY(tokenizer_trainer_open(&r, how, err));
    Status s = tokenizer_trainer_add(r, text, bytes, false, err);
    if (s == ERR_NONE) s = tokenizer_trainer_finish(r, NULL, out, err);
    tokenizer_trainer_close(r);
    return s;
}
