// load_wordpiece.c -- WordPiece from Hugging Face's tokenizer.json (as BertTokenizerFast writes it)
// and from BERT's own vocab.txt.
//
// Taken from a tokenizer.json: the normaliser BertNormalizer or none, the pre-tokeniser
// BertPreTokenizer, the prefix "##". The post-processor says which tokens may be put around a text;
// they are added only when asked for.
//
// A vocab.txt has a token a line, and its line is its id. Of these, [PAD], [UNK], [CLS], [SEP] and
// [MASK] are special. It does not say what the normaliser does: a tokenizer_config.json beside it
// does (do_lower_case, strip_accents, tokenize_chinese_chars); without one, or without these, text
// is lower case without accents, as BERT's own program has it.
//
// SPDX-License-Identifier: MIT
#include "engine/base/file.h"
#include "tokenizer/hf_json.h"

#include <inttypes.h>
#include <string.h>

// tokenizer.json ---------------------------------------------------------------------------------

bool hf_is_wordpiece(const json_t *model)
{
    if (json_object_get(model, "type")) return strcmp(hf_type(model), "WordPiece") == 0;
    return json_object_get(model, "max_input_chars_per_word") != NULL; // old files have no type
}

// strip may be absent or null: then it follows lower.
static uint32_t steps_of(bool clean, bool cjk, const json_t *strip, bool lower)
{
    const bool no_accents = json_is_boolean(strip) ? json_is_true(strip) : lower;
    return (clean ? (uint32_t)BERT_CLEAN : 0) | (cjk ? (uint32_t)BERT_CJK : 0) |
           (no_accents ? (uint32_t)BERT_STRIP : 0) | (lower ? (uint32_t)BERT_LOWER : 0);
}

static bool is_on(const json_t *object, const char *key, bool absent)
{
    const json_t *v = json_object_get(object, key);
    return json_is_boolean(v) ? json_is_true(v) : absent;
}

static Status read_normalizer(const json_t *v, uint32_t *steps, Err *err)
{
    *steps = 0;
    if (hf_off(v)) return ERR_NONE;
    if (strcmp(hf_type(v), "BertNormalizer") != 0)
        return err_set(
            err, ERR_UNSUPPORTED,
            "the normalizer is %s; of a WordPiece model, only BertNormalizer can be read",
            hf_type(v));
    *steps = steps_of(is_on(v, "clean_text", true), is_on(v, "handle_chinese_chars", true),
                      json_object_get(v, "strip_accents"), is_on(v, "lowercase", true));
    return ERR_NONE;
}

// The name of a special token -> its id.
static Status token_named(const Tokenizer *t, const json_t *vocab, const json_t *name, int32_t *id,
                          Err *err)
{
    const char *text = json_string_value(name);
    const json_t *v = text ? json_object_get(vocab, text) : NULL;
    *id = text ? tokenizer_special(t, text) : -1;
    if (*id < 0 && v) TRY(hf_id(v, text, id, err));
    return ERR_NONE;
}

// Of a template, the parts before and behind the text: at most one special token each.
static bool read_template(const json_t *single, const json_t **before, const json_t **after)
{
    bool text = false;
    size_t i;
    json_t *part;
    json_array_foreach(single, i, part)
    {
        const json_t *special = json_object_get(part, "SpecialToken");
        const json_t **const to = text ? after : before;
        if (special ? *to != NULL : text) return false;
        if (special)
            *to = json_object_get(special, "id");
        else
            text = true;
    }
    return text;
}

