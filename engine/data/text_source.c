// text_source.c -- see text_source.h.
//
// A window of the current file (buf[at, len)) is searched for the next separator or newline and
// refilled when there is none; what was searched already is not searched again.
//
// SPDX-License-Identifier: MIT
#include "engine/data/text_source.h"
#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/base/json_text.h"
#include "engine/base/mem.h"
#include "engine/data/byte_reader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { READ_STEP = 1 << 20 };

struct TextSource {
    char  **path; // files to read, in order; owned
    int64_t n_path, cap_path, next_path;
    char   *separator;
    size_t  separator_bytes;

    ByteReader *reader; // of the current file; NULL between files
    const char *file;
    bool        jsonl, file_end;
    bool        in_parts;
    int64_t     line;
    Buf         buf;
    size_t      at;       // where the next document or line begins
    size_t      searched; // nothing was found in [at, searched)
    json_t     *object;   // behind the document handed out last

    TextStats stats;
    char      first_skipped[PATH_CAP];
    uint64_t  consumed_before; // of the files that are closed
};

// ---------------------------------------------------------------- which files

static bool ends_with(const char *s, size_t n, const char *end)
{
    const size_t e = strlen(end);
    return n >= e && memcmp(s + n - e, end, e) == 0;
}

static bool is_kind(const char *path, const char *extension)
{
    size_t n = strlen(path);
    if (ends_with(path, n, ".gz")) n -= 3;
    return ends_with(path, n, extension);
}

static Status add_path(TextSource *s, const char *path, Err *err)
{
    if (s->n_path == s->cap_path) {
        const int64_t n = s->cap_path ? s->cap_path * 2 : 16;
        char        **p = mem_realloc(s->path, (size_t)n * sizeof *p);
        if (!p) return mem_err(err, (size_t)n * sizeof *p, "the list of input files");
        s->path     = p;
        s->cap_path = n;
    }
    uint64_t bytes = 0; // of what is no file: 0
    if (file_size(path, &bytes, NULL) == ERR_NONE) s->stats.bytes_total += bytes;
    char *copy = mem_strdup(path);
    if (!copy) return mem_err(err, strlen(path) + 1, "the list of input files");
    s->path[s->n_path++] = copy;
    return ERR_NONE;
}

typedef struct Ancestor { // the folders we are in, innermost first
    dev_t                  device;
    ino_t                  inode;
    const struct Ancestor *up;
} Ancestor;

// A link to a folder it lies in would read the same text again and again.
static Status enter(Ancestor *here, const char *dir, const Ancestor *up, Err *err)
{
    struct stat st;
    if (stat(dir, &st) != 0) return err_errno(err, errno, "open folder %s", dir);
    *here = (Ancestor){st.st_dev, st.st_ino, up};
    for (const Ancestor *a = up; a; a = a->up)
        if (a->device == st.st_dev && a->inode == st.st_ino)
            return err_set(err, ERR_USAGE, "%s: a link to a folder it lies in", dir);
    return ERR_NONE;
}

static Status add_folder(TextSource *s, const char *dir, const Ancestor *up, Err *err)
{
    Ancestor here;
    TRY(enter(&here, dir, up, err));
    FileList list;
    TRY(file_list(dir, &list, err));
    Status status = ERR_NONE;
    for (int i = 0; i < list.n && status == ERR_NONE; i++) {
        char path[PATH_CAP];
        status = path_join(path, dir, list.name[i], err);
        if (status != ERR_NONE) break;
        if (file_is_dir(path)) {
            status = add_folder(s, path, &here, err);
        } else if (list.name[i][0] != '.' && (is_kind(path, ".txt") || is_kind(path, ".jsonl"))) {
            status = add_path(s, path, err);
        } else {
            if (s->stats.skipped++ == 0) memcpy(s->first_skipped, path, strlen(path) + 1);
        }
    }
    file_list_free(&list);
    return status;
}

