// stream.c -- see stream.h.
//
//     global index --mixture--> source, its count --shuffle--> block of the source --corpus--> ids
//
// Batches are made by one thread into a ring of SLOTS; the consumer holds one slot, so that two
// batches are ready ahead of it. A seek raises `generation`; what the thread was making for an
// older one is dropped.
//
// SPDX-License-Identifier: MIT
#include "engine/data/stream.h"
#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "engine/data/corpus.h"
#include "engine/data/order.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 3 };

typedef struct Source {
    Corpus   corpus;
    double   weight;
    int64_t  samples; // an epoch
    Shuffle  shuffle; // of `epoch`; used by the prefetch thread alone
    int64_t  epoch;   // -1: none yet
} Source;

typedef struct Slot {
    StreamBatch batch;
    int32_t    *input, *target, *position, *seg_lo;
    int64_t    *sample;
} Slot;

struct Stream {
    StreamOptions o; // o.data is not kept
    Source       *source;
    int           sources;
    int64_t       samples[ORDER_MAX_SOURCES]; // an epoch, of each source
    Mixture       mixture;
    int64_t       epoch_samples; // of all sources
    int32_t      *ids;           // [T + 1], the prefetch thread's
    Slot          slot[SLOTS];
    StreamInfo    info;
    int64_t       told; // stream_tell

    Thread   thread;
    Mutex    lock; // guards what follows
    Cond     changed;
    int      head;   // slot to hand out next
    int      filled; // slots ready, from head on
    bool     held;   // the slot before head is the caller's
    bool     quit;
    int64_t  fill_at; // global position of the batch to make next
    uint64_t generation;
    Status   status; // of the batch at fill_at
    Err      err;
};

// ---------------------------------------------------------------- one sample

// Where sample `global` lies: its source and its first token.
static Source *locate(Stream *s, int64_t global, int64_t *at)
{
    if (!s->o.shuffle) {
        const MixtureAt m = interleave_at(s->samples, s->sources, global);
        *at               = (int64_t)m.count * s->o.block_size;
        return &s->source[m.source];
    }
    const MixtureAt m     = mixture_at(&s->mixture, (uint64_t)global);
    Source         *src   = &s->source[m.source];
    const int64_t   count = (int64_t)m.count, epoch = count / src->samples;
    if (epoch != src->epoch) {
        shuffle_init(&src->shuffle, s->o.seed, (uint64_t)epoch, (uint32_t)m.source,
                     (uint64_t)src->samples);
        src->epoch = epoch;
    }
    *at = (int64_t)shuffle_at(&src->shuffle, (uint64_t)(count % src->samples)) * s->o.block_size;
    return src;
}

// Positions, first visible keys, and targets that would cross into a new document.
static void mask_documents(const Stream *s, const Corpus *c, int64_t at, Slot *slot, int64_t row)
{
    const int64_t T        = s->o.block_size;
    int32_t      *target   = slot->target + row * T;
    int32_t      *position = slot->position + row * T;
    int32_t      *seg_lo   = slot->seg_lo + row * T;
    int64_t       next     = corpus_documents_until(c, at); // the first that begins behind `at`
    int32_t       lo       = 0;
    for (int64_t t = 0; t < T; t++) {
        const bool more = next < c->documents;
        if (more && (int64_t)c->document[next] == at + t) {
            lo = (int32_t)t;
            next++;
        }
        position[t] = (int32_t)t - lo;
        seg_lo[t]   = lo;
        if (next < c->documents && (int64_t)c->document[next] == at + t + 1)
            target[t] = TOKEN_IGNORE;
    }
}

static Status make_sample(Stream *s, int64_t global, Slot *slot, int64_t row, Err *err)
{
    const int64_t T = s->o.block_size;
    int64_t       at;
    const Source *src = locate(s, global, &at);
    TRY_CTX(corpus_read(&src->corpus, at, T + 1, s->o.vocab_size, s->ids, err), err,
            "reading sample %" PRId64, global);
    int32_t *target = slot->target + row * T;
    memcpy(slot->input + row * T, s->ids, (size_t)T * sizeof *s->ids);
    memcpy(target, s->ids + 1, (size_t)T * sizeof *s->ids);
    if (s->o.document_mask) mask_documents(s, &src->corpus, at, slot, row);
    if (s->o.completion_only)
        for (int64_t t = 0; t < T; t++)
            if (!corpus_counts(&src->corpus, at + t + 1)) target[t] = TOKEN_IGNORE;
    for (int64_t t = 0; t < T; t++) slot->batch.counted += target[t] != TOKEN_IGNORE;
    slot->sample[row] = global;
    return ERR_NONE;
}

