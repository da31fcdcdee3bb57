// build_pairs.c -- see build_pairs.h.
//
// SPDX-License-Identifier: MIT
#include "engine/data/build_pairs.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/base/stop.h"
#include "engine/data/encode_batch.h"
#include "engine/data/sentence.h"
#include "engine/data/split_pick.h"
#include "engine/data/stage_sentences.h"

#include <inttypes.h>
#include <string.h>

enum { AROUND = 3 }; // [CLS], [SEP], [SEP]

Status build_stop_if_told(Err *err)
{
    if (!stop_requested()) return ERR_NONE;
    return err_set(err, ERR_STOPPED, "stopped by signal %d; nothing is kept", stop_requested());
}

typedef struct Pairer {
    PairBuild *p;
    int64_t room; // tokens of A and B together
    EncodeBatch batch;
    bool begins[BATCH_DOCUMENTS]; // a document, with this sentence of the batch
    bool next_begins;             // the sentence that comes next does
    Buf lines;                    // of a text file that comes in parts: not yet cut
    SentenceStage stage;
    int64_t *member; // [documents] those of training, then those of validation
    int64_t members[2];
    int32_t *pair; // [max_seq_length]
} Pairer;

// ---------------------------------------------------------------- text to staged sentences

static Status special(const Tokenizer *t, const char *text, int32_t *out, Err *err)
{
    *out = tokenizer_special(t, text);
    if (*out >= 0) return ERR_NONE;
    const Status s = err_set(err, ERR_USAGE,
                             "the tokenizer (%s) has no %s: format=bert needs [CLS], [SEP] and "
                             "[MASK]",
                             tokenizer_kind(t), text);
    err_hint(err, "lathe tokenizer train --type=wordpiece makes one that has; so does BERT's "
                  "vocab.txt");
    return s;
}

static Status fill_meta(PairBuild *p, Err *err)
{
    const DataPairs *o = p->how->pairs;
    MetaPairs *m = &p->meta;
    *m = (MetaPairs){.max_seq_length = o->max_seq_length,
                     .short_seq_prob = o->short_seq_prob,
                     .dupe_factor = o->dupe_factor,
                     .seed = o->seed};
    memcpy(m->sentences, o->lines ? "line" : "cut", 5 - !o->lines);
    TRY(special(p->tokenizer, "[CLS]", &m->cls, err));
    TRY(special(p->tokenizer, "[SEP]", &m->sep, err));
    TRY(special(p->tokenizer, "[MASK]", &m->mask, err));
    // What stands in rows that nothing sees.
    m->pad = tokenizer_special(p->tokenizer, "[PAD]");
    if (m->pad < 0) m->pad = m->sep;
    return ERR_NONE;
}

// Where a piece of at most `most` tokens ends: before a token that begins a word, if there is one.
static int64_t piece_end(const Tokenizer *t, const int32_t *id, int64_t n, int64_t most)
{
    if (n <= most) return n;
    int64_t end = most;
    while (end > 1 && tokenizer_goes_on(t, id[end])) end--;
    return end > 1 ? end : most;
}

static Status put_sentence(Pairer *r, const EncodedDocument *e, Err *err)
{
    const int32_t *id = e->ids.id;
    int64_t n = e->ids.n;
    const int64_t most = n > r->room ? LT_MAX(r->room / 2, (int64_t)1) : n;
    if (n > 0) r->stage.open.bytes += e->bytes;
    while (n > 0) {
        const int64_t k = piece_end(r->p->tokenizer, id, n, most);
        TRY(stage_sentence(&r->stage, id, k, err));
        id += k;
        n -= k;
    }
    return ERR_NONE;
}

static Status begin_document(Pairer *r, Err *err)
{
    SentenceStage *s = &r->stage;
    r->p->empty += s->is_open && s->sentences == (int64_t)s->open.first;
    return stage_document(s, err);
}

static Status flush(Pairer *r, Err *err)
{
    TRY(encode_batch_run(&r->batch, err));
    for (int i = 0; i < r->batch.n; i++) {
        if (r->begins[i]) TRY(begin_document(r, err));
        TRY(put_sentence(r, &r->batch.doc[i], err));
    }
    encode_batch_clear(&r->batch);
    TextStats st;
    text_source_stats(r->p->source, &st);
    on_progress(&r->p->how->on, (double)st.bytes_consumed, (double)st.bytes_total);
    return ERR_NONE;
}

static Status add_sentence(Pairer *r, const TextDocument *d, const char *text, const Sentence *s,
                           Err *err)
{
    TextDocument one = {
        .text = text + s->from, .bytes = s->to - s->from, .file = d->file, .line = d->line};
    if (!encode_batch_fits(&r->batch, &one)) TRY(flush(r, err));
    r->begins[r->batch.n] = r->next_begins;
    r->next_begins = false;
    TRY(encode_batch_add(&r->batch, &one, err));
    return encode_batch_borrows(&r->batch) ? flush(r, err) : ERR_NONE;
}

