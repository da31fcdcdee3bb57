// meta.c -- see meta.h.
//
// SPDX-License-Identifier: MIT
#include "engine/data/meta.h"
#include "engine/base/compiler.h"
#include "engine/base/file.h"
#include "engine/base/json_text.h"
#include "engine/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { META_VERSION = 1 };

static const char *const split_name[2] = {"train", "val"};

// ---------------------------------------------------------------- writing

static json_t *file_to_json(const MetaFile *f)
{
    char crc[16];
    snprintf(crc, sizeof crc, "%08" PRIx32, f->crc);
    return json_pack("{s:s, s:I, s:I, s:s}", "file", f->name, "tokens", (json_int_t)f->tokens,
                     "bytes", (json_int_t)f->bytes, "crc32", crc);
}

// NULL when memory is out at any place: jansson's functions take a NULL and hand the failure on.
static json_t *split_to_json(const MetaSplit *s)
{
    json_t *shards = json_array();
    bool all = true;
    for (int i = 0; i < s->shards; i++)
        all &= json_array_append_new(shards, file_to_json(&s->shard[i])) == 0;
    json_t *o = json_pack("{s:I, s:I, s:I, s:I, s:o}", "tokens", (json_int_t)s->tokens, "documents",
                          (json_int_t)s->documents, "text_bytes", (json_int_t)s->text_bytes,
                          "counted_tokens", (json_int_t)s->counted_tokens, "shards", shards);
    if (s->index.name[0]) all &= json_object_set_new(o, "index", file_to_json(&s->index)) == 0;
    if (s->mask.name[0]) all &= json_object_set_new(o, "mask", file_to_json(&s->mask)) == 0;
    if (s->next.name[0]) {
        all &= json_object_set_new(o, "next", file_to_json(&s->next)) == 0;
        all &= json_object_set_new(o, "random_next", json_integer(s->random_next)) == 0;
        all &= json_object_set_new(o, "texts", json_integer(s->texts)) == 0;
    }
    if (all) return o;
    json_decref(o);
    return NULL;
}

static bool add_pairs(json_t *o, const MetaPairs *p)
{
    json_t *pairs =
        json_pack("{s:I, s:f, s:I, s:I, s:s, s:i, s:i, s:i, s:i}", "max_seq_length",
                  (json_int_t)p->max_seq_length, "short_seq_prob", p->short_seq_prob, "dupe_factor",
                  (json_int_t)p->dupe_factor, "seed", (json_int_t)p->seed, "sentences",
                  p->sentences, "cls_token", (int)p->cls, "sep_token", (int)p->sep, "mask_token",
                  (int)p->mask, "pad_token", (int)p->pad);
    return json_object_set_new(o, "content", json_string("pairs")) == 0 &&
           json_object_set_new(o, "pairs", pairs) == 0;
}

Status data_meta_write(const DataMeta *m, const char *dir, Err *err)
{
    char path[PATH_CAP], print[24];
    TRY(path_join(path, dir, META_FILE, err));
    snprintf(print, sizeof print, "%016" PRIx64, m->tokenizer);
    json_t *o = json_pack("{s:s, s:i, s:{s:s, s:s, s:I, s:i}, s:i, s:I, s:o, s:o}", "format",
                          "lathe-data", "version", META_VERSION, "tokenizer", "fingerprint", print,
                          "kind", m->kind, "vocab_size", (json_int_t)m->vocab_size, "end_token",
                          (int)m->end_token, "token_bytes", m->token_bytes, "empty_documents",
                          (json_int_t)m->empty_documents, split_name[0],
                          split_to_json(&m->split[0]), split_name[1], split_to_json(&m->split[1]));
    if (!o || (m->pairs.max_seq_length && !add_pairs(o, &m->pairs))) {
        json_decref(o);
        return mem_err(err, 4096, META_FILE);
    }
    Buf text = {0};
    Status s = json_text_append(&text, o, JSON_INDENT(2) | JSON_PRESERVE_ORDER, err);
    if (s == ERR_NONE) s = file_replace(path, text.data, text.len, err);
    buf_free(&text);
    json_decref(o);
    return s;
}