// ---------------------------------------------------------------- the window

static Status refill(TextSource *s, Err *err)
{
    if (s->at > 0) {
        s->buf.len -= s->at;
        memmove(s->buf.data, s->buf.data + s->at, s->buf.len);
        s->searched -= s->at;
        s->at = 0;
    }
    TRY_CTX(buf_reserve(&s->buf, READ_STEP, err), err,
            "reading %s (a document must fit in memory)", s->file);
    size_t got;
    TRY(byte_reader_read(s->reader, s->buf.data + s->buf.len, READ_STEP, &got, err));
    s->buf.len += got;
    if (got == 0) s->file_end = true;
    return ERR_NONE;
}

// The end of the document or line at `at`: the separator's place, or the end of the file.
static Status find_end(TextSource *s, const char *separator, size_t n, size_t *end, bool *found,
                       Err *err)
{
    for (;;) {
        if (n > 0 && s->buf.len > s->searched) {
            const char *from = s->buf.data + s->searched;
            const char *hit  = memmem(from, s->buf.len - s->searched, separator, n);
            if (hit) {
                *end   = (size_t)(hit - s->buf.data);
                *found = true;
                return ERR_NONE;
            }
            // A separator may have begun in the last n - 1 bytes.
            const size_t keep = s->buf.len - LT_MIN(s->buf.len, n - 1);
            s->searched       = LT_MAX(s->searched, keep);
        }
        if (s->file_end) break;
        TRY(refill(s, err));
    }
    *end   = s->buf.len;
    *found = false;
    return ERR_NONE;
}

static Status drop_byte_order_mark(TextSource *s, Err *err)
{
    while (s->buf.len < 4 && !s->file_end) TRY(refill(s, err));
    const char  *p = s->buf.data;
    const size_t n = s->buf.len;
    if (n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) {
        s->at = s->searched = 3;
        s->stats.marks++;
    }
    const bool wide = n >= 2 && (memcmp(p, "\xff\xfe", 2) == 0 || memcmp(p, "\xfe\xff", 2) == 0);
    if (wide || (n >= 4 && memcmp(p, "\0\0\xfe\xff", 4) == 0)) {
        const Status status =
            err_set(err, ERR_FORMAT, "%s: begins with a UTF-16 or UTF-32 byte order mark; text "
                                     "must be UTF-8", s->file);
        err_hint(err, "convert it: iconv -f UTF-16 -t UTF-8");
        return status;
    }
    return ERR_NONE;
}

static bool has_string(const json_t *object, const char *name)
{
    return json_is_string(json_object_get(object, name));
}

static bool is_pair(const json_t *object)
{
    return has_string(object, "prompt") && has_string(object, "completion");
}

static Status parse_line(json_t **out, const char *p, size_t n, json_error_t *why, Err *err)
{
    return json_text_parse(out, p, n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, why, err);
}

// Standard input has no name to tell its kind by.
static Status sniff_jsonl(TextSource *s, Err *err)
{
    if (s->buf.len == s->at || s->buf.data[s->at] != '{') return ERR_NONE;
    size_t end;
    bool   found;
    TRY(find_end(s, "\n", 1, &end, &found, err));
    s->searched = s->at;
    json_error_t why;
    json_t      *object;
    const Status parsed = parse_line(&object, s->buf.data + s->at, end - s->at, &why, err);
    if (parsed != ERR_NONE && parsed != ERR_FORMAT) return parsed;
    s->jsonl = has_string(object, "text") || is_pair(object);
    json_decref(object);
    return ERR_NONE;
}

static Status open_next(TextSource *s, Err *err)
{
    s->file             = s->path[s->next_path++];
    const bool standard = strcmp(s->file, "-") == 0;
    TRY(byte_reader_open(&s->reader, s->file, err));
    if (standard) s->file = "standard input";
    s->jsonl    = is_kind(s->file, ".jsonl");
    s->file_end = false;
    s->line     = 0;
    s->at       = 0;
    s->searched = 0;
    buf_clear(&s->buf);
    s->stats.files++;
    TRY(drop_byte_order_mark(s, err));
    if (standard) TRY(sniff_jsonl(s, err));
    return ERR_NONE;
}