// This rank's samples of the batch at global position `at`.
static Status make_batch(Stream *s, int64_t at, Slot *slot, Err *err)
{
    const int64_t first = at + s->o.rank * s->o.batch;
    int64_t       n     = s->o.batch;
    if (!s->o.shuffle) n = LT_MAX(LT_MIN(n, s->epoch_samples - first), (int64_t)0);
    slot->batch = (StreamBatch){.samples  = n,
                                .input    = slot->input,
                                .target   = slot->target,
                                .position = slot->position,
                                .seg_lo   = slot->seg_lo,
                                .sample   = slot->sample};
    for (int64_t i = 0; i < n; i++) TRY(make_sample(s, first + i, slot, i, err));
    return ERR_NONE;
}

// ---------------------------------------------------------------- the prefetch thread

static int64_t position_after(const Stream *s, int64_t at)
{
    const int64_t next = at + s->o.batch * s->o.ranks;
    return s->o.shuffle ? next : LT_MIN(next, s->epoch_samples);
}

static bool has_work(const Stream *s)
{
    const bool room = s->filled + s->held < SLOTS;
    const bool more = s->o.shuffle || s->fill_at < s->epoch_samples;
    return room && more && s->status == ERR_NONE;
}

static void *prefetch(void *arg)
{
    Stream *s = arg;
    Err     err;
    mutex_lock(&s->lock);
    for (;;) {
        while (!s->quit && !has_work(s)) cond_wait(&s->changed, &s->lock);
        if (s->quit) break;
        Slot          *slot       = &s->slot[(s->head + s->filled) % SLOTS];
        const int64_t  at         = s->fill_at;
        const uint64_t generation = s->generation;
        mutex_unlock(&s->lock);
        err_clear(&err);
        const Status status = make_batch(s, at, slot, &err);
        mutex_lock(&s->lock);
        if (generation != s->generation) continue;
        if (status != ERR_NONE) {
            s->status = status;
            s->err    = err;
        } else {
            s->filled++;
            s->fill_at = position_after(s, at);
        }
        cond_broadcast(&s->changed);
    }
    mutex_unlock(&s->lock);
    return NULL;
}

Status stream_next(Stream *s, StreamBatch *out, Err *err)
{
    *out = (StreamBatch){0};
    if (!s->o.shuffle && s->told >= s->epoch_samples) return ERR_NONE;
    mutex_lock(&s->lock);
    s->held = false;
    cond_broadcast(&s->changed);
    while (s->filled == 0 && s->status == ERR_NONE) cond_wait(&s->changed, &s->lock);
    const Status status = s->filled > 0 ? ERR_NONE : s->status;
    if (status == ERR_NONE) {
        *out    = s->slot[s->head].batch;
        s->head = (s->head + 1) % SLOTS;
        s->filled--;
        s->held = true;
        s->told = position_after(s, s->told);
    } else if (err) {
        *err = s->err;
    }
    mutex_unlock(&s->lock);
    return status;
}

Status stream_seek(Stream *s, int64_t global_samples, Err *err)
{
    if (global_samples < 0)
        return err_set(err, ERR_USAGE, "data position %" PRId64 " is negative", global_samples);
    if (!s->o.shuffle && global_samples > s->epoch_samples)
        return err_set(err, ERR_USAGE, "data position %" PRId64 " is behind the last of %" PRId64
                                       " samples",
                       global_samples, s->epoch_samples);
    mutex_lock(&s->lock);
    s->generation++;
    s->filled  = 0;
    s->status  = ERR_NONE;
    s->fill_at = s->told = global_samples;
    cond_broadcast(&s->changed);
    mutex_unlock(&s->lock);
    return ERR_NONE;
}

int64_t stream_tell(const Stream *s) { return s->told; }

void stream_info(const Stream *s, StreamInfo *out) { *out = s->info; }

// ---------------------------------------------------------------- open

static bool parse_weight(const char *text, size_t n, double *weight)
{
    char copy[32];
    if (n == 0 || n >= sizeof copy) return false;
    memcpy(copy, text, n);
    copy[n] = 0;
    char *end;
    *weight = strtod(copy, &end);
    return *end == 0 && isfinite(*weight) && *weight > 0;
}