// What the post-processor puts around a text. One that we do not know puts nothing there.
static Status read_around(Tokenizer *t, const json_t *post, const json_t *vocab, Err *err)
{
    const json_t *before = NULL, *after = NULL;
    if (hf_off(post)) {
        t->word.before = tokenizer_special(t, "[CLS]");
        t->word.after = tokenizer_special(t, "[SEP]");
        return ERR_NONE;
    }
    if (strcmp(hf_type(post), "TemplateProcessing") == 0) {
        if (!read_template(json_object_get(post, "single"), &before, &after)) return ERR_NONE;
    } else if (strcmp(hf_type(post), "BertProcessing") == 0) {
        before = json_array_get(json_object_get(post, "cls"), 0);
        after = json_array_get(json_object_get(post, "sep"), 0);
    }
    TRY(token_named(t, vocab, before, &t->word.before, err));
    return token_named(t, vocab, after, &t->word.after, err);
}

static Status read_entries(Tokenizer *t, const json_t *vocab, Err *err)
{
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)vocab, key, v)
    {
        int32_t id = 0;
        TRY(hf_id(v, key, &id, err));
        const uint32_t flags = id < t->n ? t->token[id].flags & TOKEN_MATCH : 0;
        if (!flags || strcmp(token_bytes(t, id), key) != 0)
            TRY(vocab_add(t, id, key, strlen(key), TOKEN_PLAIN, err));
        else if (flags & TOKEN_ALWAYS) // an added token, here once more
            TRY(vocab_make_plain(t, id, err));
    }
    return ERR_NONE;
}

static Status read_max_chars(const json_t *model, int32_t *out, Err *err)
{
    const json_t *v = json_object_get(model, "max_input_chars_per_word");
    if (!v) return ERR_NONE;
    const json_int_t n = json_integer_value(v);
    if (!json_is_integer(v) || n < 1 || n > BERT_WORD_MAX)
        return err_set(err, ERR_UNSUPPORTED, "max_input_chars_per_word is not between 1 and %d",
                       BERT_WORD_MAX);
    *out = (int32_t)n;
    return ERR_NONE;
}

static Status check_unknown(const Tokenizer *t, Err *err)
{
    if (t->word.unknown >= 0) return ERR_NONE;
    return err_set(err, ERR_FORMAT,
                   "the vocabulary has no token for unknown words (unk_token, [UNK])");
}

static Status fill(Tokenizer *t, const json_t *root, Err *err)
{
    const json_t *model = json_object_get(root, "model"), *vocab = json_object_get(model, "vocab");
    const json_t *decoder = json_object_get(root, "decoder");
    const json_t *added = json_object_get(root, "added_tokens");
    const json_t *normal = json_object_get(root, "normalizer");
    TRY(read_normalizer(normal, &t->word.steps, err));
    t->pattern = bert_pattern(t->word.steps);
    TRY(read_max_chars(model, &t->word.max_chars, err));
    vocab_expect(t, (int64_t)(json_object_size(vocab) + json_array_size(added)));
    TRY(hf_read_added(t, added, vocab, !hf_off(normal), err));
    TRY(read_entries(t, vocab, err));
    TRY(token_named(t, vocab, json_object_get(model, "unk_token"), &t->word.unknown, err));
    TRY(check_unknown(t, err));
    TRY(read_around(t, json_object_get(root, "post_processor"), vocab, err));
    t->word.clean_up =
        strcmp(hf_type(decoder), "WordPiece") == 0 && is_on(decoder, "cleanup", true);
    return tokenizer_finish(t, err);
}

Status hf_read_wordpiece(Tokenizer **t, const json_t *root, Err *err)
{
    const json_t *model = json_object_get(root, "model");
    const json_t *pre = json_object_get(root, "pre_tokenizer");
    const char *prefix = json_string_value(json_object_get(model, "continuing_subword_prefix"));
    TRY(hf_check_vocab(json_object_get(model, "vocab"), err));
    if (!prefix || strcmp(prefix, "##") != 0)
        return err_set(
            err, ERR_UNSUPPORTED,
            "parts of words are written with the prefix \"%.40s\"; only \"##\" can be read",
            prefix ? prefix : "");
    if (strcmp(hf_type(pre), "BertPreTokenizer") != 0)
        return err_set(
            err, ERR_UNSUPPORTED,
            "the pre-tokenizer is %s; of a WordPiece model, only BertPreTokenizer can be "
            "read",
            hf_off(pre) ? "absent" : hf_type(pre));
    TRY(tokenizer_new(t, KIND_WORDPIECE, PRETOKEN_BERT, err));
    return fill(*t, root, err);
}

