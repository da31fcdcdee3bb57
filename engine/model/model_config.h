// model_config.h -- one description for every transformer lathe knows.
//
// GPT-2 is: learned positions, pre-norm, causal, tanh GELU, biases everywhere, tied embeddings.
// GPT-Neo is GPT-2 with an attention window on every other layer, attention scale 1 and no bias in
// qkv; BERT is bidirectional, post-norm, with token types and a head other than HEAD_LM. What a
// field can express and no model runs is refused by model_config_check, not ignored.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "kernels/ops/matmul.h"

enum { MODEL_WINDOWS = 8 };

typedef enum NormPosition { NORM_PRE = 0, NORM_POST } NormPosition;

typedef enum ModelHead {
    HEAD_LM = 0,   // the next token, at every row
    HEAD_PRETRAIN, // BERT: masked tokens, at picked rows; and the next sentence, from the pooler
    HEAD_MLM,      // masked tokens alone
    HEAD_NONE,     // the trunk: embeddings (with or without a pooler)
    HEAD_CLASSIFY, // one of n_labels a sequence, from the pooler
    HEAD_TAG,      // one of n_labels at picked rows
    HEAD_QA        // first and last token of an answer
} ModelHead;

typedef struct ModelConfig {
    int64_t n_layer, n_head, n_embd;
    int64_t n_inner;     // MLP width F
    int64_t n_positions; // rows of the position table: the longest context
    int64_t vocab_size;  // V: ids the tokenizer may use
    int64_t n_types;     // token types (0: none)
    NormPosition norm_position; // NORM_POST: a norm on the embeddings, too, and none at the end
    ModelHead head;
    bool pooler;      // tanh(W x + b) of a sequence's first token
    int64_t n_labels; // of HEAD_CLASSIFY, HEAD_TAG
    bool causal;
    bool bias_qkv, bias_proj, bias_mlp, bias_norm;
    bool tie_embeddings;
    bool scale_attention; // scores times 1/sqrt(D)
    Activation activation;
    int64_t window[MODEL_WINDOWS]; // attention window of layer l: window[l % n_window]; 0 = all
    int n_window;                  // 0: no windows
    double norm_eps;
    double init_std;
    double dropout_embed, dropout_attention, dropout_residual;
} ModelConfig;

LT_C_BEGIN
// GPT-2 with these sizes and everything else as GPT-2 has it.
ModelConfig model_config_gpt2(int64_t n_layer, int64_t n_head, int64_t n_embd, int64_t n_positions,
                              int64_t vocab_size);
// BERT likewise: post-norm, two token types, erf GELU, eps 1e-12, HEAD_PRETRAIN with its pooler.
ModelConfig model_config_bert(int64_t n_layer, int64_t n_head, int64_t n_embd, int64_t n_positions,
                              int64_t vocab_size);
// Every problem at once, one a line.
LT_MUST_CHECK Status model_config_check(const ModelConfig *c, Err *err);
int64_t model_config_head_size(const ModelConfig *c);         // D
int64_t model_config_vocab_padded(const ModelConfig *c);      // Vp: V up to 128
int64_t model_config_window(const ModelConfig *c, int64_t l); // 0: unlimited
float model_config_scale(const ModelConfig *c);               // of attention scores
bool model_config_has_mlm(const ModelConfig *c);              // HEAD_PRETRAIN, HEAD_MLM
// Numbers that the small output layer gives (next sentence, labels, ends of an answer); 0: none.
int64_t model_config_outputs(const ModelConfig *c);
LT_C_END