static Status open_source(Stream *s, const char *path, double weight, Err *err)
{
    Source *src = &s->source[s->sources];
    src->weight = weight;
    src->epoch  = -1;
    TRY(corpus_open(&src->corpus, path, s->o.split == STREAM_VAL, err));
    s->sources++;
    return ERR_NONE;
}

// "A:0.7,B:0.3"; text that names something there is one source, whatever is in its name.
static Status open_sources(Stream *s, const char *data, Err *err)
{
    const char *colon = strrchr(data, ':');
    double      weight;
    if (file_exists(data) || !colon) return open_source(s, data, 1, err);
    for (const char *p = data; *p;) {
        const size_t n    = strcspn(p, ",");
        const char  *mark = memrchr(p, ':', n);
        char         path[PATH_CAP];
        if (!mark || mark == p || mark - p >= PATH_CAP ||
            !parse_weight(mark + 1, n - (size_t)(mark + 1 - p), &weight)) {
            const Status bad = err_set(
                err, ERR_USAGE, "data=%s: \"%.*s\" is not FOLDER:WEIGHT with a weight above 0",
                data, (int)LT_MIN(n, (size_t)200), p);
            err_hint(err, "a mixture is --data=A:0.7,B:0.3");
            return bad;
        }
        if (s->sources == ORDER_MAX_SOURCES)
            return err_set(err, ERR_USAGE, "data: more than %d sources", ORDER_MAX_SOURCES);
        memcpy(path, p, (size_t)(mark - p));
        path[mark - p] = 0;
        TRY(open_source(s, path, weight, err));
        p += n + (p[n] == ',');
    }
    return ERR_NONE;
}

static const char *split_word(const Stream *s)
{
    return s->o.split == STREAM_VAL ? "val" : "train";
}

static Status check_source(const Stream *s, Source *src, Err *err)
{
    const Corpus *c = &src->corpus;
    src->samples    = (c->tokens - 1) / s->o.block_size;
    if (src->samples < 1) {
        const Status bad = err_set(err, ERR_USAGE,
                                   "%s: its %s split has %" PRId64 " token%s, but a block_size of "
                                   "%" PRId64 " needs %" PRId64,
                                   c->path, split_word(s), c->tokens, plural_s(c->tokens),
                                   s->o.block_size, s->o.block_size + 1);
        err_hint(err, "more text, a smaller block_size%s",
                 s->o.split == STREAM_VAL ? ", or a larger val_fraction" : "");
        return bad;
    }
    if (c->has_meta && s->o.vocab_size > 0 && c->meta.vocab_size > s->o.vocab_size) {
        const Status bad = err_set(err, ERR_USAGE, "%s: made with a vocabulary of %" PRId64 " ids, "
                                                   "but the model has %" PRId64,
                                   c->path, c->meta.vocab_size, s->o.vocab_size);
        err_hint(err, "make the data with the model's tokenizer: lathe data --tokenizer=");
        return bad;
    }
    if (s->o.document_mask && !c->document) {
        const Status bad = err_set(err, ERR_USAGE, "%s: data.document_mask needs to know where "
                                                   "documents begin, and these files do not say",
                                   c->path);
        err_hint(err, "lathe data keeps a document index; MMIDIDX files have one, too");
        return bad;
    }
    return ERR_NONE;
}

static Status check_together(const Stream *s, Err *err)
{
    const Corpus *known = NULL;
    bool          pairs = false;
    for (int k = 0; k < s->sources; k++) {
        const Corpus *c = &s->source[k].corpus;
        pairs |= c->mask != NULL;
        if (!c->has_meta) continue;
        if (known && known->meta.tokenizer != c->meta.tokenizer)
            return err_set(err, ERR_USAGE, "%s and %s were made with different tokenizers "
                                           "(fingerprints %016" PRIx64 " and %016" PRIx64 ")",
                           known->path, c->path, known->meta.tokenizer, c->meta.tokenizer);
        known = c;
    }
    if (s->o.completion_only && !pairs) {
        const Status bad = err_set(err, ERR_USAGE, "%s: loss.mask=completion, but its %s split has "
                                                   "no prompt/completion data",
                                   s->source[0].corpus.path, split_word(s));
        err_hint(err, "jsonl lines {\"prompt\": ..., \"completion\": ...} make such data");
        return bad;
    }
    return ERR_NONE;
}

