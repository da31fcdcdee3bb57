// params.h -- the parameters of a model: names, shapes, and places in flat buffers.
//
// Weights, gradients, master weights and moments are flat buffers with one layout:
//
//     block 0                block 1 .. L             block L+1
//     embeddings             one transformer block    GPT: final norm
//     (BERT: and their norm)                          BERT: pooler and heads
//                                                     (and output matrix, when not tied)
//     [matrices|vectors]     [matrices|vectors]       [matrices|vectors]
//
// Inside a block the decayed parameters (matrices, embeddings) come first, so an optimizer step is
// two ranges a block, and a block is one contiguous piece that can be gathered, scattered or
// reduced as one. Every parameter starts at a multiple of PARAM_ALIGN elements; gaps and the
// padded rows of what has the vocabulary's are zero and stay zero.
//
// The model asks for a block's weights before it uses them and gives them back after
// (weights_take, weights_give): with one rank that is an address; sharded weights gather there.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "checkpoints/tensor.h"
#include "engine/base/arena.h"
#include "engine/model/model_config.h"

enum { PARAM_ALIGN = 64, PARAM_NAME_CAP = 64 };

typedef enum ParamInit { INIT_NORMAL = 0, INIT_ZERO, INIT_ONE } ParamInit;

typedef struct Param {
    char name[PARAM_NAME_CAP]; // "block.0.attn.qkv.weight"
    int block;
    int rank;
    int64_t shape[2]; // as saved: without vocabulary padding
    int64_t count;    // product of shape
    int64_t offset;   // in the flat buffers, elements
    bool decay;       // weight decay applies
    ParamInit init;
    double std; // of INIT_NORMAL
} Param;

typedef struct ParamBlock {
    int64_t offset, count; // of the flat buffers, elements
    int64_t decayed;       // the first of `count` that are decayed
} ParamBlock;

// The linear layers of a transformer block.
typedef enum LinearId { LINEAR_QKV = 0, LINEAR_PROJ, LINEAR_FC, LINEAR_MLP, LINEAR_COUNT } LinearId;

// Places of the parameters of one transformer block; -1: the model has none. Offsets are from the
// start of the block, so that they can be applied to weights and gradients alike.
typedef struct LayerOffsets {
    int64_t norm1_w, norm1_b, qkv_w, qkv_b, proj_w, proj_b;
    int64_t norm2_w, norm2_b, fc_w, fc_b, mlp_w, mlp_b;
} LayerOffsets;

typedef struct ParamSet {
    Param *param; // owned, host heap
    int n;
    ParamBlock *block; // owned: n_layer + 2
    int n_block;
    int64_t total;      // elements of a flat buffer
    int64_t n_params;   // parameters of the model, without padding
    LayerOffsets layer; // the same for every layer
    // from the start of block 0; -1: the model has none
    int64_t wte, wpe, wtt, embed_norm_w, embed_norm_b;
    // from the start of the last block
    int64_t head; // -1: the token embedding is the output matrix, or there is none
    int64_t final_w, final_b;
    int64_t pooler_w, pooler_b;
    int64_t mlm_w, mlm_b, mlm_norm_w, mlm_norm_b, mlm_bias; // mlm_bias [Vp]: of the logits
    int64_t out_w, out_b; // next sentence, labels, or the ends of an answer
} ParamSet;

typedef struct Weights { // what the model computes with
    void *flat;          // [total] dtype
    DType dtype;
    const ParamSet *params;
} Weights;

LT_C_BEGIN
int64_t layer_matrix(const LayerOffsets *l, LinearId id); // the place of its weight
LT_MUST_CHECK Status params_layout(ParamSet *s, const ModelConfig *c, Err *err);
void params_free(ParamSet *s);
// The initialisation into a zeroed flat f32 host buffer: N(0, std), GPT-2's residual projections
// scaled by 1/sqrt(2 n_layer); parameter i, element j depends on (seed, i, j) alone.
void params_init(const ParamSet *s, float *flat, uint64_t seed);
// A Tensor view of every parameter in a flat host buffer, for checkpoints. `prefix` goes before the
// name ("m."); out has room for s->n.
void params_tensors(const ParamSet *s, void *flat, DType dtype, const char *prefix, Tensor *out);

const void *weights_take(const Weights *w, int block); // start of the block's weights
void weights_give(const Weights *w, int block);
LT_C_END
