// model.h -- a transformer: memory for a batch, forward, backward. A readable list of op calls.
//
// The same code measures and runs: model_build against counting arenas gives the memory, a forward
// and backward with cx->plan set gives scratch, FLOPs and bytes.
//
// One micro-batch is B samples of T tokens, N = B*T rows. What is kept for the backward pass of a
// layer (recompute off), with act = the policy's activation type:
//
//     x [N,C] resid   residual stream entering the layer     ln1 [N,C]  qkv [N,3C]  att [N,C]  act
//     y [N,C] resid   residual stream after attention        ln2 [N,C]  fch [N,F]   fcg [N,F]  act
//     lse [B,H,T], means and reciprocal deviations [N] f32
//
// With recompute only x is kept of every layer, and one layer's worth of the rest is shared: the
// backward pass runs the layer's forward again, with the same bits in f32.
//
// A layer in FP8 (fp8.h) keeps transposes of its linear layers' inputs, one byte an element, and
// not ln1, ln2 and fcg: xt [C,N] [C,N] [C,N] [F,N] for qkv, proj, fc and mlp. att is there for the
// attention's own backward.
//
// BERT keeps the same buffers: x and y are what the two norms of a layer normalise, ln1 and ln2
// what comes out of them and goes on (bert.c). All have the activation type, the residual stream,
// too.
// Its heads read some of the rows only (HeadActs). Of picks, sequences and spans in a ModelBatch
// only those are read that the model's head has.
//
// Logits never exist whole: the head works in chunks of head_rows rows, loss and gradient together.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/model/fp8.h"
#include "engine/model/model_config.h"
#include "engine/model/params.h"
#include "engine/model/precision.h"
#include "kernels/ops.h"

typedef struct ModelBatch { // device memory, borrowed
    int64_t B, T;
    const int32_t *input;    // [B,T]
    const int32_t *target;   // [B,T]  TOKEN_IGNORE: not counted
    const int32_t *position; // [B,T] or NULL: 0..T-1
    const int32_t *seg_lo;   // [B,T] or NULL
    const int64_t *sample;   // [B] global sample index, for dropout
    // BERT only; input, position, seg_lo and sample as above
    const int32_t *type;        // [B,T] token types, or NULL: 0
    const int32_t *seg_hi;      // [B,T] or NULL; a row of padding has seg_lo == seg_hi
    int64_t picks;              // rows at which a token or a tag is predicted
    const int32_t *pick_row;    // [picks] 0..B*T-1, each once; -1: none
    const int32_t *pick_target; // [picks] TOKEN_IGNORE: not counted
    int64_t seqs;               // sequences
    const int32_t *seq_row;     // [seqs] rows of their first tokens, each once; -1: none
    const int32_t *seq_target;  // [seqs] next sentence (0: it is) or label; TOKEN_IGNORE
    const int32_t *span_target; // [2,B] HEAD_QA: first and last token, 0..T-1; TOKEN_IGNORE
} ModelBatch;

typedef struct ModelLossScale { // what gradients are multiplied with: 1 / (counted targets)
    float row;                  // of every row, of picks, of spans
    float seq;                  // of sequences
} ModelLossScale;

typedef struct ModelOptions {
    int64_t batch; // largest B
    int64_t block; // largest T
    bool train;    // room for a backward pass; off: loss only
    bool recompute;
    int64_t head_rows; // rows of logits at one time
    int64_t picks;     // most in a batch; BERT only, as seqs
    int64_t seqs;
    uint64_t seed; // of dropout
    Fp8State *fp8; // borrowed; NULL: nothing is in FP8
} ModelOptions;

typedef struct LayerActs { // of one layer; see above
    void *x, *y;
    void *ln1, *qkv, *att, *ln2, *fch, *fcg;
    void *xt[LINEAR_COUNT]; // of a layer in FP8; its ln1, ln2 and fcg are shared buffers
    float *lse, *mean1, *rstd1, *mean2, *rstd2;
} LayerActs;