static void fill_info(Stream *s)
{
    StreamInfo *info       = &s->info;
    double      text_bytes = 0;
    bool        measured   = true;
    for (int k = 0; k < s->sources; k++) {
        const Source *src = &s->source[k];
        const Corpus *c   = &src->corpus;
        info->tokens += c->tokens;
        info->documents += c->documents;
        info->samples_an_epoch += src->samples;
        s->samples[k] = src->samples;
        info->dropped_tokens += c->tokens - 1 - src->samples * s->o.block_size;
        measured &= c->has_meta;
        if (!c->has_meta) continue;
        text_bytes += (double)c->meta.split[c->split].text_bytes;
        if (info->tokenizer_dir[0]) continue;
        info->vocab_size = c->meta.vocab_size;
        info->tokenizer  = c->meta.tokenizer;
        snprintf(info->tokenizer_dir, sizeof info->tokenizer_dir, "%s", c->path);
    }
    if (measured) info->bytes_per_token = text_bytes / (double)info->tokens;
    s->epoch_samples = info->samples_an_epoch;
}

static Status take_memory(Stream *s, Err *err)
{
    const int64_t T = s->o.block_size, S = s->o.batch;
    ASSERT(T <= INT32_MAX && S <= (int64_t)1 << 40 && S * T <= (int64_t)1 << 48, "batch too large");
    const size_t array = (size_t)(S * T) * sizeof(int32_t);
    s->ids             = mem_alloc((size_t)(T + 1) * sizeof *s->ids);
    bool all           = s->ids != NULL;
    for (int i = 0; i < SLOTS; i++) {
        Slot *slot   = &s->slot[i];
        slot->input  = mem_alloc(array);
        slot->target = mem_alloc(array);
        slot->sample = mem_alloc((size_t)S * sizeof *slot->sample);
        all &= slot->input && slot->target && slot->sample;
        if (!s->o.document_mask) continue;
        slot->position = mem_alloc(array);
        slot->seg_lo   = mem_alloc(array);
        all &= slot->position && slot->seg_lo;
    }
    return all ? ERR_NONE : mem_err(err, array * 4 * SLOTS, "the batches of the data stream");
}

static Status prepare(Stream *s, const char *data, Err *err)
{
    if (!data || !data[0]) return err_set(err, ERR_USAGE, "no data given (--data=FOLDER)");
    s->source = mem_calloc(ORDER_MAX_SOURCES, sizeof *s->source);
    if (!s->source) return mem_err(err, ORDER_MAX_SOURCES * sizeof *s->source, "the data sources");
    TRY(open_sources(s, data, err));
    for (int k = 0; k < s->sources; k++) TRY(check_source(s, &s->source[k], err));
    TRY(check_together(s, err));
    double weights[ORDER_MAX_SOURCES];
    for (int k = 0; k < s->sources; k++) weights[k] = s->source[k].weight;
    mixture_init(&s->mixture, weights, s->sources, s->o.seed);
    fill_info(s);
    TRY(take_memory(s, err));
    return thread_start(&s->thread, prefetch, s, err);
}

Status stream_open(Stream **out, const StreamOptions *o, Err *err)
{
    ASSERT(o->block_size > 0 && o->batch > 0, "block_size %" PRId64 ", batch %" PRId64,
           o->block_size, o->batch);
    ASSERT(o->ranks > 0 && o->rank >= 0 && o->rank < o->ranks, "rank %d of %d", o->rank, o->ranks);
    *out      = NULL;
    Stream *s = mem_calloc(1, sizeof *s);
    if (!s) return mem_err(err, sizeof *s, "the data stream");
    s->o      = *o;
    s->o.data = NULL;
    mutex_init(&s->lock);
    cond_init(&s->changed);
    const Status status = prepare(s, o->data, err);
    if (status != ERR_NONE) {
        stream_close(s);
        return status;
    }
    *out = s;
    return ERR_NONE;
}

void stream_close(Stream *s)
{
    if (!s) return;
    mutex_lock(&s->lock);
    s->quit = true;
    cond_broadcast(&s->changed);
    mutex_unlock(&s->lock);
    thread_join(&s->thread);
    cond_destroy(&s->changed);
    mutex_destroy(&s->lock);
    for (int k = 0; k < s->sources; k++) corpus_close(&s->source[k].corpus);
    mem_free(s->source);
    for (int i = 0; i < SLOTS; i++) {
        mem_free(s->slot[i].input);
        mem_free(s->slot[i].target);
        mem_free(s->slot[i].position);
        mem_free(s->slot[i].seg_lo);
        mem_free(s->slot[i].sample);
    }
    mem_free(s->ids);
    mem_free(s);
}
