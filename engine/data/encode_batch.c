// encode_batch.c -- see encode_batch.h.
//
// SPDX-License-Identifier: MIT
#include "engine/data/encode_batch.h"
#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"

#include <stdio.h>
#include <string.h>

// TAKE: documents a thread takes at a time. KEEP_IDS: a longer list is given back after each batch.
enum { MAX_THREADS = 64, TAKE = 16, KEEP_IDS = 4096 };

Status encode_batch_init(EncodeBatch *b, const Tokenizer *t, bool allow_special, int threads,
                         Err *err)
{
    *b = (EncodeBatch){.tokenizer = t, .allow_special = allow_special, .threads = threads};
    b->doc = mem_calloc(BATCH_DOCUMENTS, sizeof *b->doc);
    return b->doc ? ERR_NONE : mem_err(err, BATCH_DOCUMENTS * sizeof *b->doc, "a batch");
}

bool encode_batch_fits(const EncodeBatch *b, const TextDocument *d)
{
    if (b->n == 0) return true;
    return b->n < BATCH_DOCUMENTS && b->text.len + d->bytes + d->completion_bytes <= BATCH_BYTES;
}

Status encode_batch_add(EncodeBatch *b, const TextDocument *d, Err *err)
{
    ASSERT(encode_batch_fits(b, d), "batch of %d documents is full", b->n);
    EncodedDocument *e = &b->doc[b->n];
    e->at              = b->text.len;
    e->bytes           = d->bytes;
    e->pair            = d->completion != NULL;
    e->pair_bytes      = d->completion_bytes;
    e->ids.n           = 0;
    e->prompt_ids      = 0;
    // The end of a long path says more than its beginning.
    char      line[32] = "";
    const int file     = (int)strlen(d->file);
    const int room     = (int)sizeof e->place - (int)sizeof line;
    if (d->line) snprintf(line, sizeof line, ":%lld", (long long)d->line);
    snprintf(e->place, sizeof e->place, "%.*s%s", room, d->file + LT_MAX(file - room, 0), line);
    const bool large = d->bytes + d->completion_bytes > BATCH_BYTES;
    e->borrowed[0]   = large ? d->text : NULL;
    e->borrowed[1]   = large ? d->completion : NULL;
    if (!large) TRY(buf_append(&b->text, d->text, d->bytes, err));
    if (!large && e->pair) TRY(buf_append(&b->text, d->completion, d->completion_bytes, err));
    b->n++;
    return ERR_NONE;
}

bool encode_batch_borrows(const EncodeBatch *b) { return b->n == 1 && b->doc[0].borrowed[0]; }

static Status encode(const EncodeBatch *b, EncodedDocument *e, int threads, Err *err)
{
    const char   *copied = b->text.data ? b->text.data + e->at : "";
    const char   *text   = e->borrowed[0] ? e->borrowed[0] : copied;
    const char   *pair   = e->borrowed[1] ? e->borrowed[1] : copied + e->bytes;
    const int32_t end    = b->bare ? -1 : tokenizer_end_token(b->tokenizer);
    Status        s      = tokenizer_encode(b->tokenizer, text, e->bytes, b->allow_special, threads,
                                            &e->ids, err);
    e->prompt_ids = e->pair ? e->ids.n : 0;
    if (s == ERR_NONE && e->pair)
        s = tokenizer_encode(b->tokenizer, pair, e->pair_bytes, b->allow_special, threads, &e->ids,
                             err);
    if (s == ERR_NONE && end >= 0) s = token_ids_push(&e->ids, end, err);
    if (s != ERR_NONE) return err_add(err, s, "encoding %s", e->place);
    return ERR_NONE;
}

typedef struct Crew { // shared by the threads of one run
    EncodeBatch *batch;
    Mutex        lock;
    int          next;   // document to take
    int          failed; // the first document that failed; batch->n: none
    Status       status;
    Err         *err; // of document `failed`
} Crew;

static void *work(void *arg)
{
    Crew *c = arg;
    Err   err;
    for (;;) {
        mutex_lock(&c->lock);
        const int from = c->next;
        const int to   = LT_MIN(from + TAKE, c->batch->n);
        c->next        = to;
        mutex_unlock(&c->lock);
        if (from >= to) return NULL;
        for (int i = from; i < to; i++) {
            err_clear(&err);
            const Status s = encode(c->batch, &c->batch->doc[i], 1, &err);
            if (s == ERR_NONE) continue;
            mutex_lock(&c->lock);
            if (i < c->failed) {
                c->failed = i;
                c->status = s;
                if (c->err) *c->err = err;
            }
            c->next = c->batch->n; // those before i are taken already
            mutex_unlock(&c->lock);
            return NULL;
        }
    }
}

Status encode_batch_run(EncodeBatch *b, Err *err)
{
    if (b->n == 0) return ERR_NONE;
    if (b->n == 1) return encode(b, &b->doc[0], b->threads, err);
    Crew crew = {.batch = b, .failed = b->n, .err = err};
    mutex_init(&crew.lock);
    Thread    thread[MAX_THREADS] = {0};
    const int helpers = LT_MIN(LT_MIN(b->threads, (b->n + TAKE - 1) / TAKE), (int)MAX_THREADS) - 1;
    // A thread that cannot start is work for the others.
    for (int i = 0; i < helpers; i++)
        if (thread_start(&thread[i], work, &crew, NULL) != ERR_NONE) break;
    (void)work(&crew);
    for (int i = 0; i < helpers; i++) thread_join(&thread[i]);
    mutex_destroy(&crew.lock);
    return crew.status;
}

void encode_batch_clear(EncodeBatch *b)
{
    for (int i = 0; i < b->n; i++)
        if (b->doc[i].ids.cap > KEEP_IDS) token_ids_free(&b->doc[i].ids);
    b->n = 0;
    buf_clear(&b->text);
}

void encode_batch_free(EncodeBatch *b)
{
    if (b->doc)
        for (int i = 0; i < BATCH_DOCUMENTS; i++) token_ids_free(&b->doc[i].ids);
    mem_free(b->doc);
    buf_free(&b->text);
    *b = (EncodeBatch){0};
}
