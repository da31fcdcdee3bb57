// tokenizer_save.c -- writes a tokenizer in Hugging Face's layout.
//
//   tokenizer.json          everything; `tokenizers` loads it with the same ids
//   tokenizer_config.json   what transformers' AutoTokenizer wants to know besides
//   vocab.json, merges.txt  for BPE with GPT-2's pattern: these files cannot name another one
//   vocab.txt               for WordPiece, when every token can stand on a line of its own
//
// A character tokenizer is a BPE model without merges whose tokens are single characters; with no
// pre-tokeniser, every character of the text becomes its token. What JSON cannot name as a
// character stands as "<0xNN>": a byte that is no part of valid UTF-8, and NUL.
//
// SPDX-License-Identifier: MIT
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "tokenizer/tokenizer_impl.h"
#include "tokenizer/unicode_class.h"

#include <string.h>

// n bytes of UTF-8 as a JSON string.
static Status write_string(Buf *out, const char *text, size_t n, Err *err)
{
    TRY(buf_reserve(out, n + 2, err));
    TRY(buf_append(out, "\"", 1, err));
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            TRY(buf_append(out, (const char[2]){'\\', (char)c}, 2, err));
        else if (c < 0x20 || c == 0x7F)
            TRY(buf_printf(out, err, "\\u%04x", c));
        else
            TRY(buf_append(out, &text[i], 1, err));
    }
    return buf_append(out, "\"", 1, err);
}

// The visible form of a token: GPT-2's byte characters, or the text itself of an added token.
static Status write_token(const Tokenizer *t, int32_t id, bool quoted, Buf *out, Err *err)
{
    const char *bytes = token_bytes(t, id);
    const size_t n = (size_t)t->token[id].bytes;
    Buf text = {0};
    Status s = ERR_NONE;
    int len = 0;
    if (t->kind == KIND_WORDPIECE) {
        s = buf_append(&text, bytes, n, err);
    } else if (t->kind == KIND_CHAR) {
        const uint8_t *p = (const uint8_t *)bytes;
        const uint32_t cp = utf8_decode(p, p + n, &len);
        if (cp == 0 || cp >= UTF8_INVALID)
            s = buf_printf(&text, err, "<0x%02X>", p[0]);
        else
            s = buf_append(&text, bytes, n, err);
    } else if (t->token[id].flags & TOKEN_MATCH) {
        s = buf_append(&text, bytes, n, err);
    } else {
        s = byte_map_write(bytes, n, &text, err);
    }
    if (s == ERR_NONE)
        s = quoted ? write_string(out, text.data, text.len, err)
                   : buf_append(out, text.data, text.len, err);
    buf_free(&text);
    return s;
}

// A WordPiece token that is found in the text before the model sees it, and no other way, is an
// added token only. (One of BPE does no harm there, and other programs look for it.)
static bool in_vocabulary(const Tokenizer *t, int32_t id)
{
    const uint32_t flags = t->token[id].flags;
    if (t->kind == KIND_WORDPIECE && (flags & TOKEN_ALWAYS)) return flags & TOKEN_PLAIN;
    return flags != 0;
}

static Status write_vocab(const Tokenizer *t, const char *separator, Buf *out, Err *err)
{
    const char *before = "";
    TRY(buf_puts(out, "{", err));
    for (int32_t id = 0; id < t->n; id++) {
        if (!in_vocabulary(t, id)) continue;
        TRY(buf_puts(out, before, err));
        TRY(write_token(t, id, true, out, err));
        TRY(buf_printf(out, err, ": %d", id));
        before = separator;
    }
    return buf_puts(out, "}", err);
}

static Status write_merges_json(const Tokenizer *t, Buf *out, Err *err)
{
    Buf line = {0};
    Status s = buf_puts(out, "[", err);
    for (int64_t i = 0; i < t->merge_n && s == ERR_NONE; i++) {
        buf_clear(&line);
        s = write_token(t, t->merge[i].left, false, &line, err);
        if (s == ERR_NONE) s = buf_puts(&line, " ", err);
        if (s == ERR_NONE) s = write_token(t, t->merge[i].right, false, &line, err);
        if (s == ERR_NONE) s = buf_puts(out, i ? ",\n      " : "\n      ", err);
        if (s == ERR_NONE) s = write_string(out, line.data, line.len, err);
    }
    buf_free(&line);
    return s == ERR_NONE ? buf_puts(out, "]", err) : s;
}

static const char *yes_no(uint32_t flag)
{
    return flag ? "true" : "false";
}

