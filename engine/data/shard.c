// shard.c -- see shard.h.
//
// SPDX-License-Identifier: MIT
#include "engine/data/shard.h"
#include "engine/base/assert.h"
#include "engine/base/file.h"
#include "engine/base/mem.h"

#include <stdio.h>
#include <string.h>

enum { PACK_TOKENS = 8192 };

typedef struct BitFile { // one bit after the other, the lowest of a byte first
    FileWriter file;
    int64_t bits;
    uint8_t byte; // bits that do not fill one yet
} BitFile;

struct SplitWriter {
    const char *dir;
    const char *name;
    int token_bytes;
    int64_t shard_tokens;
    int64_t in_shard; // tokens in the open shard
    MetaSplit meta;
    FileWriter shard, index;
    BitFile mask, next;
    uint8_t pack[PACK_TOKENS * 4];
};

static Status path_of(const SplitWriter *w, char path[PATH_CAP], const char *file, Err *err)
{
    return path_join(path, w->dir, file, err);
}

static void shard_name(const SplitWriter *w, char out[64], const char *extension)
{
    snprintf(out, 64, "%s-%05d.%s", w->name, w->meta.shards, extension);
}

Status split_writer_open(SplitWriter **out, const char *dir, const char *name, int token_bytes,
                         int64_t shard_tokens, Err *err)
{
    ASSERT(token_bytes == 2 || token_bytes == 4, "%d bytes a token", token_bytes);
    ASSERT(shard_tokens > 0 && shard_tokens <= SHARD_MAX_TOKENS, "shards of %lld tokens",
           (long long)shard_tokens);
    *out = NULL;
    SplitWriter *w = mem_calloc(1, sizeof *w);
    if (!w) return mem_err(err, sizeof *w, "a shard writer");
    w->dir = dir;
    w->name = name;
    w->token_bytes = token_bytes;
    w->shard_tokens = shard_tokens;
    w->shard.fd = w->index.fd = w->mask.file.fd = w->next.file.fd = -1;
    *out = w;
    return ERR_NONE;
}

static Status write_header(FileWriter *f, int token_bytes, int64_t tokens, Err *err)
{
    int32_t h[SHARD_HEADER_WORDS] = {0};
    h[0] = token_bytes == 2 ? SHARD_MAGIC_16 : SHARD_MAGIC_32;
    h[1] = token_bytes == 2 ? SHARD_VERSION_16 : SHARD_VERSION_32;
    h[2] = (int32_t)tokens;
    return file_write(f, h, sizeof h, err);
}

static Status open_shard(SplitWriter *w, Err *err)
{
    if (w->meta.shards >= 99999)
        return err_set(err, ERR_USAGE, "more than 99999 shards; raise shard_tokens");
    const size_t bytes = (size_t)(w->meta.shards + 1) * sizeof *w->meta.shard;
    MetaFile *list = mem_realloc(w->meta.shard, bytes);
    if (!list) return mem_err(err, bytes, "the list of shards");
    w->meta.shard = list;
    char part[64], path[PATH_CAP];
    shard_name(w, part, "part");
    TRY(path_of(w, path, part, err));
    TRY(file_create(&w->shard, path, err));
    w->in_shard = 0;
    return write_header(&w->shard, w->token_bytes, w->shard_tokens, err);
}

static void record_shard(SplitWriter *w, const char *name, const FileWriter *f)
{
    MetaFile *m = &w->meta.shard[w->meta.shards++];
    *m = (MetaFile){.tokens = w->in_shard, .bytes = f->written, .crc = f->crc};
    snprintf(m->name, sizeof m->name, "%s", name);
}

// The payload of NAME.part under a header with its true length.
static Status copy_short_shard(SplitWriter *w, const char *part, const char *path, const char *name,
                               Err *err)
{
    FileMap map;
    TRY(file_map(part, &map, err));
    FileWriter f = {.fd = -1};
    Status s = file_create(&f, path, err);
    if (s == ERR_NONE) s = write_header(&f, w->token_bytes, w->in_shard, err);
    if (s == ERR_NONE)
        s = file_write(&f, map.data + SHARD_HEADER_BYTES, map.size - SHARD_HEADER_BYTES, err);
    if (s == ERR_NONE) s = file_commit(&f, err);
    file_abandon(&f);
    file_unmap(&map);
    TRY(s);
    record_shard(w, name, &f);
    return file_remove(part, err);
}

static Status close_shard(SplitWriter *w, Err *err)
{
    char name[64], part[PATH_CAP], path[PATH_CAP];
    shard_name(w, name, "bin");
    TRY(path_of(w, path, name, err));
    memcpy(part, w->shard.path, sizeof part);
    TRY(file_commit(&w->shard, err));
    if (w->in_shard < w->shard_tokens) return copy_short_shard(w, part, path, name, err);
    TRY(file_rename(part, path, err));
    record_shard(w, name, &w->shard);
    return ERR_NONE;
}