// A document, or its next part, of which the last line is whole.
static Status add_text(Pairer *r, const TextDocument *d, const char *text, size_t bytes, Err *err)
{
    const DataPairs *how = r->p->how->pairs;
    size_t at = 0;
    Sentence s;
    for (bool gap = false;;) {
        const bool some = how->lines ? sentence_next_line(text, bytes, &at, &s, &gap)
                                     : sentence_next(text, bytes, &at, &s);
        if (gap && how->empty_line && d->line == 0) r->next_begins = true;
        if (!some) return ERR_NONE;
        TRY(add_sentence(r, d, text, &s, err));
    }
}

// A text file whose documents end at empty lines comes in parts: its whole lines so far.
static Status add_part(Pairer *r, const TextDocument *d, Err *err)
{
    TRY(buf_append(&r->lines, d->text, d->bytes, err));
    const char *last = d->more ? memrchr(r->lines.data, '\n', r->lines.len) : NULL;
    const size_t n = last ? (size_t)(last + 1 - r->lines.data) : d->more ? 0 : r->lines.len;
    TRY(add_text(r, d, r->lines.data, n, err));
    r->lines.len -= n;
    memmove(r->lines.data, r->lines.data + n, r->lines.len);
    if (!d->more) r->next_begins = true;
    return ERR_NONE;
}

static Status add_document(Pairer *r, const TextDocument *d, Err *err)
{
    if (d->completion) {
        const Status s = err_set(err, ERR_USAGE,
                                 "%s:%" PRId64 ": a prompt and its completion; "
                                 "format=bert makes its pairs from documents",
                                 d->file, d->line);
        err_hint(err, "a line is {\"text\": \"...\"}");
        return s;
    }
    if (r->p->how->pairs->empty_line && d->line == 0) return add_part(r, d, err);
    r->next_begins = true;
    TRY(add_text(r, d, d->text, d->bytes, err));
    r->p->empty += r->next_begins; // no sentence took it
    return ERR_NONE;
}

static Status stage_all(Pairer *r, Err *err)
{
    r->next_begins = true;
    for (;;) {
        TRY(build_stop_if_told(err));
        TextDocument d;
        bool more;
        TRY(text_source_next(r->p->source, &d, &more, err));
        if (!more) break;
        TRY(add_document(r, &d, err));
    }
    TRY(flush(r, err));
    TRY(begin_document(r, err)); // ends the last one
    TRY(stage_map(&r->stage, err));
    r->p->documents = r->stage.documents;
    return ERR_NONE;
}

// ---------------------------------------------------------------- staged sentences to pairs

static Status choose_splits(Pairer *r, Err *err)
{
    PairBuild *p = r->p;
    const int64_t n = p->documents;
    r->member = mem_alloc((size_t)n * sizeof *r->member);
    if (!r->member) return mem_err(err, (size_t)n * sizeof *r->member, "the list of documents");
    // Twice the same numbers: training from the front, then validation behind it. A single document
    // is for training.
    for (int split = 0; split < 2; split++) {
        SplitPick pick = split_pick(n > 1 ? p->how->val_fraction : 0);
        for (int64_t i = 0; i < n; i++) {
            if (split_of(&pick, i, n) != split) continue;
            r->member[r->members[0] + r->members[1]] = i;
            r->members[split]++;
            p->text_bytes[split] += (int64_t)r->stage.document[i].bytes;
        }
        p->texts[split] = r->members[split];
    }
    return ERR_NONE;
}

// Member number `i` of a split: a document.
static int64_t member_of(const Pairer *r, int split, int64_t i)
{
    return r->member[i + (split ? r->members[0] : 0)];
}

typedef struct Draws { // of one document in one pass
    uint64_t seed, document, next;
} Draws;

static int64_t draw_below(Draws *d, int64_t n)
{
    return (int64_t)rng_below(d->seed, d->document, d->next++, (uint64_t)n);
}

static bool draw_chance(Draws *d, double p)
{
    return (double)draw_below(d, (int64_t)1 << 53) < p * 0x1p53;
}

typedef struct Span { // of staged tokens
    int64_t from, to;
} Span;

// Sentences [from, to) as tokens.
static Span span_of(const SentenceStage *s, int64_t from, int64_t to)
{
    return (Span){stage_token(s, from), stage_token(s, to)};
}

// At least `want` tokens, or all, from a random sentence of another document of the split on.
// `own`: which member we are.
static Span random_segment(const Pairer *r, Draws *d, int split, int64_t own, int64_t want)
{
    const SentenceStage *s = &r->stage;
    const int64_t n = r->members[split];
    int64_t other = own;
    if (n > 1) {
        other = draw_below(d, n - 1);
        other += other >= own;
    }
    const int64_t document = member_of(r, split, other);
    const int64_t first = stage_first(s, document), end = stage_end(s, document);
    const int64_t from = first + draw_below(d, end - first);
    int64_t to = from + 1;
    while (to < end && stage_token(s, to) - stage_token(s, from) < want) to++;
    return span_of(s, from, to);
}

