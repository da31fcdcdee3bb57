// manifest.c -- see manifest.h.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/manifest.h"

#include "engine/base/buf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char first_line[] = "lathe-manifest 1";
enum { TEXT_MAX = 1 << 16 };

Status manifest_add(Manifest *m, const char *name, uint32_t crc, uint64_t bytes, Err *err)
{
    if (m->n == MANIFEST_FILES_MAX || strlen(name) + 1 > MANIFEST_NAME_CAP)
        return err_set(err, ERR_UNSUPPORTED,
                       "a checkpoint holds at most %d files with short names (%.40s)",
                       (int)MANIFEST_FILES_MAX, name);
    ManifestLine *l = &m->line[m->n++];
    snprintf(l->name, sizeof l->name, "%s", name);
    l->crc = crc;
    l->bytes = bytes;
    return ERR_NONE;
}

static Status put_lines(const Manifest *m, Buf *b, Err *err)
{
    TRY(buf_printf(b, err, "%s\n", first_line));
    for (int i = 0; i < m->n; i++)
        TRY(buf_printf(b, err, "%08" PRIx32 " %" PRIu64 " %s\n", m->line[i].crc, m->line[i].bytes,
                       m->line[i].name));
    return buf_puts(b, "end\n", err);
}

Status manifest_write(const Manifest *m, const char *dir, Err *err)
{
    char path[PATH_CAP];
    Buf b = {0};
    TRY(path_join(path, dir, "MANIFEST", err));
    Status s = put_lines(m, &b, err);
    if (s == ERR_NONE) s = file_replace(path, b.data, b.len, err);
    buf_free(&b);
    return s;
}

static bool read_hex(const char **p, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 8; i++, (*p)++) {
        const char c = **p;
        if (c >= '0' && c <= '9')
            *out = *out << 4 | (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            *out = *out << 4 | (uint32_t)(c - 'a' + 10);
        else
            return false;
    }
    return *(*p)++ == ' ';
}

static bool read_number(const char **p, uint64_t *out)
{
    *out = 0;
    const char *const start = *p;
    for (; **p >= '0' && **p <= '9'; (*p)++) {
        if (*p - start >= 19) return false;
        *out = *out * 10 + (uint64_t)(**p - '0');
    }
    return *p > start && *(*p)++ == ' ';
}

// "CRC SIZE NAME", all of the line.
static bool read_line(Manifest *m, const char *line)
{
    uint32_t crc = 0;
    uint64_t bytes = 0;
    if (!read_hex(&line, &crc) || !read_number(&line, &bytes)) return false;
    if (!*line || *line == '.' || strchr(line, '/')) return false;
    return manifest_add(m, line, crc, bytes, NULL) == ERR_NONE;
}

// `text`: n bytes and a zero.
static Status parse(Manifest *m, char *text, size_t n, const char *path, Err *err)
{
    int number = 0;
    if (strlen(text) != n) return err_set(err, ERR_FORMAT, "%s: a zero byte in it", path);
    for (char *line = text, *next; *line; line = next) {
        char *const nl = strchr(line, '\n');
        number++;
        if (!nl) break; // cut short
        *nl = 0;
        next = nl + 1;
        if (number == 1) {
            if (strcmp(line, first_line) == 0) continue;
            return err_set(err, ERR_FORMAT, "%s: does not begin with \"%s\"", path, first_line);
        }
        if (strcmp(line, "end") == 0) {
            if (!*next) return ERR_NONE;
            return err_set(err, ERR_FORMAT, "%s: text behind its end", path);
        }
        if (!read_line(m, line))
            return err_set(err, ERR_FORMAT, "%s: line %d is not \"CRC32 SIZE NAME\"", path, number);
    }
    return err_set(err, ERR_FORMAT, "%s: cut short (no \"end\" line)", path);
}

Status manifest_read(Manifest *m, const char *dir, Err *err)
{
    char path[PATH_CAP];
    uint64_t bytes = 0;
    m->n = 0;
    TRY(path_join(path, dir, "MANIFEST", err));
    if (!file_exists(path))
        return err_set(err, ERR_FORMAT, "%s: MANIFEST is missing: the save did not finish", dir);
    TRY(file_size(path, &bytes, err));
    if (bytes > TEXT_MAX) return err_set(err, ERR_FORMAT, "%s: too large for a MANIFEST", path);
    Buf text = {0};
    Status s = file_read(path, &text, err);
    if (s == ERR_NONE) s = parse(m, text.data, text.len, path, err);
    buf_free(&text);
    return s;
}

static Status check_size(const ManifestLine *l, const char *dir, char path[PATH_CAP], Err *err)
{
    uint64_t bytes = 0;
    TRY(path_join(path, dir, l->name, err));
    if (!file_exists(path)) return err_set(err, ERR_FORMAT, "%s is missing", path);
    TRY(file_size(path, &bytes, err));
    if (bytes != l->bytes)
        return err_set(err, ERR_FORMAT, "%s has %" PRIu64 " bytes, MANIFEST says %" PRIu64, path,
                       bytes, l->bytes);
    return ERR_NONE;
}

static Status check_crc(const ManifestLine *l, const char *dir, OnPart *part, Err *err)
{
    char path[PATH_CAP];
    uint64_t bytes = 0;
    uint32_t crc = 0;
    const OnProgress on = on_part(part);
    TRY(check_size(l, dir, path, err));
    TRY(file_crc_on(path, &on, &crc, &bytes, err));
    if (crc != l->crc || bytes != l->bytes)
        return err_set(err, ERR_FORMAT, "%s has CRC-32 %08" PRIx32 ", MANIFEST says %08" PRIx32,
                       path, crc, l->crc);
    on_part_done(part, (double)bytes);
    return ERR_NONE;
}

Status manifest_check(const Manifest *m, const char *dir, bool full, const OnProgress *on, Err *err)
{
    // Sizes first: they cost nothing and find most damage.
    char path[PATH_CAP];
    OnPart part = {.on = on ? *on : (OnProgress){0}, .total = (double)manifest_bytes(m)};
    for (int i = 0; i < m->n; i++) TRY(check_size(&m->line[i], dir, path, err));
    for (int i = 0; i < m->n && full; i++) TRY(check_crc(&m->line[i], dir, &part, err));
    return ERR_NONE;
}

uint64_t manifest_bytes(const Manifest *m)
{
    uint64_t sum = 0;
    for (int i = 0; i < m->n; i++) sum += m->line[i].bytes;
    return sum;
}

bool manifest_has(const Manifest *m, const char *name)
{
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->line[i].name, name) == 0) return true;
    return false;
}
