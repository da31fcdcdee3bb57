// hf_config_text.c -- the config.json we write: keys in the order transformers has them.
//
// transformers 5 reads dtype where 4 reads torch_dtype: both are written.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/hf.h"

#include "engine/base/json_text.h"
#include "engine/base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Status put_string(Buf *b, const char *value, Err *err)
{
    json_t *j = json_string(value);
    if (!j) return mem_err(err, strlen(value), "config.json"); // these are UTF-8, as all JSON
    const Status s = json_text_append(b, j, JSON_ENCODE_ANY, err);
    json_decref(j);
    return s;
}

static Status put_text(Buf *b, const char *key, const char *value, Err *err)
{
    TRY(buf_printf(b, err, "  \"%s\": ", key));
    TRY(put_string(b, value, err));
    return buf_puts(b, ",\n", err);
}

static Status put_bool(Buf *b, const char *key, bool value, Err *err)
{
    return buf_printf(b, err, "  \"%s\": %s,\n", key, value ? "true" : "false");
}

static Status put_int(Buf *b, const char *key, int64_t value, Err *err)
{
    return buf_printf(b, err, "  \"%s\": %" PRId64 ",\n", key, value);
}

static Status put_token(Buf *b, const char *key, int64_t id, Err *err)
{
    return id < 0 ? buf_printf(b, err, "  \"%s\": null,\n", key) : put_int(b, key, id, err);
}

// The shortest decimal that reads back as the same double.
static Status put_real(Buf *b, const char *key, double value, Err *err)
{
    if (!isfinite(value))
        return err_set(err, ERR_FORMAT, "config.json: %s is %g and cannot be written", key, value);
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (!(strtod(text, NULL) < value) && !(strtod(text, NULL) > value)) break;
    }
    const bool whole = !strpbrk(text, ".e");
    return buf_printf(b, err, "  \"%s\": %s%s,\n", key, text, whole ? ".0" : "");
}

static Status put_architecture(Buf *b, const HfConfig *c, Err *err)
{
    return buf_printf(b, err, "  \"architectures\": [\n    \"%s\"\n  ],\n", c->architecture);
}

static Status put_last(Buf *b, const HfConfig *c, Err *err)
{
    return buf_printf(b, err, "  \"vocab_size\": %" PRId64 "\n", c->vocab_size);
}

static Status put_gpt2(const HfConfig *c, Buf *b, Err *err)
{
    TRY(put_text(b, "activation_function", c->activation, err));
    TRY(put_architecture(b, c, err));
    TRY(put_real(b, "attn_pdrop", c->attn_pdrop, err));
    if (!c->bias) TRY(put_bool(b, "bias", false, err));
    TRY(put_token(b, "bos_token_id", c->bos_token_id, err));
    TRY(put_text(b, "dtype", c->dtype, err));
    TRY(put_real(b, "embd_pdrop", c->embd_pdrop, err));
    TRY(put_token(b, "eos_token_id", c->eos_token_id, err));
    TRY(put_real(b, "initializer_range", c->initializer_range, err));
    TRY(put_real(b, "layer_norm_epsilon", c->layer_norm_epsilon, err));
    TRY(put_text(b, "model_type", c->model_type, err));
    TRY(put_int(b, "n_ctx", c->n_positions, err));
    TRY(put_int(b, "n_embd", c->n_embd, err));
    TRY(put_int(b, "n_head", c->n_head, err));
    TRY(put_int(b, "n_inner", c->n_inner, err));
    TRY(put_int(b, "n_layer", c->n_layer, err));
    TRY(put_int(b, "n_positions", c->n_positions, err));
    TRY(put_real(b, "resid_pdrop", c->resid_pdrop, err));
    TRY(put_bool(b, "scale_attn_weights", c->scale_attn_weights, err));
    TRY(put_bool(b, "tie_word_embeddings", c->tie_word_embeddings, err));
    TRY(put_text(b, "torch_dtype", c->dtype, err));
    TRY(put_bool(b, "use_cache", true, err));
    return put_last(b, c, err);
}

