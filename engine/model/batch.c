// batch.c -- see batch.h.
//
// SPDX-License-Identifier: MIT
#include "engine/model/batch.h"
#include "engine/base/assert.h"

static int32_t *ids(Arena *a, int64_t n)
{
    return n > 0 ? arena_alloc(a, (size_t)n * sizeof(int32_t)) : NULL;
}

void batch_build(Batch *a, const BatchShape *s, Arena *device, Arena *host)
{
    const int64_t S = s->samples, rows = S * s->block;
    const int64_t most = LT_MAX(LT_MAX(s->picks, s->seqs), s->spans ? 2 : 0);
    *a = (Batch){.shape = *s};
    a->input = ids(device, rows);
    a->target = ids(device, s->target ? rows : 0);
    a->position = ids(device, s->segments ? rows : 0);
    a->seg_lo = ids(device, s->segments ? rows : 0);
    a->type = ids(device, s->bert ? rows : 0);
    a->seg_hi = ids(device, s->bert ? rows : 0);
    a->pick_row = ids(device, S * s->picks);
    a->pick_target = ids(device, S * s->picks);
    a->seq_row = ids(device, S * s->seqs);
    a->seq_target = ids(device, S * s->seqs);
    a->span_target = ids(device, s->spans ? 2 * S : 0);
    a->sample = arena_alloc(device, (size_t)S * sizeof(int64_t));
    a->staged = ids(host, S * most);
}

// To the device, when there is something; `*to` becomes what the parts are made of.
static Status put(Device *d, const int32_t **to, int32_t *room, const int32_t *from, int64_t n,
                  Err *err)
{
    *to = from ? room : NULL;
    if (!from || n == 0) return ERR_NONE;
    ASSERT(room, "an array that there is no room for");
    return device_upload(d, room, from, (size_t)n * sizeof(int32_t), err);
}

// Rows of samples that have `each` of them; -1 stays.
static Status put_rows(Batch *a, Device *d, const int32_t **to, int32_t *room, const int32_t *from,
                       int64_t each, Err *err)
{
    const int64_t n = from ? a->put.B * each : 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t above = i / each % a->shape.micro * a->put.T;
        a->staged[i] = from[i] < 0 ? -1 : (int32_t)(from[i] + above);
    }
    return put(d, to, room, from ? a->staged : NULL, n, err);
}

// [samples,2] becomes, for every micro-batch, all the firsts and then all the lasts.
static Status put_spans(Batch *a, Device *d, const int32_t *from, Err *err)
{
    for (int64_t first = 0; first < a->put.B && from; first += a->shape.micro) {
        const int64_t n = LT_MIN(a->shape.micro, a->put.B - first);
        for (int64_t i = 0; i < n; i++) {
            a->staged[2 * first + i] = from[2 * (first + i)];
            a->staged[2 * first + n + i] = from[2 * (first + i) + 1];
        }
    }
    return put(d, &a->put.span_target, a->span_target, from ? a->staged : NULL, 2 * a->put.B, err);
}

Status batch_put(Batch *a, Device *d, const ModelBatch *b, Err *err)
{
    const BatchShape *s = &a->shape;
    const int64_t rows = b->B * b->T, picks = b->B * b->picks, seqs = b->B * b->seqs;
    ASSERT(rows <= s->samples * s->block && b->B <= s->samples && b->picks <= s->picks &&
               b->seqs <= s->seqs,
           "%lld samples of %lld tokens, %lld picks and %lld sequences", (long long)b->B,
           (long long)b->T, (long long)b->picks, (long long)b->seqs);
    a->put = (ModelBatch){.B = b->B, .T = b->T, .picks = b->picks, .seqs = b->seqs};
    TRY(put(d, &a->put.input, a->input, b->input, rows, err));
    TRY(put(d, &a->put.target, a->target, b->target, rows, err));
    TRY(put(d, &a->put.position, a->position, b->position, rows, err));
    TRY(put(d, &a->put.seg_lo, a->seg_lo, b->seg_lo, rows, err));
    TRY(put(d, &a->put.type, a->type, b->type, rows, err));
    TRY(put(d, &a->put.seg_hi, a->seg_hi, b->seg_hi, rows, err));
    TRY(put_rows(a, d, &a->put.pick_row, a->pick_row, b->pick_row, b->picks, err));
    TRY(put(d, &a->put.pick_target, a->pick_target, b->pick_target, picks, err));
    TRY(put_rows(a, d, &a->put.seq_row, a->seq_row, b->seq_row, b->seqs, err));
    TRY(put(d, &a->put.seq_target, a->seq_target, b->seq_target, seqs, err));
    TRY(put_spans(a, d, b->span_target, err));
    a->put.sample = a->sample;
    return device_upload(d, a->sample, b->sample, (size_t)b->B * sizeof(int64_t), err);
}

static const int32_t *from(const int32_t *array, int64_t at)
{
    return array ? array + at : NULL;
}

ModelBatch batch_part(const Batch *a, int64_t first, int64_t n)
{
    const ModelBatch *p = &a->put;
    return (ModelBatch){.B = n,
                        .T = p->T,
                        .input = from(p->input, first * p->T),
                        .target = from(p->target, first * p->T),
                        .position = from(p->position, first * p->T),
                        .seg_lo = from(p->seg_lo, first * p->T),
                        .sample = p->sample + first,
                        .type = from(p->type, first * p->T),
                        .seg_hi = from(p->seg_hi, first * p->T),
                        .picks = n * p->picks,
                        .pick_row = from(p->pick_row, first * p->picks),
                        .pick_target = from(p->pick_target, first * p->picks),
                        .seqs = n * p->seqs,
                        .seq_row = from(p->seq_row, first * p->seqs),
                        .seq_target = from(p->seq_target, first * p->seqs),
                        .span_target = from(p->span_target, 2 * first)};
}