// ---------------------------------------------------------------- reading

typedef struct Reader { // remembers the first thing that is wrong
    const char *path;
    Status status;
    Err *err;
} Reader;

static void wrong(Reader *r, const char *name, const char *what)
{
    if (r->status == ERR_NONE)
        r->status = err_set(r->err, ERR_FORMAT, "%s: field \"%s\" %s", r->path, name, what);
}

static int64_t get_number(Reader *r, const json_t *o, const char *name, int64_t min, int64_t max)
{
    const json_t *v = json_object_get(o, name);
    if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max) {
        wrong(r, name, "is missing or out of range");
        return 0;
    }
    return json_integer_value(v);
}

static int64_t get_count(Reader *r, const json_t *o, const char *name)
{
    return get_number(r, o, name, 0, INT64_MAX);
}

static void get_string(Reader *r, const json_t *o, const char *name, char *out, size_t cap)
{
    const char *v = json_string_value(json_object_get(o, name));
    if (!v || strlen(v) >= cap) {
        wrong(r, name, "is missing or not a short text");
        v = "";
    }
    snprintf(out, cap, "%s", v);
}

static uint64_t get_hex(Reader *r, const json_t *o, const char *name)
{
    char text[24];
    char *end;
    get_string(r, o, name, text, sizeof text);
    const uint64_t v = strtoull(text, &end, 16);
    if (!text[0] || *end) wrong(r, name, "is not a hexadecimal number");
    return v;
}

static void get_file(Reader *r, const json_t *o, MetaFile *out)
{
    get_string(r, o, "file", out->name, sizeof out->name);
    if (!out->name[0] || strchr(out->name, '/')) wrong(r, "file", "is not a name in the folder");
    out->tokens = get_count(r, o, "tokens");
    out->bytes = (uint64_t)get_count(r, o, "bytes");
    out->crc = (uint32_t)get_hex(r, o, "crc32");
}

static void get_split(Reader *r, const json_t *o, const char *name, MetaSplit *out)
{
    if (!json_is_object(o)) {
        wrong(r, name, "is missing or not an object");
        return;
    }
    out->tokens = get_count(r, o, "tokens");
    out->text_bytes = get_count(r, o, "text_bytes");
    // A document has a token at least; sizes of files are computed from these.
    out->documents = get_number(r, o, "documents", 0, out->tokens);
    out->counted_tokens = get_number(r, o, "counted_tokens", 0, out->tokens);
    const json_t *shards = json_object_get(o, "shards");
    const size_t n = json_array_size(shards);
    if (n > 99999 || !json_is_array(shards)) {
        wrong(r, "shards", "is missing or not a list of shards");
        return;
    }
    out->shard = mem_calloc(n, sizeof *out->shard);
    if (!out->shard) {
        if (r->status == ERR_NONE) r->status = mem_err(r->err, n * sizeof *out->shard, "shards");
        return;
    }
    out->shards = (int)n;
    int64_t total = 0;
    for (size_t i = 0; i < n; i++) {
        get_file(r, json_array_get(shards, i), &out->shard[i]);
        if (out->shard[i].tokens > INT32_MAX) wrong(r, "tokens", "is too large for a shard");
        total += out->shard[i].tokens;
    }
    if (total != out->tokens) wrong(r, "tokens", "is not the sum of the shards");
    const json_t *index = json_object_get(o, "index"), *mask = json_object_get(o, "mask");
    if (index) get_file(r, index, &out->index);
    if (mask) get_file(r, mask, &out->mask);
    const json_t *next = json_object_get(o, "next");
    if (!next) return;
    get_file(r, next, &out->next);
    out->random_next = get_number(r, o, "random_next", 0, out->documents);
    out->texts = get_count(r, o, "texts");
}