static void truncate_pair(Draws *d, Span *a, Span *b, int64_t room)
{
    while (a->to - a->from + b->to - b->from > room) {
        Span *longer = a->to - a->from > b->to - b->from ? a : b;
        if (draw_below(d, 2))
            longer->from++;
        else
            longer->to--;
    }
}

static Status put_pair(const Pairer *r, int split, const Span *a, const Span *b, bool random,
                       Err *err)
{
    const MetaPairs *m = &r->p->meta;
    SplitWriter *w = r->p->split[split];
    int64_t n = 0;
    r->pair[n++] = m->cls;
    memcpy(r->pair + n, r->stage.id + a->from, (size_t)(a->to - a->from) * sizeof *r->pair);
    n += a->to - a->from;
    r->pair[n++] = m->sep;
    memcpy(r->pair + n, r->stage.id + b->from, (size_t)(b->to - b->from) * sizeof *r->pair);
    n += b->to - b->from;
    r->pair[n++] = m->sep;
    TRY(split_writer_document(w, err));
    TRY(split_writer_next(w, random, err));
    return split_writer_put(w, r->pair, n, true, err);
}

// The pairs of one document: member number `own` of the split.
static Status pair_document(Pairer *r, int split, int64_t own, int64_t pass, Err *err)
{
    const SentenceStage *s = &r->stage;
    const DataPairs *how = r->p->how->pairs;
    const int64_t document = member_of(r, split, own);
    const int64_t end = stage_end(s, document);
    Draws d = {how->seed, (uint64_t)document, (uint64_t)pass << 40};
    int64_t target = r->room;
    if (draw_chance(&d, how->short_seq_prob)) target = 2 + draw_below(&d, r->room - 1);
    for (int64_t at = stage_first(s, document); at < end;) {
        int64_t to = at + 1;
        while (to < end && stage_token(s, to) - stage_token(s, at) < target) to++;
        const int64_t n = to - at;
        const int64_t cut = n > 1 ? at + 1 + draw_below(&d, n - 1) : to;
        const bool random = n == 1 || draw_below(&d, 2) == 0;
        Span a = span_of(s, at, cut), b = span_of(s, cut, to);
        if (random) b = random_segment(r, &d, split, own, target - (a.to - a.from));
        truncate_pair(&d, &a, &b, r->room);
        TRY(put_pair(r, split, &a, &b, random, err));
        at = random ? cut : to; // what B did not use is gathered again
    }
    return ERR_NONE;
}

static Status pair_split(Pairer *r, int split, Err *err)
{
    PairBuild *p = r->p;
    const SentenceStage *s = &r->stage;
    const int64_t n = r->members[split];
    // A sentence that is all there is has no other to be paired with.
    if (n == 1) {
        const int64_t document = member_of(r, split, 0);
        if (stage_end(s, document) - stage_first(s, document) == 1) {
            p->unpaired++;
            p->texts[split] = p->text_bytes[split] = 0;
            return ERR_NONE;
        }
    }
    // Held-out text is made into pairs once.
    const int64_t passes = split ? 1 : p->how->pairs->dupe_factor;
    for (int64_t pass = 0; pass < passes; pass++)
        for (int64_t i = 0; i < n; i++) {
            TRY(build_stop_if_told(err));
            TRY(pair_document(r, split, i, pass, err));
        }
    return ERR_NONE;
}

static Status build_all(Pairer *r, Err *err)
{
    PairBuild *p = r->p;
    const size_t pair = (size_t)p->meta.max_seq_length * sizeof *r->pair;
    r->pair = mem_alloc(pair);
    if (!r->pair) return mem_err(err, pair, "a pair");
    if (p->how->pairs->empty_line) text_source_in_parts(p->source);
    TRY(encode_batch_init(&r->batch, p->tokenizer, p->how->allow_special, p->how->threads, err));
    r->batch.bare = true;
    TRY(stage_open(&r->stage, p->how->out, err));
    TRY(stage_all(r, err));
    if (p->documents == 0) return ERR_NONE; // told by the caller
    TRY(choose_splits(r, err));
    for (int split = 0; split < 2; split++) TRY(pair_split(r, split, err));
    if (p->texts[0] + p->texts[1] > 0) return ERR_NONE;
    const Status s =
        err_set(err, ERR_USAGE, "%s: one sentence alone makes no pair of segments", p->how->input);
    err_hint(err, "documents of several sentences: data.document_separator and sentences say where "
                  "they begin");
    return s;
}

Status build_pairs(PairBuild *p, Err *err)
{
    TRY(fill_meta(p, err));
    Pairer *r = mem_calloc(1, sizeof *r);
    if (!r) return mem_err(err, sizeof *r, "the making of pairs");
    r->p = p;
    r->room = p->meta.max_seq_length - AROUND;
    Status s = build_all(r, err);
    const Status closed = stage_close(&r->stage, s == ERR_NONE ? err : NULL);
    if (s == ERR_NONE) s = closed;
    encode_batch_free(&r->batch);
    buf_free(&r->lines);
    mem_free(r->member);
    mem_free(r->pair);
    mem_free(r);
    return s;
}
