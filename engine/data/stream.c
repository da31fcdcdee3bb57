// stream.c -- see stream.h.
//
//     global index --mixture--> source, its count --shuffle--> sample of the source --kind--> rows
//
// What a sample is, is the kind's (sample.h). Batches are made by one thread into a ring of SLOTS;
// the consumer holds one slot, so that two batches are ready ahead of it. A seek raises
// `generation`; what the thread was making for an older one is dropped.
//
// SPDX-License-Identifier: MIT
#include "engine/data/stream.h"
#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "engine/data/corpus.h"
#include "engine/data/examples.h"
#include "engine/data/order.h"
#include "engine/data/sample.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 3 };

typedef struct Source {
    SampleSource made;
    double weight;
    Shuffle shuffle; // of `epoch`; used by the prefetch thread alone
    int64_t epoch;   // -1: none yet
} Source;

typedef struct Slot {
    StreamBatch batch; // its arrays are those of `rows`
    SampleRow rows;    // the first sample's; owned: memory
    int64_t *sample;
    int32_t *memory;
} Slot;

struct Stream {
    StreamOptions o; // o.data is not kept
    bool facts;      // the files are only looked at
    const SampleKind *kind;
    SampleShape shape;
    Source *source;
    int sources;
    int64_t samples[ORDER_MAX_SOURCES]; // an epoch, of each source
    Mixture mixture;
    int64_t epoch_samples; // of all sources
    Slot slot[SLOTS];
    StreamInfo info;
    int64_t told; // stream_tell

    Thread thread;
    Mutex lock; // guards what follows
    Cond changed;
    int head;   // slot to hand out next
    int filled; // slots ready, from head on
    bool held;  // the slot before head is the caller's
    bool quit;
    int64_t fill_at; // global position of the batch to make next
    uint64_t generation;
    Status status; // of the batch at fill_at
    Err err;
};

// ---------------------------------------------------------------- one batch

// Where sample `global` lies: its source, and which of its samples it is.
static const Source *locate(Stream *s, int64_t global, SampleAt *at)
{
    if (!s->o.shuffle) {
        const MixtureAt m = interleave_at(s->samples, s->sources, global);
        *at = (SampleAt){0, (int64_t)m.count};
        return &s->source[m.source];
    }
    const MixtureAt m = mixture_at(&s->mixture, (uint64_t)global);
    Source *src = &s->source[m.source];
    const int64_t n = s->samples[m.source], count = (int64_t)m.count;
    at->epoch = count / n;
    if (at->epoch != src->epoch) {
        shuffle_init(&src->shuffle, s->o.seed, (uint64_t)at->epoch, (uint32_t)m.source,
                     (uint64_t)n);
        src->epoch = at->epoch;
    }
    at->index = (int64_t)shuffle_at(&src->shuffle, (uint64_t)(count % n));
    return src;
}

static int32_t *behind(int32_t *array, int64_t n)
{
    return array ? array + n : NULL;
}

static SampleRow row_of(const Stream *s, const Slot *slot, int64_t i)
{
    const SampleRow *r = &slot->rows;
    const int64_t t = i * s->o.block_size, p = i * s->shape.picks, q = i * s->shape.seqs;
    return (SampleRow){.input = behind(r->input, t),
                       .target = behind(r->target, t),
                       .position = behind(r->position, t),
                       .seg_lo = behind(r->seg_lo, t),
                       .type = behind(r->type, t),
                       .seg_hi = behind(r->seg_hi, t),
                       .pick_row = behind(r->pick_row, p),
                       .pick_target = behind(r->pick_target, p),
                       .seq_row = behind(r->seq_row, q),
                       .seq_target = behind(r->seq_target, q),
                       .span_target = behind(r->span_target, 2 * i)};
}

static Status make_sample(Stream *s, int64_t global, Slot *slot, int64_t i, Err *err)
{
    SampleAt at;
    const Source *src = locate(s, global, &at);
    SampleRow row = row_of(s, slot, i);
    TRY_CTX(s->kind->make(&src->made, &at, &row, err), err, "reading sample %" PRId64, global);
    slot->batch.counted += row.counted;
    slot->batch.tokens += row.tokens;
    slot->batch.counted_seqs += row.counted_seqs;
    slot->batch.sequences += row.sequences;
    slot->sample[i] = global;
    return ERR_NONE;
}