static void close_current(TextSource *s)
{
    if (s->reader) s->consumed_before += byte_reader_consumed(s->reader);
    byte_reader_close(s->reader);
    s->reader = NULL;
}

// ---------------------------------------------------------------- documents

// The next stretch of the current file; *some == false when the file is used up.
static Status next_stretch(TextSource *s, const char *separator, size_t n, size_t *begin,
                           size_t *bytes, bool *some, Err *err)
{
    size_t end;
    bool   found;
    *some = false;
    TRY(find_end(s, separator, n, &end, &found, err));
    // Behind the last separator there may be nothing: that is no document.
    if (!found && end == s->at) return ERR_NONE;
    *some       = true;
    *begin      = s->at;
    *bytes      = end - s->at;
    s->at       = found ? end + n : end;
    s->searched = s->at;
    return ERR_NONE;
}

static bool is_blank(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != ' ' && p[i] != '\t' && p[i] != '\r') return false;
    return true;
}

static Status line_error(const TextSource *s, const char *what, Err *err)
{
    const Status status =
        err_set(err, ERR_FORMAT, "%s:%lld: %s", s->file, (long long)s->line, what);
    err_hint(err, "a line is {\"text\": \"...\"} or "
                  "{\"prompt\": \"...\", \"completion\": \"...\"}");
    return status;
}

static Status parse_document(TextSource *s, const char *p, size_t n, TextDocument *doc, Err *err)
{
    json_error_t why;
    json_decref(s->object);
    const Status parsed = parse_line(&s->object, p, n, &why, err);
    if (parsed == ERR_FORMAT) {
        char what[sizeof why.text + 32];
        snprintf(what, sizeof what, "not JSON: %s", why.text);
        return line_error(s, what, err);
    }
    TRY(parsed);
    if (!json_is_object(s->object)) return line_error(s, "not a JSON object", err);
    const bool pair  = is_pair(s->object);
    json_t    *first = json_object_get(s->object, pair ? "prompt" : "text");
    if (!first && json_object_get(s->object, "prompt"))
        return line_error(s, "field \"prompt\" without a string \"completion\"", err);
    if (!first) return line_error(s, "no field \"text\"", err);
    if (!json_is_string(first)) return line_error(s, "field \"text\" is not a string", err);
    doc->text  = json_string_value(first);
    doc->bytes = json_string_length(first);
    if (pair) {
        const json_t *second  = json_object_get(s->object, "completion");
        doc->completion       = json_string_value(second);
        doc->completion_bytes = json_string_length(second);
    }
    return ERR_NONE;
}

// A part of the document that is all of the file. The last byte waits for what follows it, so that
// the last part is known to be the last, and is not empty.
static Status next_part(TextSource *s, TextDocument *doc, bool *some, Err *err)
{
    while (!s->file_end && s->buf.len - s->at < READ_STEP) TRY(refill(s, err));
    doc->text  = s->buf.data + s->at;
    doc->bytes = s->buf.len - s->at - (s->file_end ? 0 : 1);
    doc->more  = !s->file_end;
    s->at += doc->bytes;
    s->searched = s->at;
    *some       = doc->bytes > 0;
    return ERR_NONE;
}