static Status write_added(const Tokenizer *t, Buf *out, Err *err)
{
    const char *before = "\n    ";
    TRY(buf_puts(out, "[", err));
    for (int32_t id = 0; id < t->n; id++) {
        const uint32_t flags = t->token[id].flags;
        if (!(flags & TOKEN_MATCH)) continue;
        TRY(buf_printf(out, err, "%s{\"id\": %d, \"content\": ", before, id));
        TRY(write_string(out, token_bytes(t, id), (size_t)t->token[id].bytes, err));
        TRY(buf_printf(out, err,
                       ", \"single_word\": %s, \"lstrip\": %s, \"rstrip\": %s, "
                       "\"normalized\": %s, \"special\": %s}",
                       yes_no(flags & TOKEN_WORD), yes_no(flags & TOKEN_LSTRIP),
                       yes_no(flags & TOKEN_RSTRIP), yes_no(flags & TOKEN_NORMAL),
                       yes_no(flags & TOKEN_SPECIAL)));
        before = ",\n    ";
    }
    return buf_puts(out, "]", err);
}

static Status write_pretokenizer(const Tokenizer *t, Buf *out, Err *err)
{
    static const char byte_level[] = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                                     "\"trim_offsets\": true, \"use_regex\": ";
    if (t->kind == KIND_CHAR) return buf_puts(out, "null", err);
    if (t->pattern == PRETOKEN_GPT2) return buf_printf(out, err, "%strue}", byte_level);
    const char *regex = pretoken_regex(t->pattern);
    if (!regex) return buf_printf(out, err, "%sfalse}", byte_level);
    TRY(buf_puts(out,
                 "{\"type\": \"Sequence\", \"pretokenizers\": [\n"
                 "    {\"type\": \"Split\", \"pattern\": {\"Regex\": ",
                 err));
    TRY(write_string(out, regex, strlen(regex), err));
    return buf_printf(
        out, err, "}, \"behavior\": \"Isolated\", \"invert\": false},\n    %sfalse}]}", byte_level);
}

static Status write_head(const Tokenizer *t, Buf *out, Err *err)
{
    TRY(buf_puts(out,
                 "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n"
                 "  \"added_tokens\": ",
                 err));
    TRY(write_added(t, out, err));
    return buf_puts(out, ",\n  \"normalizer\": ", err);
}

static Status write_id(const Tokenizer *t, int32_t id, Buf *out, Err *err)
{
    return write_string(out, token_bytes(t, id), (size_t)t->token[id].bytes, err);
}

// One part of the template: a special token of a segment (0 or 1), or the segment's text.
static Status write_part(const Tokenizer *t, int32_t id, int segment, bool first, Buf *out,
                         Err *err)
{
    TRY(buf_puts(out, first ? "\n      " : ",\n      ", err));
    if (id < 0)
        return buf_printf(out, err, "{\"Sequence\": {\"id\": \"%c\", \"type_id\": %d}}",
                          'A' + segment, segment);
    TRY(buf_puts(out, "{\"SpecialToken\": {\"id\": ", err));
    TRY(write_id(t, id, out, err));
    return buf_printf(out, err, ", \"type_id\": %d}}", segment);
}

// [CLS] A [SEP], and [CLS] A [SEP] B [SEP].
static Status write_template(const Tokenizer *t, Buf *out, Err *err)
{
    const int32_t before = t->word.before, after = t->word.after;
    if (before < 0 && after < 0)
        return buf_puts(out, "{\"type\": \"Sequence\", \"processors\": []}", err);
    TRY(buf_puts(out, "{\"type\": \"TemplateProcessing\"", err));
    for (int segments = 1; segments <= 2; segments++) {
        TRY(buf_printf(out, err, ",\n    \"%s\": [", segments == 1 ? "single" : "pair"));
        if (before >= 0) TRY(write_part(t, before, 0, true, out, err));
        for (int k = 0; k < segments; k++) {
            TRY(write_part(t, -1, k, before < 0 && k == 0, out, err));
            if (after >= 0) TRY(write_part(t, after, k, false, out, err));
        }
        TRY(buf_puts(out, "]", err));
    }
    TRY(buf_puts(out, ",\n    \"special_tokens\": {", err));
    const int32_t both[2] = {before, after == before ? -1 : after};
    for (int k = 0, n = 0; k < 2; k++) {
        if (both[k] < 0) continue;
        TRY(buf_puts(out, n++ ? ",\n      " : "\n      ", err));
        TRY(write_id(t, both[k], out, err));
        TRY(buf_puts(out, ": {\"id\": ", err));
        TRY(write_id(t, both[k], out, err));
        TRY(buf_printf(out, err, ", \"ids\": [%d], \"tokens\": [", both[k]));
        TRY(write_id(t, both[k], out, err));
        TRY(buf_puts(out, "]}", err));
    }
    return buf_puts(out, "}}", err);
}

