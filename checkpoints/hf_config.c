// hf_config.c -- reading config.json of GPT-2 and BERT: what each key may hold.
//
// Keys that are absent get the value transformers gives them, except the sizes of the model, which
// must be there. transformers 4 wrote torch_dtype where 5 writes dtype: both are read.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/hf.h"

#include "checkpoints/hf_files.h"
#include "checkpoints/json_read.h"
#include "engine/base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_MAX = 16 << 20 };

typedef struct Source {
    const char *path;
    json_t *root;
} Source;

static Status wrong(const Source *s, const char *key, const json_t *j, const char *want, Err *err)
{
    return err_set(err, ERR_FORMAT, "%s: %s is %s, expected %s", s->path, key, json_read_kind(j),
                   want);
}

// An integer in [min, max] under `key`, or its other name. absent: the value when it is missing or
// null, below min: it must be there.
static Status get_int(const Source *s, const char *key, const char *other, int64_t min, int64_t max,
                      int64_t absent, int64_t *out, Err *err)
{
    const json_t *j = json_object_get(s->root, key);
    if (!j && other) j = json_object_get(s->root, other);
    if (!j || json_is_null(j)) {
        if (absent < min) return err_set(err, ERR_FORMAT, "%s: %s is missing", s->path, key);
        *out = absent;
        return ERR_NONE;
    }
    if (!json_is_integer(j)) return wrong(s, key, j, "an integer", err);
    const int64_t v = json_integer_value(j);
    if (v < min || v > max)
        return err_set(err, ERR_FORMAT,
                       "%s: %s is %" PRId64 ", expected a value from %" PRId64 " to %" PRId64,
                       s->path, key, v, min, max);
    *out = v;
    return ERR_NONE;
}

static Status get_real(const Source *s, const char *key, double min, double below, double absent,
                       double *out, Err *err)
{
    const json_t *j = json_object_get(s->root, key);
    *out = absent;
    if (!j) return ERR_NONE;
    if (!json_is_number(j)) return wrong(s, key, j, "a number", err);
    const double v = json_number_value(j);
    if (!(v >= min && v < below))
        return err_set(err, ERR_FORMAT, "%s: %s is %g, expected at least %g and less than %g",
                       s->path, key, v, min, below);
    *out = v;
    return ERR_NONE;
}

static Status get_bool(const Source *s, const char *key, bool absent, bool *out, Err *err)
{
    const json_t *j = json_object_get(s->root, key);
    *out = absent;
    if (!j) return ERR_NONE;
    if (!json_is_boolean(j)) return wrong(s, key, j, "true or false", err);
    *out = json_is_true(j);
    return ERR_NONE;
}

static Status get_text(const Source *s, const char *key, const char *absent, char *out, size_t cap,
                       Err *err)
{
    const json_t *j = json_object_get(s->root, key);
    if (j && !json_is_string(j) && !json_is_null(j)) return wrong(s, key, j, "a string", err);
    const char *v = json_is_string(j) ? json_string_value(j) : absent;
    char show[JSON_SHOW_CAP];
    if (strlen(v) >= cap)
        return err_set(err, ERR_FORMAT, "%s: %s is too long: \"%s\"", s->path, key,
                       json_read_show(show, v));
    snprintf(out, cap, "%s", v);
    return ERR_NONE;
}

// Architectures by the name of their class in transformers. The first of a model type is the one
// when config.json names none.
static const struct {
    const char *type, *name;
    bool pooler, labels;
} architectures[] = {
    {"gpt2", "GPT2LMHeadModel", false, false},
    {"bert", "BertModel", true, false}, // its pooler is optional, and only the weights tell
    {"bert", "BertForPreTraining", true, false},
    {"bert", "BertForMaskedLM", false, false},
    {"bert", "BertForSequenceClassification", true, true},
    {"bert", "BertForTokenClassification", false, true},
    {"bert", "BertForQuestionAnswering", false, false},
};

static int architecture_of(const char *type, const char *name)
{
    for (int i = 0; i < (int)LT_COUNT(architectures); i++)
        if (strcmp(architectures[i].type, type) == 0 &&
            (!name || strcmp(architectures[i].name, name) == 0))
            return i;
    return -1;
}

static Status unknown_architecture(const Source *s, const char *type, const char *name, Err *err)
{
    char show[JSON_SHOW_CAP];
    json_read_show(show, name);
    if (strcmp(type, "gpt2") == 0)
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: architecture \"%s\"; this version reads GPT2LMHeadModel and GPT2Model",
                       s->path, show);
    return err_set(err, ERR_UNSUPPORTED,
                   "%s: architecture \"%s\"; this version reads BertModel and BertFor... "
                   "PreTraining, MaskedLM, SequenceClassification, TokenClassification, "
                   "QuestionAnswering",
                   s->path, show);
}

