// hf_config.c -- config.json of GPT-2: what each key may hold, and the file we write.
//
// Keys that are absent get the value transformers gives them, except the sizes of the model, which
// must be there. transformers 4 wrote torch_dtype where 5 writes dtype: both are read and written.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/hf.h"

#include "checkpoints/json_read.h"
#include "engine/base/file.h"
#include "engine/base/json_text.h"
#include "engine/base/mem.h"

#include <inttypes.h>
#include <math.h>
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

static Status get_architecture(const Source *s, HfConfig *c, Err *err)
{
    char show[JSON_SHOW_CAP];
    TRY(get_text(s, "model_type", "", c->model_type, sizeof c->model_type, err));
    if (!c->model_type[0]) return err_set(err, ERR_FORMAT, "%s: model_type is missing", s->path);
    if (strcmp(c->model_type, "gpt2") != 0)
        return err_set(err, ERR_UNSUPPORTED, "%s: model_type \"%s\"; this version reads gpt2",
                       s->path, json_read_show(show, c->model_type));
    snprintf(c->architecture, sizeof c->architecture, "GPT2LMHeadModel");
    const json_t *list = json_object_get(s->root, "architectures");
    if (!list || json_is_null(list)) return ERR_NONE;
    if (!json_is_array(list)) return wrong(s, "architectures", list, "an array", err);
    const json_t *first = json_array_get(list, 0);
    if (!first) return ERR_NONE;
    if (!json_is_string(first)) return wrong(s, "architectures[0]", first, "a string", err);
    const char *name = json_string_value(first);
    if (strcmp(name, "GPT2LMHeadModel") == 0 || strcmp(name, "GPT2Model") == 0) return ERR_NONE;
    return err_set(err, ERR_UNSUPPORTED,
                   "%s: architecture \"%s\"; this version reads GPT2LMHeadModel and GPT2Model",
                   s->path, json_read_show(show, name));
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
    if (c->n_embd % c->n_head)
        return err_set(err, ERR_FORMAT,
                       "%s: n_embd %" PRId64 " is not a multiple of n_head %" PRId64, s->path,
                       c->n_embd, c->n_head);
    TRY(get_int(s, "bos_token_id", NULL, -1, INT32_MAX, -1, &c->bos_token_id, err));
    TRY(get_int(s, "eos_token_id", NULL, -1, INT32_MAX, -1, &c->eos_token_id, err));
    // Small models often keep GPT-2's 50256 beside a smaller vocabulary: no such token, then.
    if (c->bos_token_id >= c->vocab_size) c->bos_token_id = -1;
    if (c->eos_token_id >= c->vocab_size) c->eos_token_id = -1;
    return ERR_NONE;
}

static Status get_activation(const Source *s, HfConfig *c, Err *err)
{
    TRY(get_text(s, "activation_function", "gelu_new", c->activation, sizeof c->activation, err));
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
    return err_set(err, ERR_UNSUPPORTED,
                   "%s: activation_function \"%s\"; this version has gelu_new, gelu and relu",
                   s->path, json_read_show(show, c->activation));
}

static Status get_rest(const Source *s, HfConfig *c, Err *err)
{
    bool odd = false;
    TRY(get_real(s, "layer_norm_epsilon", 1e-30, 1, 1e-5, &c->layer_norm_epsilon, err));
    TRY(get_real(s, "initializer_range", 0, 1e3, 0.02, &c->initializer_range, err));
    TRY(get_real(s, "embd_pdrop", 0, 1, 0.1, &c->embd_pdrop, err));
    TRY(get_real(s, "attn_pdrop", 0, 1, 0.1, &c->attn_pdrop, err));
    TRY(get_real(s, "resid_pdrop", 0, 1, 0.1, &c->resid_pdrop, err));
    TRY(get_bool(s, "tie_word_embeddings", true, &c->tie_word_embeddings, err));
    TRY(get_bool(s, "scale_attn_weights", true, &c->scale_attn_weights, err));
    TRY(get_bool(s, "bias", true, &c->bias, err));
    char older[sizeof c->dtype];
    TRY(get_text(s, "torch_dtype", "float32", older, sizeof older, err));
    TRY(get_text(s, "dtype", older, c->dtype, sizeof c->dtype, err));
    const char *const unsupported[] = {"scale_attn_by_inverse_layer_idx", "add_cross_attention"};
    for (size_t i = 0; i < LT_COUNT(unsupported); i++) {
        TRY(get_bool(s, unsupported[i], false, &odd, err));
        if (odd)
            return err_set(err, ERR_UNSUPPORTED, "%s: %s is true; this version has no such model",
                           s->path, unsupported[i]);
    }
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
    if (e == ERR_NONE) e = get_sizes(&s, c, err);
    if (e == ERR_NONE) e = get_activation(&s, c, err);
    if (e == ERR_NONE) e = get_rest(&s, c, err);
    json_decref(s.root);
    return e;
}

static Status put_text(Buf *b, const char *key, const char *value, Err *err)
{
    json_t *j = json_string(value);
    if (!j) return mem_err(err, strlen(value), "config.json"); // these are UTF-8, as all JSON
    Status s = buf_printf(b, err, "  \"%s\": ", key);
    if (s == ERR_NONE) s = json_text_append(b, j, JSON_ENCODE_ANY, err);
    if (s == ERR_NONE) s = buf_puts(b, ",\n", err);
    json_decref(j);
    return s;
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

Status hf_config_text(const HfConfig *c, Buf *b, Err *err)
{
    TRY(buf_puts(b, "{\n", err));
    TRY(put_text(b, "activation_function", c->activation, err));
    TRY(buf_printf(b, err, "  \"architectures\": [\n    \"%s\"\n  ],\n", c->architecture));
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
    return buf_printf(b, err, "  \"vocab_size\": %" PRId64 "\n}\n", c->vocab_size);
}