static Status write_wordpiece(const Tokenizer *t, Buf *out, Err *err)
{
    const uint32_t steps = t->word.steps;
    TRY(write_head(t, out, err));
    TRY(buf_printf(out, err,
                   "{\"type\": \"BertNormalizer\", \"clean_text\": %s, "
                   "\"handle_chinese_chars\": %s, \"strip_accents\": %s, \"lowercase\": %s},\n"
                   "  \"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"},\n"
                   "  \"post_processor\": ",
                   yes_no(steps & BERT_CLEAN), yes_no(steps & BERT_CJK), yes_no(steps & BERT_STRIP),
                   yes_no(steps & BERT_LOWER)));
    TRY(write_template(t, out, err));
    TRY(buf_printf(
        out, err,
        ",\n  \"decoder\": {\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": %s},"
        "\n  \"model\": {\n    \"type\": \"WordPiece\",\n    \"unk_token\": ",
        yes_no(t->word.clean_up)));
    TRY(write_id(t, t->word.unknown, out, err));
    TRY(buf_printf(out, err,
                   ",\n    \"continuing_subword_prefix\": \"##\",\n"
                   "    \"max_input_chars_per_word\": %d,\n    \"vocab\": ",
                   t->word.max_chars));
    TRY(write_vocab(t, ",\n      ", out, err));
    return buf_puts(out, "\n  }\n}\n", err);
}

static Status write_json(const Tokenizer *t, Buf *out, Err *err)
{
    if (t->kind == KIND_WORDPIECE) return write_wordpiece(t, out, err);
    bool byte_names = false; // has a character vocabulary a "<0xNN>"?
    for (int32_t id = 0; id < t->n && t->kind == KIND_CHAR; id++) {
        const uint8_t *p = (const uint8_t *)token_bytes(t, id);
        byte_names = byte_names || (t->token[id].bytes == 1 && (*p == 0 || *p >= 0x80));
    }
    TRY(write_head(t, out, err));
    TRY(buf_puts(out, "null,\n  \"pre_tokenizer\": ", err));
    TRY(write_pretokenizer(t, out, err));
    TRY(buf_puts(out, ",\n  \"post_processor\": null,\n  \"decoder\": ", err));
    TRY(buf_puts(out,
                 t->kind == KIND_CHAR
                     ? "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"ByteFallback\"}, "
                       "{\"type\": \"Fuse\"}]}"
                     : "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                       "\"trim_offsets\": true, \"use_regex\": true}",
                 err));
    TRY(buf_printf(out, err,
                   ",\n  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
                   "    \"unk_token\": null,\n    \"continuing_subword_prefix\": null,\n"
                   "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
                   "    \"byte_fallback\": %s,\n    \"ignore_merges\": %s,\n    \"vocab\": ",
                   byte_names ? "true" : "false", t->whole_first ? "true" : "false"));
    TRY(write_vocab(t, ",\n      ", out, err));
    TRY(buf_puts(out, ",\n    \"merges\": ", err));
    TRY(write_merges_json(t, out, err));
    return buf_puts(out, "\n  }\n}\n", err);
}

static Status write_merges_txt(const Tokenizer *t, Buf *out, Err *err)
{
    TRY(buf_puts(out, "#version: 0.2\n", err));
    for (int64_t i = 0; i < t->merge_n; i++) {
        TRY(write_token(t, t->merge[i].left, false, out, err));
        TRY(buf_puts(out, " ", err));
        TRY(write_token(t, t->merge[i].right, false, out, err));
        TRY(buf_puts(out, "\n", err));
    }
    return ERR_NONE;
}

static Status write_bert_config(const Tokenizer *t, Buf *out, Err *err)
{
    static const char *const names[][2] = {{"unk_token", "[UNK]"},
                                           {"sep_token", "[SEP]"},
                                           {"pad_token", "[PAD]"},
                                           {"cls_token", "[CLS]"},
                                           {"mask_token", "[MASK]"}};
    const uint32_t steps = t->word.steps;
    TRY(buf_printf(out, err,
                   "{\n  \"tokenizer_class\": \"BertTokenizer\",\n  \"do_lower_case\": %s,\n"
                   "  \"strip_accents\": %s,\n  \"tokenize_chinese_chars\": %s",
                   yes_no(steps & BERT_LOWER), yes_no(steps & BERT_STRIP),
                   yes_no(steps & BERT_CJK)));
    for (size_t i = 0; i < LT_COUNT(names); i++)
        if (tokenizer_special(t, names[i][1]) >= 0)
            TRY(buf_printf(out, err, ",\n  \"%s\": \"%s\"", names[i][0], names[i][1]));
    return buf_puts(out, "\n}\n", err);
}

