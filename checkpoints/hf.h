// hf.h -- Hugging Face model folders: config.json, and the names and orientations of tensors.
//
// The engine has one set of names and keeps every linear weight as [out, in]. A map says what a
// Hugging Face architecture calls each tensor and whether its file has it transposed (GPT-2's
// Conv1D weights are [in, out]).
//
//   engine                         GPT-2 (transformer. in front; also bare, module., _orig_mod.)
//   embed.token.weight   [V,C]     wte.weight
//   embed.position.weight [P,C]    wpe.weight
//   block.N.norm1.weight/bias      h.N.ln_1.weight/bias
//   block.N.attn.qkv.weight [3C,C] h.N.attn.c_attn.weight   [C,3C]
//   block.N.attn.qkv.bias   [3C]   h.N.attn.c_attn.bias
//   block.N.attn.proj.weight [C,C] h.N.attn.c_proj.weight   [C,C] transposed
//   block.N.attn.proj.bias         h.N.attn.c_proj.bias
//   block.N.norm2.weight/bias      h.N.ln_2.weight/bias
//   block.N.mlp.fc.weight  [F,C]   h.N.mlp.c_fc.weight      [C,F]
//   block.N.mlp.fc.bias            h.N.mlp.c_fc.bias
//   block.N.mlp.proj.weight [C,F]  h.N.mlp.c_proj.weight    [F,C]
//   block.N.mlp.proj.bias          h.N.mlp.c_proj.bias
//   final.norm.weight/bias         ln_f.weight/bias
//   head.weight          [V,C]     lm_head.weight (only when not tied)
//
//   engine                         BERT (bert. before trunk and pooler, but not in a BertModel)
//   embed.token.weight   [V,C]     embeddings.word_embeddings.weight
//   embed.position.weight [P,C]    embeddings.position_embeddings.weight
//   embed.type.weight    [S,C]     embeddings.token_type_embeddings.weight
//   embed.norm                     embeddings.LayerNorm (.gamma and .beta in the first ones)
//   block.N.attn.qkv [3C,C]        encoder.layer.N.attention.self.query, .key, .value   each [C,C]
//   block.N.attn.proj    [C,C]     encoder.layer.N.attention.output.dense
//   block.N.norm1                  encoder.layer.N.attention.output.LayerNorm
//   block.N.mlp.fc       [F,C]     encoder.layer.N.intermediate.dense
//   block.N.mlp.proj     [C,F]     encoder.layer.N.output.dense
//   block.N.norm2                  encoder.layer.N.output.LayerNorm
//   pooler               [C,C]     pooler.dense
//   mlm.dense, mlm.norm            cls.predictions.transform.dense, .LayerNorm
//   mlm.bias             [V]       cls.predictions.bias (and .decoder.bias)
//   head.weight          [V,C]     cls.predictions.decoder.weight (only when not tied)
//   nsp                  [2,C]     cls.seq_relationship
//   classify             [K,C]     classifier
//   qa                   [2,C]     qa_outputs
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "checkpoints/tensor.h"
#include "engine/base/buf.h"
#include "engine/base/err.h"

enum { HF_LABELS = 256, HF_LABEL_CAP = 64 };

// What a config.json says, in lathe's words. The engine turns it into its ModelConfig and back.
typedef struct HfConfig {
    char architecture[64];                    // "GPT2LMHeadModel", "BertForPreTraining", ...
    char model_type[32];                      // "gpt2", "bert"
    int64_t n_layer, n_head, n_embd, n_inner; // n_inner: MLP width, 4 n_embd when absent or null
    int64_t n_positions, vocab_size;
    double layer_norm_epsilon, initializer_range;
    double embd_pdrop, attn_pdrop, resid_pdrop; // BERT: embd = resid = hidden_dropout_prob
    char activation[32];                        // "gelu_new", "gelu", "relu"
    bool tie_word_embeddings;
    bool scale_attn_weights;
    bool bias; // lathe's own key, true when absent: false = no biases (nanoGPT's bias=False)
    int64_t bos_token_id, eos_token_id; // -1: none; BERT: not read
    char dtype[16]; // "float32", "bfloat16", "float16"; from dtype or torch_dtype
    // BERT only
    int64_t n_types;           // type_vocab_size
    int64_t pad_token_id;      // -1: none
    bool has_pooler;           // what the architecture says; of a BertModel, what its weights say
    double classifier_dropout; // kept for transformers; -1: as the other layers
    int64_t n_labels;          // of a sequence or token classification; else 0
    char label[HF_LABELS][HF_LABEL_CAP]; // id2label; each differs from the others
} HfConfig;

// A BERT's folder against a model on the same trunk; names as in the files: "pooler, classifier".
typedef struct HfHeads {
    char lacking[96];  // the model has, the folder has not: what was in their tensors stays there
    char ignored[256]; // the folder has, the model has not
} HfHeads;

LT_C_BEGIN
LT_MUST_CHECK Status hf_config_read(HfConfig *c, const char *dir, Err *err); // dir/config.json
LT_MUST_CHECK Status hf_config_text(const HfConfig *c, Buf *out, Err *err);  // the file's content

// Fill `t` (names, shapes, dtypes and memory given by the engine) from a model folder: one
// model.safetensors or model.safetensors.index.json with shards, prefixes and tied or untied
// heads as they come. A missing or extra tensor, a wrong shape, an absent shard: ERR_FORMAT that
// names it. Tied models: a file's lm_head.weight must equal wte.weight or be absent. Heads that a
// BERT's file has beyond `c` are ignored.
LT_MUST_CHECK Status hf_load(const char *dir, const HfConfig *c, Tensor *t, int n, Err *err);

// The same for a model with other heads than the folder's (fine-tuning): the trunk must be there,
// and each head of the folder that `model` has, too, is taken. A classifier is taken when it is of
// the same architecture and its labels are the same, in the same order. `model` is the config of
// the tensors. On failure no tensor was changed.
LT_MUST_CHECK Status hf_load_trunk(const char *dir, const HfConfig *model, Tensor *t, int n,
                                   HfHeads *heads, Err *err);

// Write dir/model.safetensors under Hugging Face names and orientation, as `as` (f32, bf16, f16).
LT_MUST_CHECK Status hf_save(const char *dir, const HfConfig *c, const Tensor *t, int n, DType as,
                             uint32_t *crc, uint64_t *bytes, Err *err);
LT_C_END