// This rank's samples of the batch at global position `at`.
static Status make_batch(Stream *s, int64_t at, Slot *slot, Err *err)
{
    const int64_t first = at + s->o.rank * s->o.batch;
    const SampleRow *r = &slot->rows;
    int64_t n = s->o.batch;
    if (!s->o.shuffle) n = LT_MAX(LT_MIN(n, s->epoch_samples - first), (int64_t)0);
    slot->batch = (StreamBatch){.samples = n,
                                .input = r->input,
                                .target = r->target,
                                .position = r->position,
                                .seg_lo = r->seg_lo,
                                .sample = slot->sample,
                                .type = r->type,
                                .seg_hi = r->seg_hi,
                                .picks = s->shape.picks,
                                .pick_row = r->pick_row,
                                .pick_target = r->pick_target,
                                .seqs = s->shape.seqs,
                                .seq_row = r->seq_row,
                                .seq_target = r->seq_target,
                                .span_target = r->span_target};
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
    Err err;
    mutex_lock(&s->lock);
    for (;;) {
        while (!s->quit && !has_work(s)) cond_wait(&s->changed, &s->lock);
        if (s->quit) break;
        Slot *slot = &s->slot[(s->head + s->filled) % SLOTS];
        const int64_t at = s->fill_at;
        const uint64_t generation = s->generation;
        mutex_unlock(&s->lock);
        err_clear(&err);
        const Status status = make_batch(s, at, slot, &err);
        mutex_lock(&s->lock);
        if (generation != s->generation) continue;
        if (status != ERR_NONE) {
            s->status = status;
            s->err = err;
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
        *out = s->slot[s->head].batch;
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
        return err_set(err, ERR_USAGE,
                       "data position %" PRId64 " is behind the last of %" PRId64 " samples",
                       global_samples, s->epoch_samples);
    mutex_lock(&s->lock);
    s->generation++;
    s->filled = 0;
    s->status = ERR_NONE;
    s->fill_at = s->told = global_samples;
    cond_broadcast(&s->changed);
    mutex_unlock(&s->lock);
    return ERR_NONE;
}

int64_t stream_tell(const Stream *s)
{
    return s->told;
}

void stream_info(const Stream *s, StreamInfo *out)
{
    *out = s->info;
}

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

static Source *next_source(Stream *s, double weight)
{
    Source *src = &s->source[s->sources];
    src->weight = weight;
    src->epoch = -1;
    src->made.number = s->sources;
    src->made.o = s->o;
    return src;
}

static Status open_source(Stream *s, const char *path, double weight, Err *err)
{
    Source *src = next_source(s, weight);
    TRY(corpus_open(&src->made.corpus, path, s->o.split == STREAM_VAL, err));
    s->sources++;
    return ERR_NONE;
}

// "A:0.7,B:0.3"; text that names something there is one source, whatever is in its name.
static Status open_sources(Stream *s, const char *data, Err *err)
{
    const char *colon = strrchr(data, ':');
    double weight;
    if (file_exists(data) || !colon) return open_source(s, data, 1, err);
    for (const char *p = data; *p;) {
        const size_t n = strcspn(p, ",");
        const char *mark = memrchr(p, ':', n);
        char path[PATH_CAP];
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

// Data of the other architecture would train without a word, and learn nothing of use.
static Status check_content(const Stream *s, const Corpus *c, Err *err)
{
    const bool pairs = c->has_meta && c->meta.pairs.max_seq_length > 0;
    if (s->facts || pairs == (s->o.content == STREAM_PAIRS)) return ERR_NONE;
    const Status bad = pairs ? err_set(err, ERR_USAGE,
                                       "%s: pairs of segments for BERT (lathe data "
                                       "--format=bert), but a GPT reads a run of tokens",
                                       c->path)
                             : err_set(err, ERR_USAGE,
                                       "%s: a run of tokens for a GPT, but BERT's pretraining "
                                       "reads pairs of segments",
                                       c->path);
    err_hint(err, pairs ? "lathe data --format=gpt makes it from the text; or architecture=bert"
                        : "lathe data --format=bert makes them from the text");
    return bad;
}

static Status check_source(const Stream *s, const Corpus *c, Err *err)
{
    TRY(check_content(s, c, err));
    if (c->has_meta && s->o.vocab_size > 0 && c->meta.vocab_size > s->o.vocab_size) {
        const Status bad = err_set(err, ERR_USAGE,
                                   "%s: made with a vocabulary of %" PRId64 " ids, "
                                   "but the model has %" PRId64,
                                   c->path, c->meta.vocab_size, s->o.vocab_size);
        err_hint(err, "make the data with the model's tokenizer: lathe data --tokenizer=");
        return bad;
    }
    return ERR_NONE;
}

static Status check_together(const Stream *s, Err *err)
{
    const Corpus *known = NULL;
    bool pairs = false;
    for (int k = 0; k < s->sources; k++) {
        const Corpus *c = &s->source[k].made.corpus;
        pairs |= c->mask != NULL;
        if (!c->has_meta) continue;
        if (known && known->meta.tokenizer != c->meta.tokenizer)
            return err_set(err, ERR_USAGE,
                           "%s and %s were made with different tokenizers "
                           "(fingerprints %016" PRIx64 " and %016" PRIx64 ")",
                           known->path, c->path, known->meta.tokenizer, c->meta.tokenizer);
        known = c;
    }
    if (s->o.completion_only && !pairs) {
        const Status bad = err_set(err, ERR_USAGE,
                                   "%s: loss.mask=completion, but its %s split has "
                                   "no prompt/completion data",
                                   s->source[0].made.corpus.path, split_word(s));
        err_hint(err, "jsonl lines {\"prompt\": ..., \"completion\": ...} make such data");
        return bad;
    }
    return ERR_NONE;
}

// What the files say.
static void fill_facts(Stream *s)
{
    StreamInfo *info = &s->info;
    double text_bytes = 0;
    bool measured = true;
    for (int k = 0; k < s->sources; k++) {
        const Corpus *c = &s->source[k].made.corpus;
        info->tokens += c->tokens;
        info->documents += c->documents;
        measured &= c->has_meta;
        if (!c->has_meta) continue;
        info->max_seq_length = LT_MAX(info->max_seq_length, c->meta.pairs.max_seq_length);
        text_bytes += (double)c->meta.split[c->split].text_bytes;
        if (info->tokenizer_dir[0]) continue;
        info->vocab_size = c->meta.vocab_size;
        info->tokenizer = c->meta.tokenizer;
        snprintf(info->tokenizer_dir, sizeof info->tokenizer_dir, "%s", c->path);
    }
    if (measured) info->bytes_per_token = text_bytes / (double)info->tokens;
}

static Status open_samples(Stream *s, Err *err)
{
    StreamInfo *info = &s->info;
    double weights[ORDER_MAX_SOURCES];
    for (int k = 0; k < s->sources; k++) {
        SampleSource *made = &s->source[k].made;
        TRY(s->kind->open(made, err));
        s->samples[k] = made->samples;
        weights[k] = s->source[k].weight;
        info->samples_an_epoch += made->samples;
        info->dropped_tokens += made->dropped_tokens;
        info->sequences += made->sequences;
    }
    s->shape = s->source[0].made.shape;
    info->picks = s->shape.picks;
    info->seqs = s->shape.seqs;
    s->epoch_samples = info->samples_an_epoch;
    mixture_init(&s->mixture, weights, s->sources, s->o.seed);
    return ERR_NONE;
}

// The next n words of *at, where they are wanted. Without memory this only counts.
static int32_t *carve(int32_t *memory, int64_t *at, int64_t n, bool wanted)
{
    int32_t *const here = memory && wanted ? memory + *at : NULL;
    if (wanted) *at += n;
    return here;
}

static int64_t lay_out(const Stream *s, int32_t *memory, SampleRow *r)
{
    const SampleShape *shape = &s->shape;
    const int64_t S = s->o.batch, T = s->o.block_size, P = shape->picks, Q = shape->seqs;
    int64_t at = 0;
    r->input = carve(memory, &at, S * T, true);
    r->target = carve(memory, &at, S * T, shape->target);
    r->position = carve(memory, &at, S * T, shape->segments);
    r->seg_lo = carve(memory, &at, S * T, shape->segments);
    r->type = carve(memory, &at, S * T, shape->bert);
    r->seg_hi = carve(memory, &at, S * T, shape->bert);
    r->pick_row = carve(memory, &at, S * P, P > 0);
    r->pick_target = carve(memory, &at, S * P, P > 0);
    r->seq_row = carve(memory, &at, S * Q, Q > 0);
    r->seq_target = carve(memory, &at, S * Q, Q > 0);
    r->span_target = carve(memory, &at, S * 2, shape->spans);
    return at;
}

static Status take_memory(Stream *s, Err *err)
{
    const int64_t T = s->o.block_size, S = s->o.batch;
    ASSERT(T <= INT32_MAX && S <= (int64_t)1 << 40 && S * T <= (int64_t)1 << 48, "batch too large");
    SampleRow none;
    const size_t bytes = (size_t)lay_out(s, NULL, &none) * sizeof(int32_t);
    bool all = true;
    for (int i = 0; i < SLOTS; i++) {
        Slot *slot = &s->slot[i];
        slot->memory = mem_alloc(bytes);
        slot->sample = mem_alloc((size_t)S * sizeof *slot->sample);
        all &= slot->memory && slot->sample;
        (void)lay_out(s, slot->memory, &slot->rows);
    }
    return all ? ERR_NONE : mem_err(err, bytes * SLOTS, "the batches of the data stream");
}

// The files, and what they say.
static Status open_files(Stream *s, const char *data, Err *err)
{
    const bool examples = s->o.content == STREAM_EXAMPLES;
    if (!examples && (!data || !data[0]))
        return err_set(err, ERR_USAGE, "no data given (--data=FOLDER)");
    s->source = mem_calloc(ORDER_MAX_SOURCES, sizeof *s->source);
    if (!s->source) return mem_err(err, ORDER_MAX_SOURCES * sizeof *s->source, "the data sources");
    if (examples) {
        (void)next_source(s, 1);
        s->sources++;
        s->info.tokens = s->o.examples->tokens;
        s->info.documents = s->o.examples->examples;
        return ERR_NONE;
    }
    TRY(open_sources(s, data, err));
    for (int k = 0; k < s->sources; k++) TRY(check_source(s, &s->source[k].made.corpus, err));
    TRY(check_together(s, err));
    fill_facts(s);
    return ERR_NONE;
}

static Status prepare(Stream *s, const char *data, Err *err)
{
    TRY(open_files(s, data, err));
    TRY(open_samples(s, err));
    TRY(take_memory(s, err));
    return thread_start(&s->thread, prefetch, s, err);
}

static Stream *new_stream(const StreamOptions *o, Err *err, Status *status)
{
    static const SampleKind *const kinds[] = {[STREAM_TOKENS] = &sample_windows,
                                              [STREAM_PAIRS] = &sample_pairs,
                                              [STREAM_EXAMPLES] = &sample_examples};
    ASSERT(o->ranks > 0 && o->rank >= 0 && o->rank < o->ranks, "rank %d of %d", o->rank, o->ranks);
    Stream *s = mem_calloc(1, sizeof *s);
    *status = s ? ERR_NONE : mem_err(err, sizeof *s, "the data stream");
    if (!s) return NULL;
    s->o = *o;
    s->o.data = NULL;
    s->kind = kinds[o->content];
    mutex_init(&s->lock);
    cond_init(&s->changed);
    return s;
}

Status stream_open(Stream **out, const StreamOptions *o, Err *err)
{
    ASSERT(o->block_size > 0 && o->batch > 0, "block_size %" PRId64 ", batch %" PRId64,
           o->block_size, o->batch);
    *out = NULL;
    Status status;
    Stream *s = new_stream(o, err, &status);
    TRY(status);
    status = prepare(s, o->data, err);
    if (status != ERR_NONE) {
        stream_close(s);
        return status;
    }
    *out = s;
    return ERR_NONE;
}

Status stream_facts(StreamInfo *out, const StreamOptions *o, Err *err)
{
    Status status;
    Stream *s = new_stream(o, err, &status);
    TRY(status);
    s->facts = true;
    status = open_files(s, o->data, err);
    *out = s->info;
    stream_close(s);
    return status;
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
    for (int k = 0; k < s->sources; k++) {
        s->kind->close(&s->source[k].made);
        corpus_close(&s->source[k].made.corpus);
    }
    mem_free(s->source);
    for (int i = 0; i < SLOTS; i++) {
        mem_free(s->slot[i].memory);
        mem_free(s->slot[i].sample);
    }
    mem_free(s);
}
