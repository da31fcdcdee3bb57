// safetensors.c -- reading: the header is checked as a whole before any tensor is handed out.
//
//     0        8                8+H                                  size
//     | H (LE) | JSON, H bytes  | tensor | tensor | ... | tensor     |
//                               0        e0       e1                 data size
//
// Tensors are sorted by their offsets; each must begin where the one before it ends, the first at
// 0, and the last must end at the end of the file. So there is no overlap and no gap to check
// apart.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/safetensors.h"

#include "checkpoints/json_read.h"
#include "engine/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_MAX = 100 * 1000 * 1000 }; // the limit of the reference implementation

// Every type of the format with whole bytes an element. Those without a DType may lie in a file
// (masks of GPT-2 are BOOL in some) as long as nobody wants their values.
static const struct {
    const char *name;
    DType dtype;
    uint64_t bytes;
} types[] = {
    {"F32", DTYPE_F32, 4},       {"BF16", DTYPE_BF16, 2},    {"F16", DTYPE_F16, 2},
    {"F8_E4M3", DTYPE_E4M3, 1},  {"F8_E5M2", DTYPE_E5M2, 1}, {"U8", DTYPE_U8, 1},
    {"U16", DTYPE_U16, 2},       {"I32", DTYPE_I32, 4},      {"I64", DTYPE_I64, 8},
    {"BOOL", DTYPE_COUNT, 1},    {"I8", DTYPE_COUNT, 1},     {"I16", DTYPE_COUNT, 2},
    {"U32", DTYPE_COUNT, 4},     {"U64", DTYPE_COUNT, 8},    {"F64", DTYPE_COUNT, 8},
    {"F8_E8M0", DTYPE_COUNT, 1}, {"C64", DTYPE_COUNT, 8},
};

typedef struct Span { // where an entry says its bytes are; sorted together with the entries
    SafeEntry e;
    uint64_t begin, end;
} Span;

typedef struct Reader {
    SafeFile *f;
    Span *span;
    uint64_t data_bytes;
} Reader;

static Status bad(const SafeFile *f, const char *name, Err *err, const char *what)
{
    char show[JSON_SHOW_CAP];
    return err_set(err, ERR_FORMAT, "%s: tensor \"%s\": %s", f->path, json_read_show(show, name),
                   what);
}

static Status read_dtype(const SafeFile *f, SafeEntry *e, const json_t *j, uint64_t *size, Err *err)
{
    if (!json_is_string(j)) return bad(f, e->name, err, "dtype is missing or not a string");
    const char *s = json_string_value(j);
    for (size_t i = 0; i < LT_COUNT(types); i++) {
        if (strcmp(s, types[i].name) != 0) continue;
        e->dtype = types[i].dtype;
        *size = types[i].bytes;
        snprintf(e->type, sizeof e->type, "%s", s);
        return ERR_NONE;
    }
    char show[JSON_SHOW_CAP], what[JSON_SHOW_CAP + 32];
    snprintf(what, sizeof what, "unknown dtype \"%s\"", json_read_show(show, s));
    return bad(f, e->name, err, what);
}

static Status read_shape(const SafeFile *f, SafeEntry *e, const json_t *j, uint64_t size, Err *err)
{
    if (!json_is_array(j)) return bad(f, e->name, err, "shape is missing or not an array");
    if (json_array_size(j) > SAFE_RANK_MAX)
        return bad(f, e->name, err, "shape has more than 8 dimensions");
    e->rank = (int)json_array_size(j);
    e->bytes = size;
    bool empty = false;
    for (int i = 0; i < e->rank; i++) {
        const json_t *d = json_array_get(j, (size_t)i);
        if (!json_is_integer(d)) return bad(f, e->name, err, "shape holds what is not an integer");
        if (json_integer_value(d) < 0)
            return bad(f, e->name, err, "shape has a negative dimension");
        e->shape[i] = json_integer_value(d);
        empty |= e->shape[i] == 0;
    }
    for (int i = 0; i < e->rank && !empty; i++) {
        if (e->bytes > (uint64_t)INT64_MAX / (uint64_t)e->shape[i])
            return bad(f, e->name, err, "shape is larger than any memory");
        e->bytes *= (uint64_t)e->shape[i];
    }
    if (empty) e->bytes = 0;
    return ERR_NONE;
}

