// corpus.c -- see corpus.h.
//
// SPDX-License-Identifier: MIT
#include "engine/data/corpus.h"
#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/data/mmididx.h"
#include "engine/data/shard.h"

#include <stdio.h>
#include <string.h>

static const char *const split_name[2] = {"train", "val"};

// ---------------------------------------------------------------- pieces

static Status add_piece(Corpus *c, const char *path, CorpusPiece **out, Err *err)
{
    const size_t bytes = (size_t)(c->pieces + 1) * sizeof *c->piece;
    CorpusPiece *list = mem_realloc(c->piece, bytes);
    if (!list) return mem_err(err, bytes, "the list of shards");
    c->piece = list;
    CorpusPiece *p = &c->piece[c->pieces];
    *p = (CorpusPiece){.begin = c->tokens, .path = mem_strdup(path)};
    if (!p->path) return mem_err(err, strlen(path) + 1, "the list of shards");
    c->pieces++;
    *out = p;
    return file_map(path, &p->map, err);
}

static int32_t header_word(const CorpusPiece *p, int i)
{
    int32_t v;
    memcpy(&v, p->map.data + 4 * i, 4);
    return v;
}

static bool has_shard_magic(const CorpusPiece *p)
{
    if (p->map.size < 8) return false;
    const int32_t magic = header_word(p, 0);
    return magic == SHARD_MAGIC_16 || magic == SHARD_MAGIC_32;
}

static Status open_shard(CorpusPiece *p, Err *err)
{
    if (p->map.size < SHARD_HEADER_BYTES)
        return err_set(err, ERR_FORMAT, "%s: %zu bytes, a shard's header alone has %d", p->path,
                       p->map.size, SHARD_HEADER_BYTES);
    const bool wide = header_word(p, 0) == SHARD_MAGIC_32;
    const int32_t version = header_word(p, 1), tokens = header_word(p, 2);
    const int32_t want = wide ? SHARD_VERSION_32 : SHARD_VERSION_16;
    if (version != want)
        return err_set(err, ERR_FORMAT, "%s: shard version %d, expected %d", p->path, version,
                       want);
    if (tokens < 0)
        return err_set(err, ERR_FORMAT, "%s: the header says %d tokens", p->path, tokens);
    const uint64_t bytes = SHARD_HEADER_BYTES + (uint64_t)tokens * (wide ? 4 : 2);
    if (bytes != p->map.size)
        return err_set(err, ERR_FORMAT,
                       "%s: %zu bytes, but the header says %d tokens, which are "
                       "%llu bytes",
                       p->path, p->map.size, tokens, (unsigned long long)bytes);
    p->data = p->map.data + SHARD_HEADER_BYTES;
    p->tokens = tokens;
    p->width = wide ? TOKEN_U32 : TOKEN_U16;
    return ERR_NONE;
}

static Status open_headerless(CorpusPiece *p, Err *err)
{
    if (p->map.size % 2)
        return err_set(err, ERR_FORMAT, "%s: %zu bytes is no whole number of uint16 tokens",
                       p->path, p->map.size);
    p->data = p->map.data;
    p->tokens = (int64_t)(p->map.size / 2);
    p->width = TOKEN_U16;
    return ERR_NONE;
}

static Status unknown_magic(const CorpusPiece *p, Err *err)
{
    const uint32_t magic = p->map.size >= 4 ? (uint32_t)header_word(p, 0) : 0;
    const Status s = err_set(err, ERR_FORMAT, "%s: unknown magic %u; a token shard begins with %d",
                             p->path, magic, SHARD_MAGIC_16);
    err_hint(err, "headerless uint16 files are read under the names train.bin and val.bin");
    return s;
}

