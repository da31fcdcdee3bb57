// sample_windows.c -- samples of a run of tokens: block_size + 1 tokens with stride block_size, the
// last ones being the targets of those before. See sample.h.
//
// SPDX-License-Identifier: MIT
#include "engine/data/sample.h"
#include "engine/base/compiler.h"

#include <inttypes.h>
#include <string.h>

static Status open_windows(SampleSource *s, Err *err)
{
    const Corpus *c = &s->corpus;
    const int64_t T = s->o.block_size;
    s->shape = (SampleShape){.target = true, .segments = s->o.document_mask};
    s->samples = (c->tokens - 1) / T;
    s->dropped_tokens = c->tokens - 1 - s->samples * T;
    if (s->samples < 1) {
        const bool val = s->o.split == STREAM_VAL;
        const Status bad =
            err_set(err, ERR_USAGE,
                    "%s: its %s split has %" PRId64 " token%s, but a block_size of "
                    "%" PRId64 " needs %" PRId64,
                    c->path, val ? "val" : "train", c->tokens, plural_s(c->tokens), T, T + 1);
        err_hint(err, "more text, a smaller block_size%s", val ? ", or a larger val_fraction" : "");
        return bad;
    }
    if (s->o.document_mask && !c->document) {
        const Status bad = err_set(err, ERR_USAGE,
                                   "%s: data.document_mask needs to know where "
                                   "documents begin, and these files do not say",
                                   c->path);
        err_hint(err, "lathe data keeps a document index; MMIDIDX files have one, too");
        return bad;
    }
    return ERR_NONE;
}

// Positions, first visible keys, and targets that would cross into a new document.
static void mask_documents(const SampleSource *s, int64_t at, SampleRow *to)
{
    const Corpus *c = &s->corpus;
    int64_t next = corpus_documents_until(c, at); // the first that begins behind `at`
    int32_t lo = 0;
    for (int64_t t = 0; t < s->o.block_size; t++) {
        if (next < c->documents && (int64_t)c->document[next] == at + t) {
            lo = (int32_t)t;
            next++;
        }
        to->position[t] = (int32_t)t - lo;
        to->seg_lo[t] = lo;
        if (next < c->documents && (int64_t)c->document[next] == at + t + 1)
            to->target[t] = TOKEN_IGNORE;
    }
}

static Status make_window(const SampleSource *s, const SampleAt *which, SampleRow *to, Err *err)
{
    const Corpus *c = &s->corpus;
    const int64_t T = s->o.block_size, at = which->index * T;
    TRY(corpus_read(c, at, T, s->o.vocab_size, to->input, err));
    memcpy(to->target, to->input + 1, (size_t)(T - 1) * sizeof *to->target);
    TRY(corpus_read(c, at + T, 1, s->o.vocab_size, &to->target[T - 1], err));
    if (s->o.document_mask) mask_documents(s, at, to);
    if (s->o.completion_only)
        for (int64_t t = 0; t < T; t++)
            if (!corpus_counts(c, at + t + 1)) to->target[t] = TOKEN_IGNORE;
    for (int64_t t = 0; t < T; t++) to->counted += to->target[t] != TOKEN_IGNORE;
    to->tokens = T;
    return ERR_NONE;
}

static void close_windows(SampleSource *s)
{
    (void)s;
}

const SampleKind sample_windows = {open_windows, make_window, close_windows};
