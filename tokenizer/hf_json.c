// hf_json.c -- see hf_json.h.
//
// SPDX-License-Identifier: MIT
#include "tokenizer/hf_json.h"
#include "engine/base/json_text.h"
#include "engine/base/mem.h"

#include <inttypes.h>
#include <string.h>

Status hf_parse(json_t **out, const Buf *text, Err *err)
{
    json_error_t e;
    const Status s = json_text_parse(out, text->data ? text->data : "", text->len,
                                     JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e, err);
    if (s == ERR_FORMAT)
        return err_set(err, s, "not JSON: %s, line %d column %d", e.text, e.line, e.column);
    return s;
}

bool hf_off(const json_t *v)
{
    return !v || json_is_null(v) || json_is_false(v);
}

bool hf_empty(const json_t *v)
{
    return hf_off(v) || (json_is_string(v) && json_string_length(v) == 0);
}

const char *hf_type(const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    return type ? type : "(no type)";
}

Status hf_id(const json_t *v, const char *key, int32_t *id, Err *err)
{
    if (!json_is_integer(v))
        return err_set(err, ERR_FORMAT, "the id of the token \"%.60s\" is not an integer", key);
    const json_int_t n = json_integer_value(v);
    if (n < 0 || n >= TOKEN_MAX_ID)
        return err_set(err, ERR_FORMAT, "the id %" PRId64 " of the token \"%.60s\" is out of range",
                       (int64_t)n, key);
    *id = (int32_t)n;
    return ERR_NONE;
}

Status hf_check_vocab(const json_t *vocab, Err *err)
{
    if (!json_is_object(vocab)) return err_set(err, ERR_FORMAT, "the vocabulary is not an object");
    if (json_object_size(vocab) == 0) return err_set(err, ERR_FORMAT, "the vocabulary is empty");
    return ERR_NONE;
}

// An added token is there once, and has the same id in the vocabulary if that has it, too.
static Status check_added(json_t *seen, const json_t *vocab, const json_t *content, int64_t id,
                          Err *err)
{
    const char *text = json_string_value(content);
    if (strlen(text) != json_string_length(content))
        return err_set(err, ERR_UNSUPPORTED, "the added token %" PRId64 " holds a zero byte", id);
    const json_t *v = json_object_get(vocab, text);
    if (v && json_integer_value(v) != id)
        return err_set(err, ERR_FORMAT,
                       "the added token \"%.60s\" has the id %" PRId64 ", and %" PRId64
                       " in the vocabulary",
                       text, id, (int64_t)json_integer_value(v));
    if (json_object_get(seen, text))
        return err_set(err, ERR_FORMAT, "the added token \"%.60s\" is there twice", text);
    if (json_object_set_new(seen, text, json_true()) != 0) return mem_err(err, 64, "added tokens");
    return ERR_NONE;
}

static Status read_added(Tokenizer *t, const json_t *list, const json_t *vocab, json_t *seen,
                         bool normalizes, Err *err)
{
    size_t i;
    json_t *a;
    json_array_foreach(list, i, a)
    {
        const json_t *content = json_object_get(a, "content"), *id = json_object_get(a, "id");
        if (!json_is_string(content) || !json_is_integer(id))
            return err_set(err, ERR_FORMAT, "added token %zu has no content or no id", i);
        const char *text = json_string_value(content);
        const bool special = json_is_true(json_object_get(a, "special"));
        const bool normal = !hf_off(json_object_get(a, "normalized")) && normalizes;
        const uint32_t around = (normal ? TOKEN_NORMAL : 0u) |
                                (hf_off(json_object_get(a, "lstrip")) ? 0u : TOKEN_LSTRIP) |
                                (hf_off(json_object_get(a, "rstrip")) ? 0u : TOKEN_RSTRIP) |
                                (hf_off(json_object_get(a, "single_word")) ? 0u : TOKEN_WORD);
        if (around && !special)
            return err_set(err, ERR_UNSUPPORTED,
                           "the added token \"%.60s\" depends on the text around it", text);
        const uint32_t flags = (special ? TOKEN_SPECIAL : TOKEN_ALWAYS) | around;
        TRY(check_added(seen, vocab, content, json_integer_value(id), err));
        TRY(vocab_add(t, json_integer_value(id), text, json_string_length(content), flags, err));
    }
    return ERR_NONE;
}

Status hf_read_added(Tokenizer *t, const json_t *list, const json_t *vocab, bool normalizes,
                     Err *err)
{
    if (!list || json_is_null(list)) return ERR_NONE;
    if (!json_is_array(list)) return err_set(err, ERR_FORMAT, "\"added_tokens\" is not an array");
    json_t *seen = json_object();
    const Status s =
        seen ? read_added(t, list, vocab, seen, normalizes, err) : mem_err(err, 64, "added tokens");
    json_decref(seen);
    return s;
}