static Status open_mmididx(Corpus *c, CorpusPiece *p, const char *idx, Err *err)
{
    MmidIndex index;
    TRY(mmid_open(&index, idx, err));
    if (index.bytes != p->map.size) {
        const Status s = err_set(err, ERR_FORMAT, "%s: %zu bytes, but %s says %llu", p->path,
                                 p->map.size, idx, (unsigned long long)index.bytes);
        mmid_close(&index);
        return s;
    }
    p->data = p->map.data;
    p->tokens = index.tokens;
    p->width = index.width;
    // Documents of several files follow each other.
    const int64_t n = c->documents + index.documents;
    uint64_t *list = mem_realloc(c->own_document, (size_t)n * sizeof *list);
    if (list) {
        c->own_document = list;
        for (int64_t i = 0; i < index.documents; i++)
            list[c->documents + i] = (uint64_t)c->tokens + index.document[i];
        c->documents = n;
        c->document = list;
    }
    mmid_close(&index);
    return list ? ERR_NONE : mem_err(err, (size_t)n * sizeof *list, "the documents");
}

// x.bin -> x.idx; false when the name does not end in .bin.
static bool index_path(char out[PATH_CAP], const char *bin)
{
    const size_t n = strlen(bin);
    if (n < 5 || strcmp(bin + n - 4, ".bin") != 0) return false;
    memcpy(out, bin, n - 3);
    memcpy(out + n - 3, "idx", 4);
    return true;
}

static Status add_file(Corpus *c, const char *path, Err *err)
{
    CorpusPiece *p;
    char idx[PATH_CAP];
    const char *name = path_base(path);
    TRY(add_piece(c, path, &p, err));
    const bool mmid = index_path(idx, path) && file_exists(idx);
    if (mmid)
        TRY(open_mmididx(c, p, idx, err));
    else if (has_shard_magic(p))
        TRY(open_shard(p, err));
    else if (strcmp(name, "train.bin") == 0 || strcmp(name, "val.bin") == 0)
        TRY(open_headerless(p, err));
    else
        return unknown_magic(p, err);
    // Documents are known only when every file tells them.
    if (!mmid) c->document = NULL;
    c->tokens += p->tokens;
    return ERR_NONE;
}

// ---------------------------------------------------------------- lathe's own folders

static Status map_side_file(const Corpus *c, const MetaFile *m, const char *magic, uint64_t bytes,
                            FileMap *map, Err *err)
{
    char path[PATH_CAP];
    TRY(path_join(path, c->path, m->name, err));
    TRY(file_map(path, map, err));
    if (map->size != bytes)
        return err_set(err, ERR_FORMAT, "%s: %zu bytes, expected %llu", path, map->size,
                       (unsigned long long)bytes);
    if (memcmp(map->data, magic, INDEX_HEADER_BYTES) != 0)
        return err_set(err, ERR_FORMAT, "%s: unknown magic, expected %s", path, magic);
    return ERR_NONE;
}

static Status check_documents(const Corpus *c, const char *name, Err *err)
{
    for (int64_t i = 0; i < c->documents; i++) {
        const bool rises = i == 0 ? c->document[0] == 0 : c->document[i] > c->document[i - 1];
        if (!rises || c->document[i] >= (uint64_t)c->tokens)
            return err_set(err, ERR_FORMAT,
                           "%s/%s: document %lld begins at token %llu, which is "
                           "out of order",
                           c->path, name, (long long)i, (unsigned long long)c->document[i]);
    }
    return ERR_NONE;
}