static int32_t get_token(Reader *r, const json_t *o, const char *name, const DataMeta *m)
{
    return (int32_t)get_number(r, o, name, 0, m->vocab_size - 1);
}

static void get_pairs(Reader *r, const json_t *o, DataMeta *m)
{
    MetaPairs *p = &m->pairs;
    p->max_seq_length = get_number(r, o, "max_seq_length", 5, INT32_MAX);
    p->short_seq_prob = json_number_value(json_object_get(o, "short_seq_prob"));
    p->dupe_factor = get_number(r, o, "dupe_factor", 1, INT32_MAX);
    p->seed = (uint64_t)get_count(r, o, "seed");
    get_string(r, o, "sentences", p->sentences, sizeof p->sentences);
    p->cls = get_token(r, o, "cls_token", m);
    p->sep = get_token(r, o, "sep_token", m);
    p->mask = get_token(r, o, "mask_token", m);
    p->pad = get_token(r, o, "pad_token", m);
    for (int i = 0; i < 2; i++)
        if (m->split[i].tokens > 0 && (!m->split[i].next.name[0] || !m->split[i].index.name[0]))
            wrong(r, "next", "is missing, or \"index\"");
}

static void get_meta(Reader *r, const json_t *o, DataMeta *m)
{
    char format[16];
    get_string(r, o, "format", format, sizeof format);
    if (strcmp(format, "lathe-data") != 0) wrong(r, "format", "is not \"lathe-data\"");
    if (get_count(r, o, "version") != META_VERSION) wrong(r, "version", "is not 1");
    const json_t *t = json_object_get(o, "tokenizer");
    m->tokenizer = get_hex(r, t, "fingerprint");
    get_string(r, t, "kind", m->kind, sizeof m->kind);
    m->vocab_size = get_number(r, t, "vocab_size", 1, INT32_MAX);
    m->end_token = (int32_t)get_number(r, t, "end_token", -1, m->vocab_size - 1);
    m->token_bytes = (int)get_number(r, o, "token_bytes", 2, 4);
    m->empty_documents = get_count(r, o, "empty_documents");
    if (m->token_bytes == 3) wrong(r, "token_bytes", "is not 2 or 4");
    for (int i = 0; i < 2; i++)
        get_split(r, json_object_get(o, split_name[i]), split_name[i], &m->split[i]);
    const json_t *content = json_object_get(o, "content");
    if (!content) return;
    char what[16];
    get_string(r, o, "content", what, sizeof what);
    if (strcmp(what, "pairs") != 0)
        wrong(r, "content", "is neither missing nor \"pairs\"");
    else
        get_pairs(r, json_object_get(o, "pairs"), m);
}

Status data_meta_read(DataMeta *m, const char *dir, Err *err)
{
    *m = (DataMeta){0};
    char path[PATH_CAP];
    TRY(path_join(path, dir, META_FILE, err));
    Buf text = {0};
    Status s = file_read(path, &text, err);
    if (s != ERR_NONE) {
        buf_free(&text);
        return s;
    }
    json_error_t why;
    json_t *o;
    s = json_text_parse(&o, text.data ? text.data : "", text.len, JSON_REJECT_DUPLICATES, &why,
                        err);
    buf_free(&text);
    if (s == ERR_FORMAT) return err_set(err, s, "%s:%d: not JSON: %s", path, why.line, why.text);
    TRY_CTX(s, err, "reading %s", path);
    Reader r = {path, ERR_NONE, err};
    get_meta(&r, o, m);
    json_decref(o);
    if (r.status != ERR_NONE) data_meta_free(m);
    return r.status;
}

void data_meta_free(DataMeta *m)
{
    for (int i = 0; i < 2; i++) mem_free(m->split[i].shard);
    *m = (DataMeta){0};
}
