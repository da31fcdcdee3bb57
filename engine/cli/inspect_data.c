// inspect_data.c -- data folders, token shards and tokenizers.
//
// SPDX-License-Identifier: MIT
#include "engine/cli/inspect.h"

#include "engine/base/file.h"
#include "engine/data/corpus.h"
#include "engine/data/meta.h"
#include "engine/data/shard.h"
#include "tokenizer/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int32_t word(const uint8_t *p)
{
    return (int32_t)((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                     (uint32_t)p[3] << 24);
}

bool inspect_is_shard(const char *path)
{
    FileMap map;
    if (file_map(path, &map, NULL) != ERR_NONE) return false;
    const int32_t magic = map.size >= 4 ? word(map.data) : 0;
    file_unmap(&map);
    return magic == SHARD_MAGIC_16 || magic == SHARD_MAGIC_32;
}

static Status check_shard(const char *path, const FileMap *map, int *width, int64_t *tokens,
                          Err *err)
{
    if (map->size < SHARD_HEADER_BYTES)
        return err_set(err, ERR_FORMAT, "%s: %zu bytes; the header of a token shard alone has %d",
                       path, map->size, (int)SHARD_HEADER_BYTES);
    const bool wide = word(map->data) == SHARD_MAGIC_32;
    const int32_t version = word(map->data + 4), want = wide ? SHARD_VERSION_32 : SHARD_VERSION_16;
    *width = wide ? 4 : 2;
    *tokens = word(map->data + 8);
    if (version != want)
        return err_set(err, ERR_FORMAT, "%s: token shard of version %" PRId32 ", expected %" PRId32,
                       path, version, want);
    const int64_t bytes = SHARD_HEADER_BYTES + *tokens * *width;
    if (*tokens < 0 || bytes != (int64_t)map->size)
        return err_set(err, ERR_FORMAT,
                       "%s: the header says %" PRId64
                       " tokens of %d bytes, but the file has %zu bytes",
                       path, *tokens, *width, map->size);
    return ERR_NONE;
}

static Status put_shard(const char *path, const FileMap *map, Buf *out, Err *err)
{
    int width = 2;
    int64_t tokens = 0;
    TRY(check_shard(path, map, &width, &tokens, err));
    uint32_t largest = 0;
    const uint8_t *p = map->data + SHARD_HEADER_BYTES;
    for (int64_t i = 0; i < tokens; i++, p += width) {
        const uint32_t id = width == 4 ? (uint32_t)word(p) : (uint32_t)p[0] | (uint32_t)p[1] << 8;
        largest = LT_MAX(largest, id);
    }
    TRY(buf_printf(out, err, "%s: token shard, magic %" PRId32 ", version %" PRId32 "\n", path,
                   word(map->data), word(map->data + 4)));
    TRY(buf_printf(out, err, "  tokens:     %" PRId64 " of %d bits\n", tokens, 8 * width));
    TRY(buf_printf(out, err, "  largest id: %" PRIu32 "\n", largest));
    return buf_puts(out, "checksums: a shard has none of its own; inspect its folder\n", err);
}

Status inspect_shard(const char *path, Buf *out, Err *err)
{
    FileMap map;
    TRY(file_map(path, &map, err));
    const Status s = put_shard(path, &map, out, err);
    file_unmap(&map);
    return s;
}

// One file of a data folder against its entry. Damage goes to *first, once.
static Status put_meta_file(const char *dir, const MetaFile *f, OnPart *check, Buf *out, Err *first,
                            Err *err)
{
    char path[PATH_CAP];
    uint32_t crc = 0;
    uint64_t bytes = 0;
    Err bad = {0};
    if (!f->name[0]) return ERR_NONE;
    TRY(path_join(path, dir, f->name, err));
    const OnProgress on = on_part(check);
    Status s = check ? file_crc_on(path, &on, &crc, &bytes, &bad) : file_size(path, &bytes, &bad);
    if (s == ERR_NONE && bytes != f->bytes)
        s = err_set(&bad, ERR_FORMAT, "%s has %" PRIu64 " bytes, %s says %" PRIu64, path, bytes,
                    META_FILE, f->bytes);
    else if (s == ERR_NONE && check && crc != f->crc)
        s = err_set(&bad, ERR_FORMAT, "%s has CRC-32 %08" PRIx32 ", %s says %08" PRIx32, path, crc,
                    META_FILE, f->crc);
    if (s != ERR_NONE && first->code == ERR_NONE) *first = bad;
    on_part_done(check, (double)f->bytes);
    return buf_printf(out, err, "    %08" PRIx32 " %12" PRIu64 "  %s%s%s\n", f->crc, f->bytes,
                      f->name, s == ERR_NONE ? "" : "  DAMAGED: ", bad.text);
}

static double share(int64_t part, int64_t of)
{
    return (double)part / (double)LT_MAX(of, 1);
}

static Status put_pairs(const MetaPairs *p, Buf *out, Err *err)
{
    return buf_printf(out, err,
                      "  pairs of segments: up to %" PRId64 " tokens, [CLS] %" PRId32
                      ", [SEP] %" PRId32 ", [MASK] %" PRId32 ", padding %" PRId32 "\n"
                      "  made with sentences=%s short_seq_prob=%g dupe_factor=%" PRId64
                      " data.seed=%" PRIu64 "\n",
                      p->max_seq_length, p->cls, p->sep, p->mask, p->pad, p->sentences,
                      p->short_seq_prob, p->dupe_factor, p->seed);
}

static Status put_pairs_split(const char *name, const MetaSplit *m, Buf *out, Err *err)
{
    return buf_printf(out, err,
                      "  %s: %" PRId64 " pair%s from %" PRId64 " document%s, %.1f%% with a random "
                      "second segment, %" PRId64 " token%s (%.1f a pair), %" PRId64
                      " byte%s of text\n",
                      name, m->documents, plural_s(m->documents), m->texts, plural_s(m->texts),
                      100 * share(m->random_next, m->documents), m->tokens, plural_s(m->tokens),
                      share(m->tokens, m->documents), m->text_bytes, plural_s(m->text_bytes));
}

static Status put_tokens_split(const char *name, const MetaSplit *m, Buf *out, Err *err)
{
    TRY(buf_printf(out, err,
                   "  %s: %" PRId64 " token%s, %" PRId64 " document%s, %" PRId64 " byte%s of text",
                   name, m->tokens, plural_s(m->tokens), m->documents, plural_s(m->documents),
                   m->text_bytes, plural_s(m->text_bytes)));
    if (m->counted_tokens != m->tokens)
        TRY(buf_printf(out, err, ", %" PRId64 " token%s in completions", m->counted_tokens,
                       plural_s(m->counted_tokens)));
    return buf_puts(out, "\n", err);
}

static Status put_split(const char *dir, const char *name, const MetaSplit *m, OnPart *check,
                        Buf *out, Err *first, Err *err)
{
    TRY(m->next.name[0] ? put_pairs_split(name, m, out, err) : put_tokens_split(name, m, out, err));
    for (int i = 0; i < m->shards; i++)
        TRY(put_meta_file(dir, &m->shard[i], check, out, first, err));
    TRY(put_meta_file(dir, &m->index, check, out, first, err));
    TRY(put_meta_file(dir, &m->next, check, out, first, err));
    return put_meta_file(dir, &m->mask, check, out, first, err);
}

// The id, or "none".
static const char *end_token(int32_t id, char out[16])
{
    if (id < 0) return "none";
    snprintf(out, 16, "%" PRId32, id);
    return out;
}

static Status put_meta(const char *dir, const DataMeta *m, OnPart *check, Buf *out, Err *err)
{
    Err first = {0};
    TRY(buf_printf(out, err, "%s: data folder\n", dir));
    char end[16];
    TRY(buf_printf(out, err,
                   "  tokenizer: %s, %" PRId64 " ids, end token %s, fingerprint %016" PRIx64 "\n",
                   m->kind, m->vocab_size, end_token(m->end_token, end), m->tokenizer));
    if (m->pairs.max_seq_length) TRY(put_pairs(&m->pairs, out, err));
    TRY(put_split(dir, "train", &m->split[0], check, out, &first, err));
    TRY(put_split(dir, "val", &m->split[1], check, out, &first, err));
    TRY(buf_printf(out, err, "  %d-bit tokens, %" PRId64 " empty document%s left out\n",
                   8 * m->token_bytes, m->empty_documents, plural_s(m->empty_documents)));
    if (first.code == ERR_NONE)
        return buf_puts(out,
                        check ? "checksums: every file is as meta.json says\n"
                              : "checksums: not checked (--verify does)\n",
                        err);
    TRY(buf_puts(out, "checksums: DAMAGED\n", err));
    return err_set(err, first.code == ERR_IO ? ERR_FORMAT : first.code, "%s", first.text);
}

static double bytes_of(const DataMeta *m)
{
    double sum = 0;
    for (int k = 0; k < 2; k++) {
        const MetaSplit *s = &m->split[k];
        for (int i = 0; i < s->shards; i++) sum += (double)s->shard[i].bytes;
        sum += (double)s->index.bytes + (double)s->mask.bytes + (double)s->next.bytes;
    }
    return sum;
}

Status inspect_data(const char *dir, OnPart *check, Buf *out, Err *err)
{
    DataMeta m = {0};
    TRY(data_meta_read(&m, dir, err));
    if (check) check->total = bytes_of(&m);
    const Status s = put_meta(dir, &m, check, out, err);
    data_meta_free(&m);
    return s;
}

// Token files of other programs: one split of them.
static Status put_corpus(const char *path, int split, Buf *out, Err *err)
{
    enum { CHUNK = 4096 };
    Corpus c;
    const Status opened = corpus_open(&c, path, split, err);
    if (split && opened == ERR_USAGE) return ERR_NONE; // there is none
    TRY(opened);
    int32_t ids[CHUNK], largest = 0;
    Status s = ERR_NONE;
    for (int64_t at = 0, n; at < c.tokens && s == ERR_NONE; at += n) {
        n = LT_MIN(c.tokens - at, (int64_t)CHUNK);
        s = corpus_read(&c, at, n, 0, ids, err);
        for (int64_t i = 0; i < n && s == ERR_NONE; i++) largest = LT_MAX(largest, ids[i]);
    }
    if (s == ERR_NONE)
        s = buf_printf(out, err, "  %s: %" PRId64 " token%s, largest id %" PRId32 ", %d file%s",
                       split ? "val" : "train", c.tokens, plural_s(c.tokens), largest, c.pieces,
                       plural_s(c.pieces));
    if (s == ERR_NONE && c.document)
        s = buf_printf(out, err, ", %" PRId64 " document%s", c.documents, plural_s(c.documents));
    if (s == ERR_NONE) s = buf_puts(out, "\n", err);
    corpus_close(&c);
    return s;
}

Status inspect_corpus(const char *path, Buf *out, Err *err)
{
    TRY(buf_printf(out, err, "%s: token files without a meta.json\n", path));
    for (int split = 0; split < 2; split++) TRY(put_corpus(path, split, out, err));
    return buf_puts(out, "checksums: these formats have none\n", err);
}

Status inspect_tokenizer(const char *path, Buf *out, Err *err)
{
    Tokenizer *t = NULL;
    TRY(tokenizer_load(&t, path, NULL, err));
    char end[16];
    const Status s =
        buf_printf(out, err,
                   "%s: tokenizer, %s\n  pattern:     %s\n  ids:         %" PRId64
                   "\n  end token:   %s\n  fingerprint: %016" PRIx64 "\n",
                   path, tokenizer_kind(t), tokenizer_pattern(t), tokenizer_vocab_size(t),
                   end_token(tokenizer_end_token(t), end), tokenizer_fingerprint(t));
    tokenizer_close(t);
    return s;
}