static Status open_own(Corpus *c, Err *err)
{
    TRY(data_meta_read(&c->meta, c->path, err));
    c->has_meta = true;
    const MetaSplit *s = &c->meta.split[c->split];
    for (int i = 0; i < s->shards; i++) {
        CorpusPiece *p;
        char path[PATH_CAP];
        TRY(path_join(path, c->path, s->shard[i].name, err));
        TRY(add_piece(c, path, &p, err));
        if (!has_shard_magic(p)) return unknown_magic(p, err);
        TRY(open_shard(p, err));
        if (p->tokens != s->shard[i].tokens)
            return err_set(err, ERR_FORMAT, "%s: %lld tokens, but " META_FILE " says %lld", path,
                           (long long)p->tokens, (long long)s->shard[i].tokens);
        c->tokens += p->tokens;
    }
    if (s->index.name[0]) {
        TRY(map_side_file(c, &s->index, INDEX_MAGIC,
                          INDEX_HEADER_BYTES + (uint64_t)s->documents * 8, &c->index_map, err));
        // A map begins at a page, and the header is 8 bytes: aligned.
        c->document = (const uint64_t *)(const void *)(c->index_map.data + INDEX_HEADER_BYTES);
        c->documents = s->documents;
        TRY(check_documents(c, s->index.name, err));
    }
    if (s->mask.name[0]) {
        TRY(map_side_file(c, &s->mask, MASK_MAGIC,
                          INDEX_HEADER_BYTES + (uint64_t)(s->tokens + 7) / 8, &c->mask_map, err));
        c->mask = c->mask_map.data + INDEX_HEADER_BYTES;
    }
    if (s->next.name[0]) {
        TRY(map_side_file(c, &s->next, NEXT_MAGIC,
                          INDEX_HEADER_BYTES + (uint64_t)(s->documents + 7) / 8, &c->next_map,
                          err));
        c->next = c->next_map.data + INDEX_HEADER_BYTES;
    }
    return ERR_NONE;
}

// ---------------------------------------------------------------- open

static bool is_shard_name(const char *name)
{
    const size_t n = strlen(name);
    return name[0] != '.' && n > 4 && strcmp(name + n - 4, ".bin") == 0;
}

static Status open_foreign_folder(Corpus *c, Err *err)
{
    FileList list;
    TRY(file_list(c->path, &list, err));
    Status s = ERR_NONE;
    for (int i = 0; i < list.n && s == ERR_NONE; i++) {
        char path[PATH_CAP];
        if (strcmp(list.name[i], META_MARKER) == 0)
            s = err_set(err, ERR_FORMAT, "%s: made by a lathe data that did not finish", c->path);
        else if (is_shard_name(list.name[i]) && (strstr(list.name[i], "val") != NULL) == c->split) {
            s = path_join(path, c->path, list.name[i], err);
            if (s == ERR_NONE) s = add_file(c, path, err);
        }
    }
    file_list_free(&list);
    return s;
}

static Status open_file(Corpus *c, Err *err)
{
    if (c->split != 0) return ERR_NONE; // told as an empty split
    char prefix[PATH_CAP + 8], idx[PATH_CAP + 8];
    snprintf(idx, sizeof idx, "%s.idx", c->path);
    snprintf(prefix, sizeof prefix, "%s.bin", c->path);
    if (!file_exists(c->path) && file_exists(idx)) return add_file(c, prefix, err);
    return add_file(c, c->path, err);
}

static Status open_any(Corpus *c, Err *err)
{
    if (!file_is_dir(c->path)) {
        TRY(open_file(c, err));
    } else {
        char meta[PATH_CAP];
        TRY(path_join(meta, c->path, META_FILE, err));
        if (file_exists(meta))
            TRY(open_own(c, err));
        else
            TRY(open_foreign_folder(c, err));
    }
    if (c->tokens > 0) return ERR_NONE;
    const Status s =
        err_set(err, ERR_USAGE, "%s: no tokens in its %s split", c->path, split_name[c->split]);
    err_hint(err, c->has_meta ? "lathe data --val_fraction says how much is kept for validation"
                              : "lathe data makes a data folder from text");
    return s;
}

Status corpus_open(Corpus *c, const char *path, int split, Err *err)
{
    *c = (Corpus){.split = split};
    if (strlen(path) >= PATH_CAP - 8)
        return err_set(err, ERR_USAGE, "path too long: %.60s...", path);
    memcpy(c->path, path, strlen(path) + 1);
    const Status s = open_any(c, err);
    if (s != ERR_NONE) corpus_close(c);
    return s;
}

