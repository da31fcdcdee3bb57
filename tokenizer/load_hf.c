// load_hf.c -- Hugging Face's tokenizer.json, and its older form in two files: vocab.json (GPT-2's
// encoder.json) with merges.txt (vocab.bpe).
//
// Taken: byte-level BPE (merges as "a b" or ["a", "b"]; added tokens; the pre-tokenisers
// ByteLevel, and Split by an expression pretoken.h knows, followed by ByteLevel), and lathe's
// character level: BPE over single characters without merges and without a pre-tokeniser. Whatever
// else a file asks for would change ids, and is refused by name. Post-processors are not run:
// encoding adds no special tokens. WordPiece is read by load_wordpiece.c.
//
// A vocabulary entry is plain (text can become it) when it is one byte or the result of a merge, or
// whatever it is when ignore_merges is set. In the two-file form the other entries are special
// tokens, as far as their keys are their text: there is no list that says so.
//
// SPDX-License-Identifier: MIT
#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "tokenizer/hf_json.h"
#include "tokenizer/unicode_class.h"

#include <inttypes.h>
#include <string.h>

// Vocabulary and merges --------------------------------------------------------------------------

// A key that is not in byte form: no text becomes it. It stands for its own bytes, which no other
// key may spell.
static Status add_other(Tokenizer *t, const json_t *vocab, int32_t id, const char *key, Err *err)
{
    Buf form = {0};
    Status s = byte_map_write(key, strlen(key), &form, err);
    if (s == ERR_NONE && json_object_get(vocab, form.data))
        s = err_set(err, ERR_FORMAT, "the keys \"%.60s\" and \"%.60s\" are the same token", key,
                    form.data);
    if (s == ERR_NONE) s = vocab_add(t, id, key, strlen(key), 0, err);
    buf_free(&form);
    return s;
}

// The entries that are not there yet as added tokens.
static Status add_vocab(Tokenizer *t, json_t *vocab, Err *err)
{
    Buf bytes = {0};
    Status s = ERR_NONE;
    const char *key;
    json_t *v;
    json_object_foreach(vocab, key, v)
    {
        int32_t id = 0;
        const size_t n = strlen(key);
        buf_clear(&bytes);
        s = hf_id(v, key, &id, err);
        if (s == ERR_NONE) s = buf_reserve(&bytes, n, err);
        if (s != ERR_NONE) break;
        const int64_t raw = byte_map_read(key, n, (uint8_t *)bytes.data);
        if (id < t->n && (t->token[id].flags & TOKEN_MATCH) && strcmp(token_bytes(t, id), key) == 0)
            s = ERR_NONE; // an added token, here once more
        else if (raw >= 0)
            s = vocab_add(t, id, bytes.data, (size_t)raw, 0, err);
        else
            s = add_other(t, vocab, id, key, err);
        if (s == ERR_NONE && raw == 1) s = vocab_make_plain(t, id, err);
        if (s != ERR_NONE) break;
    }
    buf_free(&bytes);
    return s;
}

typedef struct MergeReader {
    Tokenizer *t;
    json_t *vocab;
    Buf key, raw;
    int32_t n; // merges so far
} MergeReader;

// Are the bytes of `sum` those of left and right? Not when it is an added token, whose text stands
// for itself and not for bytes.
static bool is_sum(const Tokenizer *t, int32_t left, int32_t right, int32_t sum)
{
    const Token *l = &t->token[left], *r = &t->token[right], *s = &t->token[sum];
    return (int64_t)l->bytes + r->bytes == s->bytes &&
           memcmp(token_bytes(t, sum), token_bytes(t, left), (size_t)l->bytes) == 0 &&
           memcmp(token_bytes(t, sum) + l->bytes, token_bytes(t, right), (size_t)r->bytes) == 0;
}

