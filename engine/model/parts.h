// parts.h -- internal to gpt.c, bert.c and bert_heads.c: the calls that they have in common.
//
// A part is a few lines of arguments for one op. What is computed in which order, and where dropout
// and residual adds are, is in gpt.c and bert.c.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/model/linear.h"
#include "engine/model/model.h"

LT_INLINE void *part_tensor(Arena *a, int64_t rows, int64_t cols, DType t)
{
    return arena_alloc(a, (size_t)rows * (size_t)cols * dtype_bytes(t));
}

typedef struct Block { // weights and gradients of the block at hand
    const char *w;     // start of the block's weights
    float *g;          // start of its gradients; NULL in a forward-only model
    size_t esize;      // of a weight
} Block;

LT_INLINE const void *block_weight(const Block *b, int64_t offset)
{
    return offset < 0 ? NULL : b->w + (size_t)offset * b->esize;
}

LT_INLINE float *block_grad(const Block *b, int64_t offset)
{
    return offset < 0 || !b->g ? NULL : b->g + offset;
}

typedef struct Norm {   // a norm of a block
    int64_t w, b;       // places of its parameters in the block
    void *x;            // [rows,C] resid: what it normalises
    float *mean, *rstd; // [rows]
} Norm;

LT_C_BEGIN
Block part_take(const Model *m, int block); // weights_give gives it back
DropoutSpec part_drop(const Model *m, const ModelBatch *b, double p, int64_t layer, RngSite site,
                      bool train);
// On the output of layer l's branches, in front of the residual add.
DropoutSpec part_drop_proj(const Model *m, const ModelBatch *b, int64_t l, bool train);
DropoutSpec part_drop_mlp(const Model *m, const ModelBatch *b, int64_t l, bool train);
// Linear layer `id` of the block whose weights these are. `how`: what all of the block's share.
Linear part_linear(const Linear *how, const Block *w, LinearId id);

// out = norm(n->x), for N rows in samples of T. With a residual add in front of it, the caller says
// what n->x is made of: x, resid_out, add, drop.
// `next`: the linear layer that reads out, and may want it in FP8 (then out is NULL); NULL: another
// op.
LayernormFwdArgs part_norm(const Model *m, const Block *w, const Norm *n, const Linear *next,
                           void *out, int64_t N, int64_t T);
// Its gradient dx of n->x, from dy. The caller adds what else there is: dresid_in, dadd, drop.
LayernormBwdArgs part_norm_backward(const Model *m, const Block *w, const Norm *n, void *dx,
                                    const void *dy, int64_t N, int64_t T, bool first);

// The sum of the embeddings, into x; and the gradients of the tables. Added to, but for a tied
// token table everything is assigned when `first`: that one already holds the head's gradient.
LT_MUST_CHECK Status part_embed(const Model *m, OpCtx *cx, const ModelBatch *b, void *x, Err *err);
LT_MUST_CHECK Status part_embed_backward(const Model *m, OpCtx *cx, const ModelBatch *b,
                                         const void *dx, bool first, Err *err);
// Dropout on the embeddings, in place; its own backward.
LT_MUST_CHECK Status part_embed_dropout(const Model *m, OpCtx *cx, const ModelBatch *b, void *x,
                                        DType dtype, Err *err);

// m->layer[l].att from its qkv; and the gradient of qkv from that of att.
LT_MUST_CHECK Status part_attention(const Model *m, OpCtx *cx, const ModelBatch *b, int64_t l,
                                    bool train, Err *err);
LT_MUST_CHECK Status part_attention_backward(const Model *m, OpCtx *cx, const ModelBatch *b,
                                             int64_t l, void *dqkv, const void *datt, Err *err);

// The output matrix over the vocabulary, on some of the rows. Its bias is none of `w`'s.
Linear part_head(const Model *m, const Block *w, int64_t rows, bool first);
int part_head_block(const Model *m); // the block that has it
bool part_head_tied(const Model *m); // is it the token embedding?
LT_MUST_CHECK Status part_zero(OpCtx *cx, void *p, size_t bytes, Err *err);
LT_C_END