typedef struct HeadActs { // of BERT's heads, bert_heads.c; activation type but for mean, rstd
    void *row;            // [picks,C] picked rows of lnf
    void *hid, *act, *ln; // [picks,C] masked tokens: ln = norm(act = gelu(hid = row W^T + b))
    float *mean, *rstd;   // [picks]
    void *drow, *dmid;    // [picks,C] gradients of row, and of what is behind it
    void *seq;            // [seqs,C] first rows of sequences
    void *pool, *pooled;  // [seqs,C] pooled = tanh(pool = seq W^T + b)
    void *dseq, *dpool;   // [seqs,C]
    void *logits_seq;     // [seqs, 2 or n_labels]
} HeadActs;

typedef struct Model {
    ModelConfig c;
    Precision prec;
    ModelOptions o;
    const ParamSet *params;  // borrowed
    Weights weights;         // borrowed flat buffer
    float *grads;            // [total] flat, borrowed; NULL without train
    const float *loss_scale; // one, on the device: gradients are of loss times this. NULL: 1
    Fp8State *fp8;           // borrowed; NULL: nothing is in FP8
    LayerActs *layer;        // [n_layer] host table, owned
    // step arena
    HeadActs heads;       // BERT
    void *xf, *lnf;       // [N,C] resid, act: input and output of the final norm
    float *meanf, *rstdf; // [N]
    void *tmp;            // [N,C] act: a branch's output on its way to the residual add
    void *logits;         // [head_rows,Vp], [picks,n_labels] or [2,N] act
    float *loss;          // [N] HEAD_LM, [picks], or [2,B] HEAD_QA: first tokens, then last ones
    float *loss_seq;      // [seqs]
    float *hit, *hit_seq; // as loss, loss_seq. 1: the target is the model's first choice, 0: it is
                          // not, or does not count
    void *dresid;         // [N,C] resid
    void *dtmp, *dwide;   // [N,C], [N,max(F,3C)] act
    void *dlnf;           // [N,C] act
    void *q, *q_wide;     // [N,C], [N,max(F,3C)] FP8: x or dy of the linear layer at hand
    void *dyt;            // [max(F,3C),N] FP8: dy transposed
} Model;

LT_C_BEGIN
// Lay the buffers into `step`. weights and grads are flat buffers of `params` (run arena). Frees
// nothing on failure but what it took. The host table is freed by model_free.
LT_MUST_CHECK Status model_build(Model *m, const ModelConfig *c, const Precision *p,
                                 const ModelOptions *o, const ParamSet *params, void *weights,
                                 float *grads, Arena *step, Err *err);
void model_free(Model *m);

// Losses into m->loss and m->loss_seq, hits into m->hit and m->hit_seq (device; NULL: the head has
// none), nothing else is changed but buffers.
LT_MUST_CHECK Status model_loss(Model *m, OpCtx *cx, const ModelBatch *b, Err *err);

// Forward and backward of one micro-batch: losses as above, no hits, and gradients of
// *m->loss_scale * (scale.row * sum of m->loss + scale.seq * sum of m->loss_seq) into m->grads:
// assigned when `first`, else accumulated.
// With FP8, `first` also makes the FP8 weights that no update has made, and fp8_end_step belongs
// behind the last.
LT_MUST_CHECK Status model_gradients(Model *m, OpCtx *cx, const ModelBatch *b, ModelLossScale scale,
                                     bool first, Err *err);

// Logits [B*T, Vp] (activation type) of a whole batch, for tests and evaluation of choices; B*T
// must not exceed head_rows. *logits is m's buffer, valid until the next call.
LT_MUST_CHECK Status model_logits(Model *m, OpCtx *cx, const ModelBatch *b, const void **logits,
                                  Err *err);

// BERT, activation type, m's buffers, valid until the next call. What the trunk makes of every row,
// [B*T,C], and the pooler of every sequence, [seqs,C] (NULL without a pooler):
LT_MUST_CHECK Status model_embed(Model *m, OpCtx *cx, const ModelBatch *b, const void **rows,
                                 const void **pooled, Err *err);
// The head's logits. rows: [picks,Vp] of masked tokens (picks <= head_rows), [picks,n_labels] of
// HEAD_TAG, [B*T,2] of HEAD_QA. seqs: [seqs,2] of the next sentence, [seqs,n_labels]. NULL: the
// head has none. Targets are not read.
LT_MUST_CHECK Status model_scores(Model *m, OpCtx *cx, const ModelBatch *b, const void **rows,
                                  const void **seqs, Err *err);
LT_C_END