static Status merge_name(MergeReader *r, const char *a, size_t an, const char *b, size_t bn,
                         Err *err)
{
    const struct {
        const char *text[2];
        size_t len[2];
    } names[3] = {{{a, ""}, {an, 0}}, {{b, ""}, {bn, 0}}, {{a, b}, {an, bn}}};
    int32_t id[3];
    for (int i = 0; i < 3; i++) {
        buf_clear(&r->key);
        TRY(buf_append(&r->key, names[i].text[0], names[i].len[0], err));
        TRY(buf_append(&r->key, names[i].text[1], names[i].len[1], err));
        TRY(buf_reserve(&r->raw, r->key.len, err));
        const bool bytes = byte_map_read(r->key.data, r->key.len, (uint8_t *)r->raw.data) > 0;
        const json_t *v = bytes ? json_object_get(r->vocab, r->key.data) : NULL;
        if (!v)
            return err_set(
                err, ERR_FORMAT,
                "merge %d (\"%.*s\" \"%.*s\") names \"%.80s\", which is not in the vocabulary",
                r->n + 1, (int)LT_MIN(an, 80), a, (int)LT_MIN(bn, 80), b, r->key.data);
        TRY(hf_id(v, r->key.data, &id[i], err));
    }
    if (!is_sum(r->t, id[0], id[1], id[2]))
        return err_set(err, ERR_UNSUPPORTED,
                       "merge %d makes the added token \"%.80s\", which has other bytes", r->n + 1,
                       r->key.data);
    TRY(vocab_make_plain(r->t, id[2], err));
    return merge_add(r->t, id[0], id[1], id[2], r->n++, err);
}

static Status merge_line(MergeReader *r, const char *line, size_t n, Err *err)
{
    const char *space = memchr(line, ' ', n);
    if (!space || memchr(space + 1, ' ', (size_t)(line + n - space - 1)))
        return err_set(err, ERR_FORMAT,
                       "merge %d (\"%.*s\") is not two tokens with a space between", r->n + 1,
                       (int)LT_MIN(n, 80), line);
    const size_t left = (size_t)(space - line);
    return merge_name(r, line, left, space + 1, n - left - 1, err);
}

static Status merge_array(MergeReader *r, const json_t *merges, Err *err)
{
    if (!json_is_array(merges)) return err_set(err, ERR_FORMAT, "\"merges\" is not an array");
    size_t i;
    json_t *m;
    json_array_foreach(merges, i, m)
    {
        const json_t *a = json_array_get(m, 0), *b = json_array_get(m, 1);
        if (json_is_string(m))
            TRY(merge_line(r, json_string_value(m), json_string_length(m), err));
        else if (json_array_size(m) == 2 && json_is_string(a) && json_is_string(b))
            TRY(merge_name(r, json_string_value(a), json_string_length(a), json_string_value(b),
                           json_string_length(b), err));
        else
            return err_set(err, ERR_FORMAT, "merge %zu is neither a string nor a pair of strings",
                           i + 1);
    }
    return ERR_NONE;
}

static Status merge_lines(MergeReader *r, const Buf *text, Err *err)
{
    const char *p = text->data, *const end = p + text->len;
    for (bool first = true; p < end; first = false) {
        const char *eol = memchr(p, '\n', (size_t)(end - p));
        const char *stop = eol ? eol : end;
        size_t n = (size_t)(stop - p);
        if (n > 0 && p[n - 1] == '\r') n--;
        const bool version = first && n >= 8 && memcmp(p, "#version", 8) == 0;
        if (n > 0 && !version) TRY(merge_line(r, p, n, err));
        p = eol ? eol + 1 : end;
    }
    return ERR_NONE;
}

// Pre-tokenisers ---------------------------------------------------------------------------------

static Status read_split(const json_t *v, PretokenPattern *out, Err *err)
{
    const char *regex = json_string_value(json_object_get(json_object_get(v, "pattern"), "Regex"));
    const char *behavior = json_string_value(json_object_get(v, "behavior"));
    const bool invert = json_is_true(json_object_get(v, "invert"));
    if (!regex)
        return err_set(err, ERR_UNSUPPORTED, "the pre-tokenizer Split has no regular expression");
    if (!behavior || strcmp(behavior, invert ? "Removed" : "Isolated") != 0)
        return err_set(err, ERR_UNSUPPORTED, "the pre-tokenizer Split behaves as \"%s\"%s",
                       behavior ? behavior : "", invert ? ", inverted" : "");
    if (!pretoken_by_regex(regex, out))
        return err_set(err, ERR_UNSUPPORTED,
                       "the pre-tokenizer splits by an unknown expression: %.400s", regex);
    return ERR_NONE;
}