// vocab.txt --------------------------------------------------------------------------------------

static Status add_line(Tokenizer *t, const char *line, size_t n, Err *err)
{
    const uint8_t *p = (const uint8_t *)line, *const end = p + n;
    for (int len; p < end; p += len)
        if (*p == 0 || utf8_decode(p, end, &len) >= UTF8_INVALID)
            return err_set(err, ERR_FORMAT, *p ? "it is not UTF-8" : "it holds a zero byte");
    if (n == 0) return err_set(err, ERR_FORMAT, "it is empty");
    uint32_t flags = TOKEN_PLAIN;
    for (int i = 0; i < WORDPIECE_SPECIALS; i++) {
        const char *special = wordpiece_specials[i];
        if (strlen(special) != n || memcmp(special, line, n) != 0) continue;
        if (tokenizer_special(t, special) >= 0)
            return err_set(err, ERR_FORMAT, "%s is there twice", special);
        flags = TOKEN_SPECIAL;
    }
    return vocab_add(t, t->n, line, n, flags, err);
}

static Status read_lines(Tokenizer *t, const Buf *text, Err *err)
{
    const char *p = text->data, *end = p + text->len;
    while (end > p && (end[-1] == '\n' || end[-1] == '\r')) end--; // empty lines at the end
    for (int64_t number = 1; p < end; number++) {
        const char *eol = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((eol ? eol : end) - p);
        if (n > 0 && p[n - 1] == '\r') n--;
        TRY_CTX(add_line(t, p, n, err), err, "reading line %" PRId64, number);
        p = eol ? eol + 1 : end;
    }
    return ERR_NONE;
}

// The steps that a tokenizer_config.json beside the vocabulary names.
static Status read_config(const char *vocab_path, uint32_t *steps, Err *err)
{
    char dir[PATH_CAP], path[PATH_CAP];
    TRY(path_dir(dir, vocab_path, err));
    TRY(path_join(path, dir, "tokenizer_config.json", err));
    *steps = bert_steps(PRETOKEN_UNCASED);
    if (!file_exists(path)) return ERR_NONE;
    Buf text = {0};
    json_t *config = NULL;
    Status s = file_read(path, &text, err);
    if (s == ERR_NONE) s = hf_parse(&config, &text, err);
    if (s != ERR_NONE) s = err_add(err, s, "reading %s", path);
    if (s == ERR_NONE)
        *steps = steps_of(true, is_on(config, "tokenize_chinese_chars", true),
                          json_object_get(config, "strip_accents"),
                          is_on(config, "do_lower_case", true));
    json_decref(config);
    buf_free(&text);
    return s;
}

static Status fill_from_lines(Tokenizer *t, const char *path, const Buf *text, Err *err)
{
    if (t->pattern == PRETOKEN_NONE)
        TRY(read_config(path, &t->word.steps, err));
    else
        t->word.steps = bert_steps(t->pattern);
    t->pattern = bert_pattern(t->word.steps);
    TRY(read_lines(t, text, err));
    wordpiece_name_tokens(t);
    TRY(check_unknown(t, err));
    return tokenizer_finish(t, err);
}

Status load_vocab_txt(Tokenizer **out, const char *path, const Buf *text, PretokenPattern pattern,
                      Err *err)
{
    Tokenizer *t = NULL;
    TRY(tokenizer_new(&t, KIND_WORDPIECE, pattern, err));
    const Status s = fill_from_lines(t, path, text, err);
    if (s != ERR_NONE) {
        tokenizer_close(t);
        return s;
    }
    *out = t;
    return ERR_NONE;
}