static Status write_config(const Tokenizer *t, Buf *out, Err *err)
{
    if (t->kind == KIND_WORDPIECE) return write_bert_config(t, out, err);
    TRY(buf_puts(out,
                 "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n"
                 "  \"clean_up_tokenization_spaces\": false",
                 err));
    if (t->end_token >= 0) {
        const size_t n = (size_t)t->token[t->end_token].bytes;
        TRY(buf_puts(out, ",\n  \"eos_token\": ", err));
        TRY(write_string(out, token_bytes(t, t->end_token), n, err));
    }
    return buf_puts(out, "\n}\n", err);
}

static Status write_vocab_json(const Tokenizer *t, Buf *out, Err *err)
{
    TRY(write_vocab(t, ", ", out, err));
    return buf_puts(out, "\n", err);
}

static Status write_vocab_txt(const Tokenizer *t, Buf *out, Err *err)
{
    for (int32_t id = 0; id < t->n; id++) {
        TRY(buf_append(out, token_bytes(t, id), (size_t)t->token[id].bytes, err));
        TRY(buf_puts(out, "\n", err));
    }
    return ERR_NONE;
}

static bool any(const Tokenizer *t)
{
    (void)t;
    return true;
}

static bool is_gpt2(const Tokenizer *t)
{
    return t->kind == KIND_BPE && t->pattern == PRETOKEN_GPT2;
}

// WordPiece without a line end in a token and without an id that is not used?
static bool has_lines(const Tokenizer *t)
{
    bool good = t->kind == KIND_WORDPIECE;
    for (int32_t id = 0; id < t->n && good; id++) {
        const size_t n = (size_t)t->token[id].bytes;
        good =
            n > 0 && !memchr(token_bytes(t, id), '\n', n) && !memchr(token_bytes(t, id), '\r', n);
    }
    return good;
}

typedef struct Part { // a file of a saved tokenizer
    const char *name;
    Status (*write)(const Tokenizer *t, Buf *out, Err *err);
    bool (*fits)(const Tokenizer *t);
} Part;

static const Part parts[] = {
    {"vocab.json", write_vocab_json, is_gpt2}, {"merges.txt", write_merges_txt, is_gpt2},
    {"vocab.txt", write_vocab_txt, has_lines}, {"tokenizer_config.json", write_config, any},
    {"tokenizer.json", write_json, any},
};

static Status save_part(const Tokenizer *t, const Part *p, const char *dir, Err *err)
{
    char path[PATH_CAP];
    TRY(path_join(path, dir, p->name, err));
    // A leftover of another tokenizer would contradict the new one.
    if (!p->fits(t)) return file_remove(path, err);
    Buf text = {0};
    Status s = p->write(t, &text, err);
    if (s == ERR_NONE) s = file_replace(path, text.data, text.len, err);
    buf_free(&text);
    return s;
}

// Of a save that failed at part `last` nothing stays: without tokenizer.json the other files would
// be read as another tokenizer.
static void remove_parts(const char *dir, size_t last, bool dir_too)
{
    bool all = true;
    for (size_t i = 0; i <= last; i++) {
        char path[PATH_CAP];
        all &= path_join(path, dir, parts[i].name, NULL) == ERR_NONE &&
               file_remove(path, NULL) == ERR_NONE;
    }
    if (all && dir_too) all = file_remove_empty(dir, NULL) == ERR_NONE;
    if (!all) log_warn("%s: files of the failed attempt are left", dir);
}

Status tokenizer_save(const Tokenizer *t, const char *dir, Err *err)
{
    const bool was_there = file_exists(dir);
    TRY_CTX(file_mkdirs(dir, err), err, "saving the tokenizer");
    for (size_t i = 0; i < LT_COUNT(parts); i++) {
        const Status s = save_part(t, &parts[i], dir, err);
        if (s == ERR_NONE) continue;
        remove_parts(dir, i, !was_there);
        return err_add(err, s, "saving the tokenizer");
    }
    return ERR_NONE;
}