// One step of the pre-tokenisation; *split and *bytes say what came before.
static Status read_step(const json_t *v, PretokenPattern *pattern, bool *split, bool *bytes,
                        Err *err)
{
    const char *type = hf_type(v);
    if (*bytes)
        return err_set(err, ERR_UNSUPPORTED, "the pre-tokenizer %s comes after ByteLevel", type);
    if (strcmp(type, "Split") == 0) {
        if (*split) return err_set(err, ERR_UNSUPPORTED, "the pre-tokenizer splits twice");
        *split = true;
        return read_split(v, pattern, err);
    }
    if (strcmp(type, "ByteLevel") != 0)
        return err_set(err, ERR_UNSUPPORTED, "the pre-tokenizer %s is not supported", type);
    *bytes = true;
    if (!hf_off(json_object_get(v, "add_prefix_space")))
        return err_set(err, ERR_UNSUPPORTED,
                       "the pre-tokenizer puts a space before the text "
                       "(add_prefix_space)");
    const json_t *regex = json_object_get(v, "use_regex");
    if (regex && !json_is_true(regex)) return ERR_NONE;
    if (*split) return err_set(err, ERR_UNSUPPORTED, "the pre-tokenizer splits twice");
    *pattern = PRETOKEN_GPT2;
    return ERR_NONE;
}

static Status read_pretokenizer(const json_t *v, PretokenPattern *pattern, Err *err)
{
    bool split = false, bytes = false;
    *pattern = PRETOKEN_NONE;
    if (strcmp(hf_type(v), "Sequence") == 0) {
        const json_t *list = json_object_get(v, "pretokenizers");
        size_t i;
        json_t *step;
        json_array_foreach(list, i, step) TRY(read_step(step, pattern, &split, &bytes, err));
    } else {
        TRY(read_step(v, pattern, &split, &bytes, err));
    }
    if (!bytes)
        return err_set(err, ERR_UNSUPPORTED,
                       "the pre-tokenizer has no ByteLevel: only "
                       "byte-level BPE can be read");
    return ERR_NONE;
}

// tokenizer.json ---------------------------------------------------------------------------------

static Status read_bpe(Tokenizer *t, json_t *root, json_t *model, Err *err)
{
    MergeReader r = {.t = t, .vocab = json_object_get(model, "vocab")};
    const json_t *added = json_object_get(root, "added_tokens");
    vocab_expect(t, (int64_t)(json_object_size(r.vocab) + json_array_size(added)));
    TRY(hf_read_added(t, added, r.vocab, false, err));
    t->whole_first = json_is_true(json_object_get(model, "ignore_merges"));
    Status s = add_vocab(t, r.vocab, err);
    if (s == ERR_NONE) s = merge_array(&r, json_object_get(model, "merges"), err);
    for (int32_t id = 0; id < t->n && s == ERR_NONE && t->whole_first; id++)
        if (t->token[id].flags == TOKEN_USED) s = vocab_make_plain(t, id, err);
    buf_free(&r.key);
    buf_free(&r.raw);
    return s;
}

static Status read_char(Tokenizer *t, json_t *vocab, Err *err)
{
    const char *key;
    json_t *v;
    vocab_expect(t, (int64_t)json_object_size(vocab));
    json_object_foreach(vocab, key, v)
    {
        const size_t n = strlen(key);
        const uint8_t *utf = (const uint8_t *)key;
        int32_t id = 0;
        int len = 0;
        uint8_t byte;
        TRY(hf_id(v, key, &id, err));
        if (char_byte_name(key, n, &byte)) {
            TRY(vocab_add(t, id, &byte, 1, TOKEN_PLAIN, err));
            continue;
        }
        if (n > 0) (void)utf8_decode(utf, utf + n, &len);
        if (n == 0 || (size_t)len != n)
            return err_set(
                err, ERR_UNSUPPORTED,
                "no pre-tokenizer, and the token \"%.60s\" is not one character: neither "
                "byte-level BPE nor character level",
                key);
        TRY(vocab_add(t, id, key, n, TOKEN_PLAIN, err));
    }
    return ERR_NONE;
}

