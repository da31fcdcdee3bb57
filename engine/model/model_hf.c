// model_hf.c -- see model_hf.h.
//
// SPDX-License-Identifier: MIT
#include "engine/model/model_hf.h"
#include "engine/base/assert.h"

#include <stdio.h>
#include <string.h>

// What Hugging Face calls the activations.
static const struct {
    const char *name;
    Activation act;
} activations[] = {
    {"gelu_new", ACT_GELU_TANH}, // first: what is written for the tanh form
    {"gelu_pytorch_tanh", ACT_GELU_TANH},
    {"gelu", ACT_GELU_ERF},
    {"relu", ACT_RELU},
};

// BERT's classes in transformers, and what of our model each is.
static const struct {
    const char *name;
    ModelHead head;
    bool pooler; // of HEAD_NONE: may be
} berts[] = {
    {"BertForPreTraining", HEAD_PRETRAIN, true},
    {"BertForMaskedLM", HEAD_MLM, false},
    {"BertModel", HEAD_NONE, true},
    {"BertForSequenceClassification", HEAD_CLASSIFY, true},
    {"BertForTokenClassification", HEAD_TAG, false},
    {"BertForQuestionAnswering", HEAD_QA, false},
};

static Status bert_from_hf(ModelConfig *c, const HfConfig *hf, Err *err)
{
    *c = model_config_bert(hf->n_layer, hf->n_head, hf->n_embd, hf->n_positions, hf->vocab_size);
    c->n_types = hf->n_types;
    c->pooler = hf->has_pooler;
    c->n_labels = hf->n_labels;
    for (size_t i = 0; i < LT_COUNT(berts); i++) {
        if (strcmp(hf->architecture, berts[i].name) != 0) continue;
        c->head = berts[i].head;
        return ERR_NONE;
    }
    return err_set(err, ERR_UNSUPPORTED, "architecture %s: lathe has no such BERT",
                   hf->architecture);
}

Status model_from_hf(ModelConfig *c, const HfConfig *hf, Err *err)
{
    const bool bert = strcmp(hf->model_type, "bert") == 0;
    if (!bert && strcmp(hf->model_type, "gpt2") != 0)
        return err_set(err, ERR_UNSUPPORTED, "model_type %s: lathe runs gpt2 and bert",
                       hf->model_type);
    *c = model_config_gpt2(hf->n_layer, hf->n_head, hf->n_embd, hf->n_positions, hf->vocab_size);
    if (bert) TRY(bert_from_hf(c, hf, err));
    c->n_inner = hf->n_inner;
    c->norm_eps = hf->layer_norm_epsilon;
    c->init_std = hf->initializer_range;
    c->dropout_embed = hf->embd_pdrop;
    c->dropout_attention = hf->attn_pdrop;
    c->dropout_residual = hf->resid_pdrop;
    c->tie_embeddings = hf->tie_word_embeddings;
    c->scale_attention = hf->scale_attn_weights;
    c->bias_qkv = c->bias_proj = c->bias_mlp = c->bias_norm = hf->bias;
    for (size_t i = 0; i < LT_COUNT(activations); i++) {
        if (strcmp(hf->activation, activations[i].name) == 0) {
            c->activation = activations[i].act;
            return model_config_check(c, err);
        }
    }
    return err_set(err, ERR_UNSUPPORTED, "activation %s: lathe has gelu_new, gelu and relu",
                   hf->activation);
}

static void bert_to_hf(HfConfig *hf, const ModelConfig *c)
{
    snprintf(hf->model_type, sizeof hf->model_type, "bert");
    hf->n_types = c->n_types;
    hf->bos_token_id = hf->eos_token_id = -1;
    hf->classifier_dropout = -1;
    if (c->head == HEAD_CLASSIFY || c->head == HEAD_TAG) hf->n_labels = c->n_labels;
    ASSERT(hf->n_labels <= HF_LABELS, "%lld labels", (long long)hf->n_labels);
    for (int64_t i = 0; i < hf->n_labels; i++)
        snprintf(hf->label[i], sizeof hf->label[i], "LABEL_%lld", (long long)i);
    for (size_t i = 0; i < LT_COUNT(berts); i++) {
        if (berts[i].head != c->head) continue;
        snprintf(hf->architecture, sizeof hf->architecture, "%s", berts[i].name);
        hf->has_pooler = berts[i].pooler && (c->pooler || c->head != HEAD_NONE);
        return;
    }
    ASSERT(false, "head %d is no BERT's", (int)c->head);
}

void model_to_hf(HfConfig *hf, const ModelConfig *c, int64_t end_token, DType dtype)
{
    *hf = (HfConfig){.n_layer = c->n_layer,
                     .n_head = c->n_head,
                     .n_embd = c->n_embd,
                     .n_inner = c->n_inner,
                     .n_positions = c->n_positions,
                     .vocab_size = c->vocab_size,
                     .layer_norm_epsilon = c->norm_eps,
                     .initializer_range = c->init_std,
                     .embd_pdrop = c->dropout_embed,
                     .attn_pdrop = c->dropout_attention,
                     .resid_pdrop = c->dropout_residual,
                     .tie_word_embeddings = c->tie_embeddings,
                     .scale_attn_weights = c->scale_attention,
                     .bias = c->bias_qkv,
                     .bos_token_id = end_token,
                     .eos_token_id = end_token};
    snprintf(hf->architecture, sizeof hf->architecture, "GPT2LMHeadModel");
    snprintf(hf->model_type, sizeof hf->model_type, "gpt2");
    if (c->norm_position == NORM_POST) bert_to_hf(hf, c);
    ASSERT(dtype == DTYPE_F32 || dtype == DTYPE_BF16 || dtype == DTYPE_F16, "%s",
           dtype_name(dtype));
    snprintf(hf->dtype, sizeof hf->dtype, "%s",
             dtype == DTYPE_F32    ? "float32"
             : dtype == DTYPE_BF16 ? "bfloat16"
                                   : "float16");
    for (size_t i = 0; i < LT_COUNT(activations); i++) {
        if (activations[i].act == c->activation) {
            snprintf(hf->activation, sizeof hf->activation, "%s", activations[i].name);
            return;
        }
    }
    ASSERT(false, "activation %d has no Hugging Face name", (int)c->activation);
}