// The next document of the current file, empty ones included.
static Status next_in_file(TextSource *s, TextDocument *doc, bool *some, Err *err)
{
    *doc = (TextDocument){.file = s->file};
    if (s->in_parts && !s->jsonl && s->separator_bytes == 0) return next_part(s, doc, some, err);
    for (;;) {
        size_t      begin = 0, bytes = 0;
        const char *separator = s->jsonl ? "\n" : s->separator;
        const size_t n        = s->jsonl ? 1 : s->separator_bytes;
        TRY(next_stretch(s, separator, n, &begin, &bytes, some, err));
        if (!*some) return ERR_NONE;
        const char *p = s->buf.data + begin;
        if (!s->jsonl) {
            doc->text  = p;
            doc->bytes = bytes;
            return ERR_NONE;
        }
        doc->line = ++s->line;
        if (!is_blank(p, bytes)) return parse_document(s, p, bytes, doc, err);
    }
}

Status text_source_next(TextSource *s, TextDocument *doc, bool *more, Err *err)
{
    for (;;) {
        if (!s->reader) {
            *more = s->next_path < s->n_path;
            if (!*more) return ERR_NONE;
            TRY(open_next(s, err));
            // A file of no bytes is a document of no bytes.
            if (s->file_end && s->buf.len == s->at) s->stats.empty++;
        }
        TRY(next_in_file(s, doc, more, err));
        if (!*more) {
            close_current(s);
        } else if (doc->bytes == 0 && doc->completion_bytes == 0) {
            s->stats.empty++;
        } else {
            s->stats.documents += !doc->more;
            return ERR_NONE;
        }
    }
}

// ---------------------------------------------------------------- life

static Status collect(TextSource *s, const char *input, Err *err)
{
    if (strcmp(input, "-") == 0 || !file_is_dir(input)) return add_path(s, input, err);
    TRY(add_folder(s, input, NULL, err));
    if (s->n_path == 0)
        return err_set(err, ERR_USAGE, "%s: no .txt or .jsonl files (nor .gz of them) in this "
                                       "folder (%lld other file%s)",
                       input, (long long)s->stats.skipped, plural_s(s->stats.skipped));
    return ERR_NONE;
}

Status text_source_open(TextSource **out, const char *input, const char *separator, Err *err)
{
    *out          = NULL;
    TextSource *s = mem_calloc(1, sizeof *s);
    if (!s) return mem_err(err, sizeof *s, "the input");
    Status status      = collect(s, input, err);
    s->separator       = mem_strdup(separator);
    s->separator_bytes = strlen(separator);
    if (status == ERR_NONE && !s->separator)
        status = mem_err(err, s->separator_bytes, "the document separator");
    if (status != ERR_NONE) {
        text_source_close(s);
        return status;
    }
    *out = s;
    return ERR_NONE;
}

void text_source_in_parts(TextSource *s) { s->in_parts = true; }

void text_source_stats(const TextSource *s, TextStats *out)
{
    *out                = s->stats;
    out->first_skipped  = s->first_skipped;
    out->bytes_consumed = s->consumed_before + (s->reader ? byte_reader_consumed(s->reader) : 0);
}

void text_source_close(TextSource *s)
{
    if (!s) return;
    close_current(s);
    json_decref(s->object);
    buf_free(&s->buf);
    for (int64_t i = 0; i < s->n_path; i++) mem_free(s->path[i]);
    mem_free(s->path);
    mem_free(s->separator);
    mem_free(s);
}

Status text_unescape(const char *s, char *out, size_t cap, Err *err)
{
    size_t n = 0;
    for (const char *p = s; *p; p++) {
        if (n + 1 >= cap) return err_set(err, ERR_USAGE, "longer than %zu bytes: %.40s...", cap, s);
        if (*p != '\\') {
            out[n++] = *p;
            continue;
        }
        static const char from[] = "ntr\\", to[] = "\n\t\r\\";
        const char *e = p[1] ? strchr(from, p[1]) : NULL;
        if (!e)
            return err_set(err, ERR_USAGE, "unknown escape \\%c in \"%s\" (there are \\n \\t \\r "
                                           "\\\\)", p[1] ? p[1] : ' ', s);
        out[n++] = to[e - from];
        p++;
    }
    out[n] = 0;
    return ERR_NONE;
}