static Status check_model(const json_t *root, const json_t *model, Err *err)
{
    static const char *const must_be_off[] = {"dropout", "fuse_unk"};
    static const char *const must_be_empty[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    if (!json_is_object(model))
        return err_set(err, ERR_FORMAT, "not a tokenizer.json: it has no \"model\"");
    if (json_object_get(model, "type") && strcmp(hf_type(model), "BPE") != 0)
        return err_set(err, ERR_UNSUPPORTED, "the model is %s; only BPE and WordPiece can be read",
                       hf_type(model));
    TRY(hf_check_vocab(json_object_get(model, "vocab"), err));
    for (size_t i = 0; i < LT_COUNT(must_be_off); i++) {
        const json_t *v = json_object_get(model, must_be_off[i]);
        if (!hf_off(v) && !(json_is_number(v) && json_number_value(v) == 0))
            return err_set(err, ERR_UNSUPPORTED, "the model sets \"%s\"", must_be_off[i]);
    }
    for (size_t i = 0; i < LT_COUNT(must_be_empty); i++)
        if (!hf_empty(json_object_get(model, must_be_empty[i])))
            return err_set(err, ERR_UNSUPPORTED, "the model sets \"%s\"", must_be_empty[i]);
    const json_t *normal = json_object_get(root, "normalizer");
    const json_t *steps = json_object_get(normal, "normalizers");
    if (!hf_off(normal) && !(json_is_array(steps) && json_array_size(steps) == 0))
        return err_set(err, ERR_UNSUPPORTED, "the normalizer %s would change the text",
                       hf_type(normal));
    return ERR_NONE;
}

static Status read_root(Tokenizer **t, json_t *root, Err *err)
{
    json_t *model = json_object_get(root, "model");
    const json_t *pre = json_object_get(root, "pre_tokenizer");
    if (hf_is_wordpiece(model)) return hf_read_wordpiece(t, root, err);
    TRY(check_model(root, model, err));
    if (hf_off(pre)) {
        const json_t *merges = json_object_get(model, "merges");
        if (!json_is_array(merges) || json_array_size(merges) > 0)
            return err_set(err, ERR_UNSUPPORTED,
                           "there is no pre-tokenizer: only byte-level BPE can "
                           "be read");
        TRY(tokenizer_new(t, KIND_CHAR, PRETOKEN_NONE, err));
        TRY(read_char(*t, json_object_get(model, "vocab"), err));
        return tokenizer_finish(*t, err);
    }
    if (json_is_true(json_object_get(model, "byte_fallback")))
        return err_set(err, ERR_UNSUPPORTED, "the model sets \"byte_fallback\"");
    PretokenPattern pattern;
    TRY(read_pretokenizer(pre, &pattern, err));
    TRY(tokenizer_new(t, KIND_BPE, pattern, err));
    TRY(read_bpe(*t, root, model, err));
    return tokenizer_finish(*t, err);
}

Status load_hf_json(Tokenizer **out, const Buf *json, Err *err)
{
    json_t *root;
    TRY(hf_parse(&root, json, err));
    Tokenizer *t = NULL;
    Status s = read_root(&t, root, err);
    json_decref(root);
    if (s != ERR_NONE) {
        tokenizer_close(t);
        return s;
    }
    *out = t;
    return ERR_NONE;
}

// vocab.json + merges.txt ------------------------------------------------------------------------

static Status read_two(Tokenizer **t, PretokenPattern pattern, json_t *vocab, const Buf *merges,
                       Err *err)
{
    TRY(hf_check_vocab(vocab, err));
    TRY(tokenizer_new(t, KIND_BPE, pattern, err));
    MergeReader r = {.t = *t, .vocab = vocab};
    vocab_expect(*t, (int64_t)json_object_size(vocab));
    Status s = add_vocab(*t, vocab, err);
    if (s == ERR_NONE) s = merge_lines(&r, merges, err);
    buf_free(&r.key);
    buf_free(&r.raw);
    if (s != ERR_NONE) return s;
    // A special token's text is its key as it stands.
    const char *key;
    json_t *v;
    json_object_foreach(vocab, key, v)
    {
        Token *token = &(*t)->token[json_integer_value(v)];
        if (token->flags == TOKEN_USED && strcmp((*t)->blob.data + token->at, key) == 0)
            token->flags |= TOKEN_SPECIAL;
    }
    return tokenizer_finish(*t, err);
}

Status load_gpt2_files(Tokenizer **out, const char *vocab_path, const char *merges_path,
                       PretokenPattern pattern, Err *err)
{
    Buf json = {0}, merges = {0};
    json_t *vocab = NULL;
    Tokenizer *t = NULL;
    Status s = file_read(vocab_path, &json, err);
    if (s == ERR_NONE) s = file_read(merges_path, &merges, err);
    if (s == ERR_NONE) s = hf_parse(&vocab, &json, err);
    if (s == ERR_NONE) s = read_two(&t, pattern, vocab, &merges, err);
    json_decref(vocab);
    buf_free(&json);
    buf_free(&merges);
    if (s != ERR_NONE) {
        tokenizer_close(t);
        return s;
    }
    *out = t;
    return ERR_NONE;
}