static Status get_architecture(const Source *s, HfConfig *c, Err *err)
{
    char show[JSON_SHOW_CAP];
    TRY(get_text(s, "model_type", "", c->model_type, sizeof c->model_type, err));
    if (!c->model_type[0]) return err_set(err, ERR_FORMAT, "%s: model_type is missing", s->path);
    int at = architecture_of(c->model_type, NULL);
    if (at < 0)
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: model_type \"%s\"; this version reads gpt2 and bert", s->path,
                       json_read_show(show, c->model_type));
    const json_t *list = json_object_get(s->root, "architectures");
    if (list && !json_is_null(list) && !json_is_array(list))
        return wrong(s, "architectures", list, "an array", err);
    const json_t *first = json_array_get(list, 0);
    if (first) {
        if (!json_is_string(first)) return wrong(s, "architectures[0]", first, "a string", err);
        const char *name = json_string_value(first);
        // The trunk of GPT-2 with its tied output layer is a whole language model.
        const bool trunk = strcmp(name, "GPT2Model") == 0;
        at = architecture_of(c->model_type, trunk ? "GPT2LMHeadModel" : name);
        if (at < 0) return unknown_architecture(s, c->model_type, name, err);
    }
    snprintf(c->architecture, sizeof c->architecture, "%s", architectures[at].name);
    c->has_pooler = architectures[at].pooler;
    c->n_labels = architectures[at].labels; // how many, get_labels finds out
    return ERR_NONE;
}

// A token's id; one beyond the vocabulary is none: small models often keep GPT-2's 50256.
static Status get_token(const Source *s, const char *key, int64_t absent, const HfConfig *c,
                        int64_t *out, Err *err)
{
    const bool none = json_is_null(json_object_get(s->root, key));
    TRY(get_int(s, key, NULL, -1, INT32_MAX, none ? -1 : absent, out, err));
    if (*out >= c->vocab_size) *out = -1;
    return ERR_NONE;
}

static Status check_heads(const Source *s, const HfConfig *c, const char *embd, const char *head,
                          Err *err)
{
    if (c->n_embd % c->n_head == 0) return ERR_NONE;
    return err_set(err, ERR_FORMAT, "%s: %s %" PRId64 " is not a multiple of %s %" PRId64, s->path,
                   embd, c->n_embd, head, c->n_head);
}

static Status get_sizes(const Source *s, HfConfig *c, Err *err)
{
    TRY(get_int(s, "n_layer", "num_hidden_layers", 1, 4095, -1, &c->n_layer, err));
    TRY(get_int(s, "n_head", "num_attention_heads", 1, 65535, -1, &c->n_head, err));
    TRY(get_int(s, "n_embd", "hidden_size", 1, 1 << 20, -1, &c->n_embd, err));
    TRY(get_int(s, "vocab_size", NULL, 1, 1 << 30, -1, &c->vocab_size, err));
    TRY(get_int(s, "n_inner", NULL, 1, 1 << 24, 4 * c->n_embd, &c->n_inner, err));
    int64_t n_ctx = 0;
    TRY(get_int(s, "n_ctx", NULL, 1, 1 << 24, 1024, &n_ctx, err));
    TRY(get_int(s, "n_positions", "max_position_embeddings", 1, 1 << 24, n_ctx, &c->n_positions,
                err));
    TRY(check_heads(s, c, "n_embd", "n_head", err));
    TRY(get_token(s, "bos_token_id", -1, c, &c->bos_token_id, err));
    return get_token(s, "eos_token_id", -1, c, &c->eos_token_id, err);
}

static Status get_bert_sizes(const Source *s, HfConfig *c, Err *err)
{
    TRY(get_int(s, "num_hidden_layers", NULL, 1, 4095, -1, &c->n_layer, err));
    TRY(get_int(s, "num_attention_heads", NULL, 1, 65535, -1, &c->n_head, err));
    TRY(get_int(s, "hidden_size", NULL, 1, 1 << 20, -1, &c->n_embd, err));
    TRY(get_int(s, "vocab_size", NULL, 1, 1 << 30, -1, &c->vocab_size, err));
    TRY(get_int(s, "intermediate_size", NULL, 1, 1 << 24, -1, &c->n_inner, err));
    TRY(get_int(s, "max_position_embeddings", NULL, 1, 1 << 24, 512, &c->n_positions, err));
    TRY(get_int(s, "type_vocab_size", NULL, 1, 1 << 16, 2, &c->n_types, err));
    TRY(check_heads(s, c, "hidden_size", "num_attention_heads", err));
    c->bos_token_id = c->eos_token_id = -1;
    return get_token(s, "pad_token_id", 0, c, &c->pad_token_id, err);
}

