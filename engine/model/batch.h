// batch.h -- device memory for the batches of a model: some samples in, micro-batches out.
//
//     host          samples of T tokens, as the data makes them: rows count in their own sample
//     batch_put     to the device, where rows count in their own micro-batch
//     batch_part    samples first .. first + n of them as a ModelBatch
//
// Which arrays there are depends on what the model learns (BatchShape). Used wherever a model meets
// data: training, evaluation, prediction.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/arena.h"
#include "engine/model/model.h"

typedef struct BatchShape { // what there is room for
    int64_t samples;
    int64_t block; // T
    int64_t micro; // samples of a micro-batch; the last one may have fewer
    bool target;   // something is predicted at every row
    bool segments; // position and seg_lo
    bool bert;     // type and seg_hi
    int64_t picks; // P of a sample
    int64_t seqs;  // Q of a sample
    bool spans;
} BatchShape;

typedef struct Batch {
    BatchShape shape;
    int32_t *input, *target, *position, *seg_lo, *type, *seg_hi; // [samples,T] device
    int32_t *pick_row, *pick_target;                             // [samples,P] device
    int32_t *seq_row, *seq_target;                               // [samples,Q] device
    int32_t *span_target;                                        // [2 samples] device
    int64_t *sample;                                             // [samples]   device
    int32_t *staged;                                             // host: what is numbered anew
    ModelBatch put;                                              // the whole of what was put
} Batch;

LT_C_BEGIN
void batch_build(Batch *a, const BatchShape *s, Arena *device, Arena *host);
// b: host memory, b->B samples of b->T tokens, at most samples x block together. As ModelBatch
// says, but rows count in their own sample, b->picks and b->seqs are P and Q of one sample, and
// span_target is [B,2]. An array that is NULL is NULL in the parts, too.
LT_MUST_CHECK Status batch_put(Batch *a, Device *d, const ModelBatch *b, Err *err);
// first: a multiple of micro; n: micro, or what is left of the samples that were put.
ModelBatch batch_part(const Batch *a, int64_t first, int64_t n);
LT_C_END
