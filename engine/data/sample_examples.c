// sample_examples.c -- samples of labelled examples: one of them, padded; or a window of one. See
// sample.h and examples.h.
//
// SPDX-License-Identifier: MIT
#include "engine/base/assert.h"
#include "engine/base/token.h"
#include "engine/data/examples.h"
#include "engine/data/sample.h"

static Status open_examples(SampleSource *s, Err *err)
{
    (void)err;
    const ExampleView *v = s->o.examples;
    const Examples *e = v->of;
    ASSERT(v->samples > 0 && e->longest <= s->o.block_size, "%lld samples, %lld tokens",
           (long long)v->samples, (long long)e->longest);
    s->shape = (SampleShape){.segments = true,
                             .bert = true,
                             .picks = e->o.task == EXAMPLE_TAG ? v->picks : 0,
                             .seqs = e->o.task == EXAMPLE_CLASSIFY ? 1 : 0,
                             .spans = e->o.task == EXAMPLE_QA};
    s->samples = v->samples;
    return ERR_NONE;
}

static Status make_example(const SampleSource *s, const SampleAt *at, SampleRow *to, Err *err)
{
    (void)err;
    const ExampleView *v = s->o.examples;
    const int64_t sample = v->sample[at->index];
    const ExampleRow row = {.input = to->input,
                            .type = to->type,
                            .position = to->position,
                            .seg_lo = to->seg_lo,
                            .seg_hi = to->seg_hi,
                            .pick_row = to->pick_row,
                            .pick_target = to->pick_target,
                            .seq_row = to->seq_row,
                            .seq_target = to->seq_target,
                            .span_target = to->span_target};
    examples_put(v->of, sample, s->o.block_size, s->shape.picks, &row);
    for (int64_t p = 0; p < s->shape.picks; p++) to->counted += to->pick_target[p] != TOKEN_IGNORE;
    if (s->shape.spans) to->counted = 2; // first and last token
    if (s->shape.seqs) to->counted_seqs = to->seq_target[0] != TOKEN_IGNORE;
    to->tokens = v->of->sample[sample].n;
    to->sequences = 1;
    return ERR_NONE;
}

static void close_examples(SampleSource *s)
{
    (void)s;
}

const SampleKind sample_examples = {open_examples, make_example, close_examples};