static Status get_activation(const Source *s, const char *key, const char *absent, HfConfig *c,
                             Err *err)
{
    TRY(get_text(s, key, absent, c->activation, sizeof c->activation, err));
    const char *const same[] = {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"}; // one formula
    const char *const known[] = {"gelu", "relu"};
    for (size_t i = 0; i < LT_COUNT(same); i++) {
        if (strcmp(c->activation, same[i]) != 0) continue;
        snprintf(c->activation, sizeof c->activation, "gelu_new");
        return ERR_NONE;
    }
    for (size_t i = 0; i < LT_COUNT(known); i++)
        if (strcmp(c->activation, known[i]) == 0) return ERR_NONE;
    char show[JSON_SHOW_CAP];
    return err_set(err, ERR_UNSUPPORTED, "%s: %s \"%s\"; this version has gelu_new, gelu and relu",
                   s->path, key, json_read_show(show, c->activation));
}

static Status get_dtype(const Source *s, HfConfig *c, Err *err)
{
    char older[sizeof c->dtype];
    TRY(get_text(s, "torch_dtype", "float32", older, sizeof older, err));
    return get_text(s, "dtype", older, c->dtype, sizeof c->dtype, err);
}

// Switches of transformers that must be off.
static Status refuse(const Source *s, const char *const *key, size_t n, Err *err)
{
    for (size_t i = 0; i < n; i++) {
        bool on = false;
        TRY(get_bool(s, key[i], false, &on, err));
        if (on)
            return err_set(err, ERR_UNSUPPORTED, "%s: %s is true; this version has no such model",
                           s->path, key[i]);
    }
    return ERR_NONE;
}

static Status get_rest(const Source *s, HfConfig *c, Err *err)
{
    TRY(get_real(s, "layer_norm_epsilon", 1e-30, 1, 1e-5, &c->layer_norm_epsilon, err));
    TRY(get_real(s, "initializer_range", 0, 1e3, 0.02, &c->initializer_range, err));
    TRY(get_real(s, "embd_pdrop", 0, 1, 0.1, &c->embd_pdrop, err));
    TRY(get_real(s, "attn_pdrop", 0, 1, 0.1, &c->attn_pdrop, err));
    TRY(get_real(s, "resid_pdrop", 0, 1, 0.1, &c->resid_pdrop, err));
    TRY(get_bool(s, "tie_word_embeddings", true, &c->tie_word_embeddings, err));
    TRY(get_bool(s, "scale_attn_weights", true, &c->scale_attn_weights, err));
    TRY(get_bool(s, "bias", true, &c->bias, err));
    TRY(get_dtype(s, c, err));
    const char *const off[] = {"scale_attn_by_inverse_layer_idx", "add_cross_attention"};
    return refuse(s, off, LT_COUNT(off), err);
}

// Texts that must have one value when they are there.
static Status want_text(const Source *s, const char *key, const char *want, Err *err)
{
    char text[64], show[JSON_SHOW_CAP];
    TRY(get_text(s, key, want, text, sizeof text, err));
    if (strcmp(text, want) == 0) return ERR_NONE;
    return err_set(err, ERR_UNSUPPORTED, "%s: %s is \"%s\"; this version has %s", s->path, key,
                   json_read_show(show, text), want);
}

static Status get_bert_rest(const Source *s, HfConfig *c, Err *err)
{
    TRY(get_real(s, "layer_norm_eps", 1e-30, 1, 1e-12, &c->layer_norm_epsilon, err));
    TRY(get_real(s, "initializer_range", 0, 1e3, 0.02, &c->initializer_range, err));
    TRY(get_real(s, "hidden_dropout_prob", 0, 1, 0.1, &c->resid_pdrop, err));
    TRY(get_real(s, "attention_probs_dropout_prob", 0, 1, 0.1, &c->attn_pdrop, err));
    c->embd_pdrop = c->resid_pdrop;
    c->classifier_dropout = -1;
    if (!json_is_null(json_object_get(s->root, "classifier_dropout")))
        TRY(get_real(s, "classifier_dropout", 0, 1, -1, &c->classifier_dropout, err));
    TRY(get_bool(s, "tie_word_embeddings", true, &c->tie_word_embeddings, err));
    c->scale_attn_weights = c->bias = true;
    TRY(get_dtype(s, c, err));
    TRY(want_text(s, "position_embedding_type", "absolute", err));
    if (c->n_labels) TRY(want_text(s, "problem_type", "single_label_classification", err));
    const char *const off[] = {"is_decoder", "add_cross_attention"};
    return refuse(s, off, LT_COUNT(off), err);
}

// The label of one id; key is the id in decimal.
static Status get_label(const Source *s, HfConfig *c, const char *key, const json_t *value,
                        Err *err)
{
    char show[JSON_SHOW_CAP], plain[24];
    const long id = strtol(key, NULL, 10);
    snprintf(plain, sizeof plain, "%ld", id);
    if (strcmp(key, plain) != 0 || id < 0 || id >= c->n_labels)
        return err_set(err, ERR_FORMAT, "%s: id2label has the id \"%s\", expected 0 to %" PRId64,
                       s->path, json_read_show(show, key), c->n_labels - 1);
    if (!json_is_string(value))
        return err_set(err, ERR_FORMAT, "%s: id2label[\"%ld\"] is %s, expected a string", s->path,
                       id, json_read_kind(value));
    const char *name = json_string_value(value);
    if (!*name) return err_set(err, ERR_FORMAT, "%s: label %ld is empty", s->path, id);
    if (strlen(name) >= HF_LABEL_CAP)
        return err_set(err, ERR_FORMAT, "%s: label %ld is longer than %d bytes: \"%s\"", s->path,
                       id, HF_LABEL_CAP - 1, json_read_show(show, name));
    for (int64_t i = 0; i < c->n_labels; i++)
        if (i != id && strcmp(c->label[i], name) == 0)
            return err_set(err, ERR_FORMAT, "%s: labels %" PRId64 " and %ld are both \"%s\"",
                           s->path, LT_MIN(i, id), LT_MAX(i, id), json_read_show(show, name));
    snprintf(c->label[id], sizeof c->label[id], "%s", name);
    return ERR_NONE;
}

// id2label; label2id is its inverse and not asked. Without it num_labels (2) named LABEL_0 ...
static Status get_labels(const Source *s, HfConfig *c, Err *err)
{
    json_t *map = json_object_get(s->root, "id2label");
    if (!c->n_labels) return ERR_NONE;
    if (!map || json_is_null(map)) {
        TRY(get_int(s, "num_labels", NULL, 1, HF_LABELS, 2, &c->n_labels, err));
        for (int64_t i = 0; i < c->n_labels; i++)
            snprintf(c->label[i], sizeof c->label[i], "LABEL_%" PRId64, i);
        return ERR_NONE;
    }
    if (!json_is_object(map)) return wrong(s, "id2label", map, "an object", err);
    const size_t n = json_object_size(map);
    if (n < 1 || n > HF_LABELS)
        return err_set(err, ERR_FORMAT, "%s: id2label has %zu labels, expected 1 to %d", s->path, n,
                       HF_LABELS);
    c->n_labels = (int64_t)n;
    const char *key;
    json_t *value;
    json_object_foreach(map, key, value) TRY(get_label(s, c, key, value, err));
    return ERR_NONE;
}

static Status get_gpt2(const Source *s, HfConfig *c, Err *err)
{
    TRY(get_sizes(s, c, err));
    TRY(get_activation(s, "activation_function", "gelu_new", c, err));
    return get_rest(s, c, err);
}

static Status get_bert(const Source *s, HfConfig *c, Err *err)
{
    TRY(get_bert_sizes(s, c, err));
    TRY(get_activation(s, "hidden_act", "gelu", c, err));
    TRY(get_bert_rest(s, c, err));
    return get_labels(s, c, err);
}

// Nothing in config.json says whether a BertModel has its pooler.
static Status look_for_pooler(HfConfig *c, const char *dir, Err *err)
{
    char single[PATH_CAP], index[PATH_CAP];
    if (strcmp(c->architecture, "BertModel") != 0) return ERR_NONE;
    TRY(path_join(single, dir, "model.safetensors", err));
    TRY(path_join(index, dir, "model.safetensors.index.json", err));
    if (!file_exists(single) && !file_exists(index)) return ERR_NONE; // only loading needs them
    HfFiles f;
    TRY(hf_files_open(&f, dir, err));
    c->has_pooler = hf_files_find(&f, "pooler.dense.weight") != NULL;
    hf_files_close(&f);
    return ERR_NONE;
}

Status hf_config_read(HfConfig *c, const char *dir, Err *err)
{
    char path[PATH_CAP];
    Source s = {.path = path};
    *c = (HfConfig){0};
    TRY(path_join(path, dir, "config.json", err));
    TRY(json_read_object(&s.root, path, CONFIG_MAX, err));
    Status e = get_architecture(&s, c, err);
    if (e == ERR_NONE)
        e = strcmp(c->model_type, "bert") == 0 ? get_bert(&s, c, err) : get_gpt2(&s, c, err);
    json_decref(s.root);
    return e == ERR_NONE ? look_for_pooler(c, dir, err) : e;
}
