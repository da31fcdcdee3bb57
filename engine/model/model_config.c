// model_config.c -- see model_config.h.
//
// SPDX-License-Identifier: MIT
#include "engine/model/model_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Rows of the padded token embedding: whole tiles for every matrix kernel (64-byte rows of AMX
// tiles, 128-row tiles of a GPU).
enum { VOCAB_MULTIPLE = 128 };

// Elements of any one buffer stay far below what int64 and size_t arithmetic can hold.
static const double MODEL_LARGEST = 1e15;

ModelConfig model_config_gpt2(int64_t n_layer, int64_t n_head, int64_t n_embd, int64_t n_positions,
                              int64_t vocab_size)
{
    return (ModelConfig){.n_layer = n_layer,
                         .n_head = n_head,
                         .n_embd = n_embd,
                         .n_inner = 4 * n_embd,
                         .n_positions = n_positions,
                         .vocab_size = vocab_size,
                         .norm_position = NORM_PRE,
                         .causal = true,
                         .bias_qkv = true,
                         .bias_proj = true,
                         .bias_mlp = true,
                         .bias_norm = true,
                         .tie_embeddings = true,
                         .scale_attention = true,
                         .activation = ACT_GELU_TANH,
                         .norm_eps = 1e-5,
                         .init_std = 0.02};
}

ModelConfig model_config_bert(int64_t n_layer, int64_t n_head, int64_t n_embd, int64_t n_positions,
                              int64_t vocab_size)
{
    ModelConfig c = model_config_gpt2(n_layer, n_head, n_embd, n_positions, vocab_size);
    c.norm_position = NORM_POST;
    c.head = HEAD_PRETRAIN;
    c.pooler = true;
    c.n_types = 2;
    c.causal = false;
    c.activation = ACT_GELU_ERF;
    c.norm_eps = 1e-12;
    return c;
}

Status model_config_check(const ModelConfig *c, Err *err)
{
    char text[1024] = "";
    size_t used = 0;
#define PROBLEM(cond, ...)                                                                         \
    do {                                                                                           \
        if ((cond) && used < sizeof text - 200) {                                                  \
            used += (size_t)snprintf(text + used, sizeof text - used, "%s", used ? "\n" : "");     \
            used += (size_t)snprintf(text + used, sizeof text - used, __VA_ARGS__);                \
        }                                                                                          \
    } while (0)
    PROBLEM(c->n_layer < 1 || c->n_layer > 4095, "n_layer = %lld: 1 to 4095",
            (long long)c->n_layer);
    PROBLEM(c->n_head < 1, "n_head = %lld: at least 1", (long long)c->n_head);
    PROBLEM(c->n_embd < 1, "n_embd = %lld: at least 1", (long long)c->n_embd);
    PROBLEM(c->n_head >= 1 && c->n_embd % c->n_head != 0,
            "n_head = %lld does not divide n_embd = %lld", (long long)c->n_head,
            (long long)c->n_embd);
    PROBLEM(c->n_inner < 1, "n_inner = %lld: at least 1", (long long)c->n_inner);
    PROBLEM(c->n_positions < 1, "n_positions = %lld: at least 1", (long long)c->n_positions);
    PROBLEM(c->vocab_size < 1 || c->vocab_size > (1 << 30), "vocab_size = %lld: 1 to 2^30",
            (long long)c->vocab_size);
    const bool bert = c->norm_position == NORM_POST;
    PROBLEM(bert != (c->head != HEAD_LM), "a decoder predicts the next token, an encoder does not");
    PROBLEM(c->n_types < 0 || c->n_types > (1 << 20), "n_types = %lld: 0 to 2^20",
            (long long)c->n_types);
    PROBLEM(!bert && c->n_types != 0, "token types are an encoder's");
    PROBLEM(!bert && c->pooler, "a pooler is an encoder's");
    PROBLEM(bert && c->causal, "an encoder is bidirectional");
    PROBLEM(bert && !(c->bias_qkv && c->bias_proj && c->bias_mlp && c->bias_norm),
            "an encoder has biases everywhere");
    PROBLEM((c->head == HEAD_PRETRAIN || c->head == HEAD_CLASSIFY) && !c->pooler,
            "the next sentence and the class of a text are read from the pooler");
    const bool labels = c->head == HEAD_CLASSIFY || c->head == HEAD_TAG;
    PROBLEM(labels && (c->n_labels < 1 || c->n_labels > (1 << 20)), "n_labels = %lld: 1 to 2^20",
            (long long)c->n_labels);
    PROBLEM(!(c->norm_eps > 0), "layer_norm_epsilon = %g: must be positive", c->norm_eps);
    PROBLEM(c->n_window < 0 || c->n_window > MODEL_WINDOWS, "at most %d attention windows",
            MODEL_WINDOWS);
    const double C = (double)c->n_embd, wide = (double)c->n_inner + 2 * C;
    const double weights =
        (double)c->n_layer * 2 * C * wide + C * ((double)c->vocab_size + (double)c->n_positions);
    PROBLEM(weights > MODEL_LARGEST, "%.3g parameters are more than any machine holds (limit %.0g)",
            weights, MODEL_LARGEST);
    const double drops[3] = {c->dropout_embed, c->dropout_attention, c->dropout_residual};
    for (int i = 0; i < 3; i++)
        PROBLEM(!(drops[i] >= 0 && drops[i] < 1), "dropout = %g: 0 <= dropout < 1", drops[i]);
#undef PROBLEM
    if (used) return err_set(err, ERR_USAGE, "%s", text);
    return ERR_NONE;
}

int64_t model_config_head_size(const ModelConfig *c)
{
    return c->n_embd / c->n_head;
}

int64_t model_config_vocab_padded(const ModelConfig *c)
{
    return LT_ROUND_UP(c->vocab_size, VOCAB_MULTIPLE);
}

int64_t model_config_window(const ModelConfig *c, int64_t l)
{
    return c->n_window ? c->window[l % c->n_window] : 0;
}

float model_config_scale(const ModelConfig *c)
{
    return c->scale_attention ? (float)(1.0 / sqrt((double)model_config_head_size(c))) : 1.0f;
}

bool model_config_has_mlm(const ModelConfig *c)
{
    return c->head == HEAD_PRETRAIN || c->head == HEAD_MLM;
}

int64_t model_config_outputs(const ModelConfig *c)
{
    switch (c->head) {
    case HEAD_PRETRAIN:
    case HEAD_QA: return 2;
    case HEAD_CLASSIFY:
    case HEAD_TAG: return c->n_labels;
    case HEAD_LM:
    case HEAD_MLM:
    case HEAD_NONE: return 0;
    }
    return 0;
}
