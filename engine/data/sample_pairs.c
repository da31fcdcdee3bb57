// sample_pairs.c -- samples for BERT: documents [CLS] A [SEP] B [SEP], masked, one or more in a row
// of block_size. See sample.h.
//
//     row      0    1 ...          len 0          len 1         block_size
//     input    [CLS] A [SEP] B [SEP] [CLS] A [SEP] B [SEP] [PAD] ...
//     type       0   0   0   1   1     0   0   0   1   1     0
//     position   0   1 ...             0   1 ...             0
//     seg_lo     0 ...               len 0 ...             len 1  = seg_hi: sees nothing
//
// Masks are made now, not in `lathe data`: each epoch has its own (mlm_mask.h). They depend on
// seed, epoch, source and document alone; so packed or padded, on any rank and after any resume, a
// document is masked the same.
//
// SPDX-License-Identifier: MIT
#include "engine/data/sample.h"
#include "engine/base/mem.h"
#include "engine/data/mlm_mask.h"
#include "engine/data/pack.h"
#include "tokenizer/tokenizer.h"

#include <inttypes.h>
#include <math.h>

typedef struct Pairs {
    MlmMask mask;
    uint8_t *goes_on; // behind mask.goes_on
    Packs packs;      // n == 0: each document is a sample
    int32_t *work;    // [T]
} Pairs;

// ---------------------------------------------------------------- open

static Status check_lengths(const Corpus *c, Err *err)
{
    for (int64_t i = 0; i < c->documents; i++) {
        const int64_t n = corpus_document_end(c, i) - (int64_t)c->document[i];
        if (n > c->meta.pairs.max_seq_length)
            return err_set(err, ERR_FORMAT,
                           "%s: pair %" PRId64 " has %" PRId64 " tokens, but " META_FILE
                           " says at most %" PRId64,
                           c->path, i, n, c->meta.pairs.max_seq_length);
    }
    return ERR_NONE;
}

static Status check_fit(const SampleSource *s, Err *err)
{
    const int64_t most = s->corpus.meta.pairs.max_seq_length;
    if (most <= s->o.block_size) return ERR_NONE;
    const Status bad = err_set(err, ERR_USAGE,
                               "%s: its pairs have up to %" PRId64 " tokens, but block_size is "
                               "%" PRId64,
                               s->corpus.path, most, s->o.block_size);
    err_hint(err, "a larger block_size, or pairs made with lathe data --max_seq_length=%" PRId64,
             s->o.block_size);
    return bad;
}

static Status learn_words(const SampleSource *s, Pairs *own, Err *err)
{
    Tokenizer *t;
    TRY_CTX(tokenizer_load(&t, s->corpus.path, NULL, err), err,
            "loading the tokenizer for whole_word_mask");
    const int64_t n = LT_MIN(tokenizer_vocab_size(t), s->corpus.meta.vocab_size);
    own->goes_on = mem_calloc((size_t)s->corpus.meta.vocab_size, 1);
    for (int64_t i = 0; i < n && own->goes_on; i++)
        own->goes_on[i] = tokenizer_goes_on(t, (int32_t)i);
    tokenizer_close(t);
    own->mask.goes_on = own->goes_on;
    return own->goes_on ? ERR_NONE : mem_err(err, (size_t)n, "the words of the vocabulary");
}

static Status pack(SampleSource *s, Pairs *own, Err *err)
{
    const Corpus *c = &s->corpus;
    const int64_t T = s->o.block_size;
    // `work` has room for T: sequences of fewer tokens than a pair's five do not occur.
    int32_t *picks = mem_alloc((size_t)(T + 1) * sizeof *picks);
    if (!picks) return mem_err(err, (size_t)(T + 1) * sizeof *picks, "the packs");
    for (int64_t n = 0; n <= T; n++) picks[n] = (int32_t)mlm_predictions(&own->mask, n);
    const PackRule rule = {T, s->o.pack, s->shape.picks, picks};
    const Status made = packs_make(&own->packs, &rule, c->document, c->documents, c->tokens, err);
    mem_free(picks);
    s->samples = own->packs.n;
    return made;
}

int64_t stream_picks(const StreamOptions *o)
{
    if (o->content != STREAM_PAIRS) return 0;
    const int64_t share = (int64_t)((double)o->block_size * o->mask_prob);
    const int64_t most = o->max_predictions ? o->max_predictions : share + LT_MAX(o->pack, 1);
    return LT_MIN(most, o->block_size);
}