static Status read_offsets(const Reader *r, Span *s, const json_t *j, Err *err)
{
    const char *name = s->e.name;
    const json_t *b = json_array_get(j, 0), *e = json_array_get(j, 1);
    if (json_array_size(j) != 2 || !json_is_integer(b) || !json_is_integer(e))
        return bad(r->f, name, err, "data_offsets is missing or not two integers");
    if (json_integer_value(b) < 0 || json_integer_value(e) < json_integer_value(b))
        return bad(r->f, name, err, "data_offsets are negative or in the wrong order");
    s->begin = (uint64_t)json_integer_value(b);
    s->end = (uint64_t)json_integer_value(e);
    char what[192];
    if (s->end > r->data_bytes) {
        snprintf(what, sizeof what,
                 "ends at byte %" PRIu64 " of the data, but the file has only %" PRIu64
                 " (is it cut short?)",
                 s->end, r->data_bytes);
        return bad(r->f, name, err, what);
    }
    if (s->end - s->begin != s->e.bytes) {
        snprintf(what, sizeof what,
                 "dtype and shape need %" PRIu64 " bytes, data_offsets give %" PRIu64, s->e.bytes,
                 s->end - s->begin);
        return bad(r->f, name, err, what);
    }
    s->e.data = r->f->map.data + (r->f->map.size - r->data_bytes) + s->begin;
    return ERR_NONE;
}

static Status read_meta(SafeFile *f, const json_t *j, Err *err)
{
    if (!json_is_object(j))
        return err_set(err, ERR_FORMAT, "%s: __metadata__ is %s, expected an object", f->path,
                       json_read_kind(j));
    const size_t n = json_object_size(j);
    f->meta_key = mem_calloc(n, sizeof *f->meta_key);
    f->meta_value = mem_calloc(n, sizeof *f->meta_value);
    if (!f->meta_key || !f->meta_value) return mem_err(err, n * sizeof *f->meta_key, f->path);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)j, key, value)
    {
        if (!json_is_string(value))
            return err_set(err, ERR_FORMAT, "%s: __metadata__ holds %s, expected strings", f->path,
                           json_read_kind(value));
        const int i = f->n_meta++;
        f->meta_key[i] = mem_strdup(key);
        f->meta_value[i] = mem_strdup(json_string_value(value));
        if (!f->meta_key[i] || !f->meta_value[i]) return mem_err(err, strlen(key), f->path);
    }
    return ERR_NONE;
}

static Status read_entry(Reader *r, int i, const char *name, const json_t *j, Err *err)
{
    Span *s = &r->span[i];
    s->e.name = mem_strdup(name);
    if (!s->e.name) return mem_err(err, strlen(name) + 1, r->f->path);
    if (!json_is_object(j)) return bad(r->f, name, err, "described by what is not an object");
    uint64_t size = 0;
    TRY(read_dtype(r->f, &s->e, json_object_get(j, "dtype"), &size, err));
    TRY(read_shape(r->f, &s->e, json_object_get(j, "shape"), size, err));
    return read_offsets(r, s, json_object_get(j, "data_offsets"), err);
}

static int by_offset(const void *a, const void *b)
{
    const Span *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->e.name, y->e.name);
}

static Status check_spans(const Reader *r, int n, Err *err)
{
    uint64_t at = 0;
    char show[JSON_SHOW_CAP], what[256];
    for (int i = 0; i < n; i++) {
        const Span *s = &r->span[i];
        if (s->begin != at) {
            snprintf(what, sizeof what, "begins at byte %" PRIu64 ", %s \"%s\" ends at %" PRIu64,
                     s->begin, s->begin < at ? "overlapping:" : "leaving a gap:",
                     i ? json_read_show(show, r->span[i - 1].e.name) : "the header", at);
            return bad(r->f, s->e.name, err, what);
        }
        at = s->end;
    }
    if (at != r->data_bytes)
        return err_set(err, ERR_FORMAT,
                       "%s: %" PRIu64 " bytes at the end of the file belong to no tensor",
                       r->f->path, r->data_bytes - at);
    return ERR_NONE;
}

