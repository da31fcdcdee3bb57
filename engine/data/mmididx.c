// mmididx.c -- see mmididx.h.
//
// SPDX-License-Identifier: MIT
#include "engine/data/mmididx.h"
#include "engine/base/mem.h"

#include <string.h>

enum { HEADER_BYTES = 34 };

typedef struct Layout { // of a mapped .idx
    const char    *path;
    uint64_t       sequences, documents;
    const uint8_t *length, *pointer, *document;
    uint64_t       token_bytes;
} Layout;

static uint64_t load64(const uint8_t *p, uint64_t i)
{
    uint64_t v;
    memcpy(&v, p + 8 * i, 8);
    return v;
}

static int32_t load32(const uint8_t *p, uint64_t i)
{
    int32_t v;
    memcpy(&v, p + 4 * i, 4);
    return v;
}

static Status read_type(MmidIndex *m, Layout *l, uint8_t code, Err *err)
{
    static const struct {
        TokenWidth width;
        uint8_t    bytes;
    } types[] = {[1] = {TOKEN_U8, 1},  [2] = {TOKEN_I8, 1},  [3] = {TOKEN_I16, 2},
                 [4] = {TOKEN_I32, 4}, [5] = {TOKEN_I64, 8}, [8] = {TOKEN_U16, 2}};
    if (code >= LT_COUNT(types) || types[code].bytes == 0)
        return err_set(err, ERR_FORMAT, "%s: tokens of type %d; integers are 1 to 5 and 8", l->path,
                       code);
    m->width       = types[code].width;
    l->token_bytes = types[code].bytes;
    return ERR_NONE;
}

static Status read_layout(MmidIndex *m, Layout *l, const FileMap *map, Err *err)
{
    if (map->size < HEADER_BYTES || memcmp(map->data, "MMIDIDX\0\0", 9) != 0)
        return err_set(err, ERR_FORMAT, "%s: unknown magic, expected MMIDIDX", l->path);
    const uint64_t version = load64(map->data + 9, 0);
    if (version != 1)
        return err_set(err, ERR_FORMAT, "%s: version %llu, expected 1", l->path,
                       (unsigned long long)version);
    TRY(read_type(m, l, map->data[17], err));
    l->sequences         = load64(map->data + 18, 0);
    l->documents         = load64(map->data + 26, 0);
    const uint64_t space = map->size - HEADER_BYTES;
    if (l->sequences > space / 12 || l->documents > (space - l->sequences * 12) / 8)
        return err_set(err, ERR_FORMAT, "%s: %zu bytes are too few for %llu sequences and %llu "
                                        "documents",
                       l->path, map->size, (unsigned long long)l->sequences,
                       (unsigned long long)l->documents);
    l->length   = map->data + HEADER_BYTES;
    l->pointer  = l->length + 4 * l->sequences;
    l->document = l->pointer + 8 * l->sequences;
    return ERR_NONE;
}

static Status walk(MmidIndex *m, const Layout *l, Err *err)
{
    m->document = mem_alloc((size_t)(l->documents + 1) * sizeof *m->document);
    if (!m->document) return mem_err(err, (size_t)(l->documents + 1) * 8, "the documents");
    uint64_t tokens = 0, d = 0, last = UINT64_MAX;
    for (uint64_t i = 0; i <= l->sequences; i++) {
        for (; d < l->documents && load64(l->document, d) == i; d++) {
            // An empty document begins where the next one does; the list's end begins nothing.
            if (i == l->sequences || tokens == last) continue;
            m->document[m->documents++] = last = tokens;
        }
        if (i == l->sequences) break;
        const int32_t  length = load32(l->length, i);
        const uint64_t at     = load64(l->pointer, i), want = tokens * l->token_bytes;
        if (length < 0)
            return err_set(err, ERR_FORMAT, "%s: sequence %llu has %d tokens", l->path,
                           (unsigned long long)i, length);
        if (at != want)
            return err_set(err, ERR_FORMAT, "%s: sequence %llu lies at byte %llu, expected %llu",
                           l->path, (unsigned long long)i, (unsigned long long)at,
                           (unsigned long long)want);
        tokens += (uint64_t)length;
    }
    if (d != l->documents)
        return err_set(err, ERR_FORMAT, "%s: document %llu begins at sequence %llu, which is out "
                                        "of order",
                       l->path, (unsigned long long)d, (unsigned long long)load64(l->document, d));
    // A document of no tokens at the very end begins nothing either.
    if (m->documents > 0 && m->document[m->documents - 1] == tokens) m->documents--;
    m->tokens = (int64_t)tokens;
    m->bytes  = tokens * l->token_bytes;
    return ERR_NONE;
}

Status mmid_open(MmidIndex *m, const char *path, Err *err)
{
    *m = (MmidIndex){0};
    FileMap map;
    TRY(file_map(path, &map, err));
    Layout l = {.path = path};
    Status s = read_layout(m, &l, &map, err);
    if (s == ERR_NONE) s = walk(m, &l, err);
    file_unmap(&map);
    if (s != ERR_NONE) mmid_close(m);
    return s;
}

void mmid_close(MmidIndex *m)
{
    mem_free(m->document);
    *m = (MmidIndex){0};
}