static Status open_pairs(SampleSource *s, Err *err)
{
    const Corpus *c = &s->corpus;
    const MetaPairs *p = &c->meta.pairs;
    const int64_t T = s->o.block_size, seqs = LT_MAX(s->o.pack, (int64_t)1);
    TRY(check_fit(s, err));
    TRY(check_lengths(c, err));
    Pairs *own = s->own = mem_calloc(1, sizeof *own);
    if (!own) return mem_err(err, sizeof *own, "the pairs");
    own->work = mem_alloc((size_t)T * sizeof *own->work);
    if (!own->work) return mem_err(err, (size_t)T * sizeof *own->work, "the pairs");
    s->shape = (SampleShape){
        .segments = true, .bert = true, .picks = stream_picks(&s->o), .seqs = seqs};
    own->mask = (MlmMask){.prob = s->o.mask_prob,
                          .most = s->shape.picks,
                          .vocab_size = c->meta.vocab_size,
                          .cls = p->cls,
                          .sep = p->sep,
                          .mask = p->mask,
                          .pad = p->pad};
    if (s->o.whole_word) TRY(learn_words(s, own, err));
    s->samples = s->sequences = c->documents;
    return seqs > 1 ? pack(s, own, err) : ERR_NONE;
}

static void close_pairs(SampleSource *s)
{
    Pairs *own = s->own;
    if (!own) return;
    packs_free(&own->packs);
    mem_free(own->goes_on);
    mem_free(own->work);
    mem_free(own);
    s->own = NULL;
}

// ---------------------------------------------------------------- one sample

// Where B begins. The stretch id[n] must be [CLS] A [SEP] B [SEP].
static Status find_second(const Corpus *c, int64_t document, const int32_t *id, int64_t n,
                          int64_t *second, Err *err)
{
    const MetaPairs *p = &c->meta.pairs;
    int64_t k = 1;
    while (k < n && id[k] != p->sep) k++;
    if (n < 3 || id[0] != p->cls || id[n - 1] != p->sep || k >= n - 1)
        return err_set(err, ERR_FORMAT, "%s: document %" PRId64 " is not [CLS] A [SEP] B [SEP]",
                       c->path, document);
    *second = k + 1;
    return ERR_NONE;
}

// Sequence number `seq` of the row, from row `lo` on; *next: behind it.
static Status put_pair(const SampleSource *s, int64_t document, int64_t epoch, int64_t seq,
                       int64_t lo, int64_t *next, SampleRow *to, Err *err)
{
    const Pairs *own = s->own;
    const Corpus *c = &s->corpus;
    const int64_t begin = (int64_t)c->document[document];
    const int64_t n = corpus_document_end(c, document) - begin;
    int64_t second = 0;
    // What the folder's own vocabulary does not have is no id, however large the model's is.
    TRY(corpus_read(c, begin, n, c->meta.vocab_size, to->input + lo, err));
    TRY(find_second(c, document, to->input + lo, n, &second, err));
    for (int64_t t = 0; t < n; t++) {
        to->type[lo + t] = t >= second;
        to->position[lo + t] = (int32_t)t;
        to->seg_lo[lo + t] = (int32_t)lo;
        to->seg_hi[lo + t] = (int32_t)(lo + n);
    }
    // An evaluation has one set of masks.
    const MaskKey key = {s->o.shuffle ? s->o.seed : 0, epoch, s->number, document};
    int32_t *row = to->pick_row + to->counted;
    const int64_t picked = mlm_mask(&own->mask, &key, to->input + lo, n, row,
                                    to->pick_target + to->counted, own->work);
    for (int64_t i = 0; i < picked; i++) row[i] += (int32_t)lo;
    to->seq_row[seq] = (int32_t)lo;
    to->seq_target[seq] = corpus_random_next(c, document);
    to->counted += picked;
    to->tokens += n;
    *next = lo + n;
    return ERR_NONE;
}

static Status make_pairs(const SampleSource *s, const SampleAt *at, SampleRow *to, Err *err)
{
    const Pairs *own = s->own;
    const bool packed = own->packs.n > 0;
    const uint32_t *list = packed ? own->packs.document + own->packs.first[at->index] : NULL;
    const int64_t n = packed ? own->packs.first[at->index + 1] - own->packs.first[at->index] : 1;
    int64_t end = 0;
    for (int64_t i = 0; i < n; i++)
        TRY(put_pair(s, packed ? list[i] : at->index, at->epoch, i, end, &end, to, err));
    for (int64_t t = end; t < s->o.block_size; t++) {
        to->input[t] = s->corpus.meta.pairs.pad;
        to->type[t] = to->position[t] = 0;
        to->seg_lo[t] = to->seg_hi[t] = (int32_t)end;
    }
    for (int64_t i = to->counted; i < s->shape.picks; i++) {
        to->pick_row[i] = -1;
        to->pick_target[i] = TOKEN_IGNORE;
    }
    for (int64_t i = n; i < s->shape.seqs; i++) {
        to->seq_row[i] = -1;
        to->seq_target[i] = TOKEN_IGNORE;
    }
    to->counted_seqs = to->sequences = n;
    return ERR_NONE;
}

const SampleKind sample_pairs = {open_pairs, make_pairs, close_pairs};