static Status read_header(Reader *r, const json_t *root, Err *err)
{
    if (!json_is_object(root))
        return err_set(err, ERR_FORMAT, "%s: the header is %s, expected an object", r->f->path,
                       json_read_kind(root));
    SafeFile *f = r->f;
    const size_t cap = json_object_size(root);
    r->span = mem_calloc(cap, sizeof *r->span);
    f->entry = mem_calloc(cap, sizeof *f->entry);
    if (!r->span || !f->entry) return mem_err(err, cap * sizeof *r->span, f->path);
    int n = 0;
    Status s = ERR_NONE;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)root, key, value)
    {
        if (strcmp(key, "__metadata__") == 0)
            s = read_meta(f, value, err);
        else
            s = read_entry(r, n++, key, value, err);
        if (s != ERR_NONE) break;
    }
    if (s == ERR_NONE && n) qsort(r->span, (size_t)n, sizeof *r->span, by_offset);
    if (s == ERR_NONE) s = check_spans(r, n, err);
    for (int i = 0; i < n; i++) f->entry[i] = r->span[i].e; // the names are the file's from here on
    f->n = n;
    return s;
}

static Status open_mapped(SafeFile *f, Err *err)
{
    if (f->map.size < 8)
        return err_set(err, ERR_FORMAT, "%s: %zu bytes; a safetensors file has at least 8", f->path,
                       f->map.size);
    uint64_t header = 0;
    for (int i = 7; i >= 0; i--) header = header << 8 | f->map.data[i];
    if (header > f->map.size - 8)
        return err_set(err, ERR_FORMAT,
                       "%s: header of %" PRIu64 " bytes in a file of %zu (cut short, or not a "
                       "safetensors file)",
                       f->path, header, f->map.size);
    if (header > HEADER_MAX)
        return err_set(err, ERR_FORMAT, "%s: header of %" PRIu64 " bytes; the format allows %d",
                       f->path, header, (int)HEADER_MAX);
    json_t *root = NULL;
    TRY(json_read_text(&root, f->path, (const char *)f->map.data + 8, (size_t)header, err));
    Reader r = {.f = f, .data_bytes = f->map.size - 8 - header};
    const Status s = read_header(&r, root, err);
    mem_free(r.span);
    json_decref(root);
    return s;
}

Status safe_open(SafeFile *f, const char *path, Err *err)
{
    *f = (SafeFile){0};
    if (strlen(path) + 1 > sizeof f->path)
        return err_set(err, ERR_USAGE, "path too long: %.60s...", path);
    snprintf(f->path, sizeof f->path, "%s", path);
    TRY(file_map(path, &f->map, err));
    const Status s = open_mapped(f, err);
    if (s != ERR_NONE) safe_close(f);
    return s;
}

const SafeEntry *safe_find(const SafeFile *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->entry[i].name, name) == 0) return &f->entry[i];
    return NULL;
}

const char *safe_meta(const SafeFile *f, const char *key)
{
    for (int i = 0; i < f->n_meta; i++)
        if (strcmp(f->meta_key[i], key) == 0) return f->meta_value[i];
    return NULL;
}

void safe_close(SafeFile *f)
{
    for (int i = 0; i < f->n; i++) mem_free(f->entry[i].name);
    for (int i = 0; i < f->n_meta; i++) {
        mem_free(f->meta_key[i]);
        mem_free(f->meta_value[i]);
    }
    mem_free(f->entry);
    mem_free(f->meta_key);
    mem_free(f->meta_value);
    file_unmap(&f->map);
    *f = (SafeFile){0};
}