void corpus_close(Corpus *c)
{
    for (int i = 0; i < c->pieces; i++) {
        file_unmap(&c->piece[i].map);
        mem_free(c->piece[i].path);
    }
    mem_free(c->piece);
    mem_free(c->own_document);
    file_unmap(&c->index_map);
    file_unmap(&c->mask_map);
    file_unmap(&c->next_map);
    data_meta_free(&c->meta);
    *c = (Corpus){0};
}

// ---------------------------------------------------------------- reading

// The number of entries of a rising list that are <= at.
static int64_t count_until(const uint64_t *list, int64_t n, uint64_t at)
{
    int64_t lo = 0, hi = n;
    while (lo < hi) {
        const int64_t mid = lo + (hi - lo) / 2;
        if (list[mid] <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int64_t corpus_documents_until(const Corpus *c, int64_t at)
{
    return count_until(c->document, c->documents, (uint64_t)at);
}

bool corpus_counts(const Corpus *c, int64_t at)
{
    return !c->mask || (c->mask[at >> 3] >> (at & 7) & 1);
}

int64_t corpus_document_end(const Corpus *c, int64_t i)
{
    return i + 1 < c->documents ? (int64_t)c->document[i + 1] : c->tokens;
}

bool corpus_random_next(const Corpus *c, int64_t i)
{
    return c->next[i >> 3] >> (i & 7) & 1;
}

static const CorpusPiece *piece_of(const Corpus *c, int64_t at)
{
    int lo = 0, hi = c->pieces - 1; // the last piece that begins at or before `at`
    while (lo < hi) {
        const int mid = lo + (hi - lo + 1) / 2;
        if (c->piece[mid].begin <= at)
            lo = mid;
        else
            hi = mid - 1;
    }
    return &c->piece[lo];
}

// Token i of a piece as it is in the file, sign and all.
static int64_t token_at(const CorpusPiece *p, int64_t i)
{
    switch (p->width) {
    case TOKEN_U8: return p->data[i];
    case TOKEN_I8: return (int8_t)p->data[i];
    case TOKEN_U16: {
        uint16_t v;
        memcpy(&v, p->data + 2 * i, 2);
        return v;
    }
    case TOKEN_I16: {
        int16_t v;
        memcpy(&v, p->data + 2 * i, 2);
        return v;
    }
    case TOKEN_I32: {
        int32_t v;
        memcpy(&v, p->data + 4 * i, 4);
        return v;
    }
    case TOKEN_U32: {
        uint32_t v;
        memcpy(&v, p->data + 4 * i, 4);
        return v;
    }
    case TOKEN_I64: {
        int64_t v;
        memcpy(&v, p->data + 8 * i, 8);
        return v;
    }
    }
    return -1;
}

static Status bad_id(const CorpusPiece *p, int64_t i, int64_t id, int64_t vocab_size, Err *err)
{
    const Status s = err_set(err, ERR_FORMAT,
                             "%s: token %lld is id %lld, but the vocabulary has "
                             "%lld ids",
                             p->path, (long long)i, (long long)id, (long long)vocab_size);
    err_hint(err, "the data was made with another tokenizer, or the file is damaged");
    return s;
}

Status corpus_read(const Corpus *c, int64_t at, int64_t n, int64_t vocab_size, int32_t *dst,
                   Err *err)
{
    ASSERT(at >= 0 && n >= 0 && at + n <= c->tokens, "tokens [%lld, %lld) of %lld", (long long)at,
           (long long)(at + n), (long long)c->tokens);
    const int64_t limit = vocab_size > 0 ? vocab_size : INT32_MAX;
    while (n > 0) {
        const CorpusPiece *p = piece_of(c, at);
        const int64_t from = at - p->begin, k = LT_MIN(n, p->tokens - from);
        for (int64_t i = 0; i < k; i++) {
            const int64_t id = token_at(p, from + i);
            if (id < 0 || id >= limit) return bad_id(p, from + i, id, limit, err);
            dst[i] = (int32_t)id;
        }
        dst += k;
        at += k;
        n -= k;
    }
    return ERR_NONE;
}