static Status put_id2label(const HfConfig *c, Buf *b, Err *err)
{
    TRY(buf_puts(b, "  \"id2label\": {", err));
    for (int64_t i = 0; i < c->n_labels; i++) {
        TRY(buf_printf(b, err, "%s\n    \"%" PRId64 "\": ", i ? "," : "", i));
        TRY(put_string(b, c->label[i], err));
    }
    return buf_puts(b, "\n  },\n", err);
}

static Status put_label2id(const HfConfig *c, Buf *b, Err *err)
{
    TRY(buf_puts(b, "  \"label2id\": {", err));
    for (int64_t i = 0; i < c->n_labels; i++) {
        TRY(buf_puts(b, i ? ",\n    " : "\n    ", err));
        TRY(put_string(b, c->label[i], err));
        TRY(buf_printf(b, err, ": %" PRId64, i));
    }
    return buf_puts(b, "\n  },\n", err);
}

// What BERT's config.json has no words for.
static Status check_bert(const HfConfig *c, Err *err)
{
    if (!c->bias || !c->scale_attn_weights)
        return err_set(err, ERR_UNSUPPORTED, "config.json cannot say that a BERT has no %s",
                       c->bias ? "scaled attention" : "biases");
    if (c->embd_pdrop < c->resid_pdrop || c->embd_pdrop > c->resid_pdrop)
        return err_set(err, ERR_UNSUPPORTED,
                       "config.json has one dropout for embeddings and layers of a BERT, not %g "
                       "and %g",
                       c->embd_pdrop, c->resid_pdrop);
    return ERR_NONE;
}

static Status put_bert(const HfConfig *c, Buf *b, Err *err)
{
    TRY(check_bert(c, err));
    TRY(put_architecture(b, c, err));
    TRY(put_real(b, "attention_probs_dropout_prob", c->attn_pdrop, err));
    if (c->classifier_dropout < 0)
        TRY(buf_puts(b, "  \"classifier_dropout\": null,\n", err));
    else
        TRY(put_real(b, "classifier_dropout", c->classifier_dropout, err));
    TRY(put_text(b, "dtype", c->dtype, err));
    TRY(put_text(b, "hidden_act", c->activation, err));
    TRY(put_real(b, "hidden_dropout_prob", c->resid_pdrop, err));
    TRY(put_int(b, "hidden_size", c->n_embd, err));
    if (c->n_labels) TRY(put_id2label(c, b, err));
    TRY(put_real(b, "initializer_range", c->initializer_range, err));
    TRY(put_int(b, "intermediate_size", c->n_inner, err));
    if (c->n_labels) TRY(put_label2id(c, b, err));
    TRY(put_real(b, "layer_norm_eps", c->layer_norm_epsilon, err));
    TRY(put_int(b, "max_position_embeddings", c->n_positions, err));
    TRY(put_text(b, "model_type", c->model_type, err));
    TRY(put_int(b, "num_attention_heads", c->n_head, err));
    TRY(put_int(b, "num_hidden_layers", c->n_layer, err));
    TRY(put_token(b, "pad_token_id", c->pad_token_id, err));
    TRY(put_text(b, "position_embedding_type", "absolute", err));
    TRY(put_bool(b, "tie_word_embeddings", c->tie_word_embeddings, err));
    TRY(put_text(b, "torch_dtype", c->dtype, err));
    TRY(put_int(b, "type_vocab_size", c->n_types, err));
    TRY(put_bool(b, "use_cache", true, err));
    return put_last(b, c, err);
}

Status hf_config_text(const HfConfig *c, Buf *b, Err *err)
{
    TRY(buf_puts(b, "{\n", err));
    TRY(strcmp(c->model_type, "bert") == 0 ? put_bert(c, b, err) : put_gpt2(c, b, err));
    return buf_puts(b, "}\n", err);
}