static Status open_side_file(SplitWriter *w, FileWriter *f, const char *extension,
                             const char *magic, Err *err)
{
    char name[64], path[PATH_CAP];
    snprintf(name, sizeof name, "%s.%s", w->name, extension);
    TRY(path_of(w, path, name, err));
    TRY(file_create(f, path, err));
    return file_write(f, magic, INDEX_HEADER_BYTES, err);
}

Status split_writer_document(SplitWriter *w, Err *err)
{
    if (w->index.fd < 0) TRY(open_side_file(w, &w->index, "documents", INDEX_MAGIC, err));
    const uint64_t start = (uint64_t)w->meta.tokens;
    w->meta.documents++;
    return file_write(&w->index, &start, sizeof start, err);
}

static Status put_bits(BitFile *f, int64_t n, bool bit, Err *err)
{
    for (int64_t end = f->bits + n; f->bits < end; f->bits++) {
        f->byte |= (uint8_t)((unsigned)bit << (f->bits & 7));
        if ((f->bits & 7) != 7) continue;
        TRY(file_write(&f->file, &f->byte, 1, err));
        f->byte = 0;
    }
    return ERR_NONE;
}

Status split_writer_next(SplitWriter *w, bool random, Err *err)
{
    if (w->next.file.fd < 0) TRY(open_side_file(w, &w->next.file, "next", NEXT_MAGIC, err));
    w->meta.random_next += random;
    return put_bits(&w->next, 1, random, err);
}

static Status put_in_shard(SplitWriter *w, const int32_t *id, int64_t n, Err *err)
{
    for (int64_t i = 0; i < n; i++) {
        const uint32_t v = (uint32_t)id[i];
        if (w->token_bytes == 2) {
            const uint16_t half = (uint16_t)v;
            memcpy(w->pack + 2 * i, &half, 2);
        } else {
            memcpy(w->pack + 4 * i, &v, 4);
        }
    }
    w->in_shard += n;
    return file_write(&w->shard, w->pack, (size_t)(n * w->token_bytes), err);
}

Status split_writer_put(SplitWriter *w, const int32_t *id, int64_t n, bool counts, Err *err)
{
    if (!counts && n > 0 && w->mask.file.fd < 0) {
        // The first prompt: what came before it counts.
        TRY(open_side_file(w, &w->mask.file, "mask", MASK_MAGIC, err));
        TRY(put_bits(&w->mask, w->meta.tokens, true, err));
    }
    if (w->mask.file.fd >= 0) TRY(put_bits(&w->mask, n, counts, err));
    if (counts) w->meta.counted_tokens += n;
    while (n > 0) {
        if (w->shard.fd < 0) TRY(open_shard(w, err));
        const int64_t room = w->shard_tokens - w->in_shard;
        const int64_t k = LT_MIN(LT_MIN(n, room), (int64_t)PACK_TOKENS);
        TRY(put_in_shard(w, id, k, err));
        id += k;
        n -= k;
        w->meta.tokens += k;
        if (w->in_shard == w->shard_tokens) TRY(close_shard(w, err));
    }
    return ERR_NONE;
}

static Status finish_side_file(FileWriter *f, MetaFile *m, Err *err)
{
    snprintf(m->name, sizeof m->name, "%s", path_base(f->path));
    TRY(file_commit(f, err));
    m->bytes = f->written;
    m->crc = f->crc;
    return ERR_NONE;
}

static Status finish_bits(BitFile *f, MetaFile *m, Err *err)
{
    if (f->bits & 7) TRY(file_write(&f->file, &f->byte, 1, err));
    return finish_side_file(&f->file, m, err);
}

Status split_writer_finish(SplitWriter *w, MetaSplit *out, Err *err)
{
    if (w->shard.fd >= 0) TRY(close_shard(w, err));
    if (w->index.fd >= 0) TRY(finish_side_file(&w->index, &w->meta.index, err));
    if (w->mask.file.fd >= 0) TRY(finish_bits(&w->mask, &w->meta.mask, err));
    if (w->next.file.fd >= 0) TRY(finish_bits(&w->next, &w->meta.next, err));
    *out = w->meta;
    w->meta = (MetaSplit){0};
    return ERR_NONE;
}

void split_writer_close(SplitWriter *w)
{
    if (!w) return;
    file_abandon(&w->shard);
    file_abandon(&w->index);
    file_abandon(&w->mask.file);
    file_abandon(&w->next.file);
    mem_free(w->meta.shard);
    mem_free(w);
}
