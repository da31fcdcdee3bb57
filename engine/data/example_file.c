// example_file.c -- see example_file.h: the file, its lines, tsv, columns and plain texts.
//
// SPDX-License-Identifier: MIT
#include "engine/data/example_file_impl.h"
#include "engine/base/mem.h"
#include "engine/data/byte_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FIELDS_MAX = 256 };

Status example_file_bad(const ExampleFile *f, Err *err, const char *what)
{
    return err_set(err, ERR_FORMAT, "%s:%" PRId64 ": %s", f->name, f->line, what);
}

// ---------------------------------------------------------------- words

Status example_file_word(ExampleFile *f, ExampleText word, ExampleText tag, Err *err)
{
    if (f->words == f->cap_words) {
        const int64_t cap = f->cap_words ? 2 * f->cap_words : 64;
        const size_t bytes = (size_t)cap * sizeof(ExampleText);
        ExampleText *w = mem_realloc(f->word, bytes);
        if (w) f->word = w;
        ExampleText *t = w ? mem_realloc(f->tag, bytes) : NULL;
        if (!t) return mem_err(err, bytes, "the words of a sentence");
        f->tag = t;
        f->cap_words = cap;
    }
    f->word[f->words] = word;
    f->tag[f->words++] = tag;
    return ERR_NONE;
}

static size_t blank(const char *p, size_t n) // bytes of it in front
{
    size_t i = 0;
    while (i < n && (p[i] == ' ' || p[i] == '\t')) i++;
    return i;
}

static size_t black(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n && p[i] != ' ' && p[i] != '\t') i++;
    return i;
}

Status example_file_cut(ExampleFile *f, ExampleText text, Err *err)
{
    f->words = 0;
    for (size_t i = blank(text.text, text.bytes); i < text.bytes;) {
        const size_t n = black(text.text + i, text.bytes - i);
        TRY(example_file_word(f, (ExampleText){text.text + i, n}, (ExampleText){0}, err));
        i += n;
        i += blank(text.text + i, text.bytes - i);
    }
    return ERR_NONE;
}

// ---------------------------------------------------------------- lines

// The next line without its end; false: there is none.
static bool next_line(ExampleFile *f, ExampleText *out)
{
    if (f->at >= f->bytes.len) return false;
    const char *p = f->bytes.data + f->at;
    const size_t left = f->bytes.len - f->at;
    const char *end = memchr(p, '\n', left);
    size_t n = end ? (size_t)(end - p) : left;
    f->at += n + (end != NULL);
    f->line++;
    if (n > 0 && p[n - 1] == '\r') n--;
    *out = (ExampleText){p, n};
    return true;
}

static bool is_blank(ExampleText t)
{
    return blank(t.text, t.bytes) == t.bytes;
}

static bool is_word(ExampleText t, const char *word)
{
    return t.bytes == strlen(word) && memcmp(t.text, word, t.bytes) == 0;
}

// ---------------------------------------------------------------- tsv

static Status split_tabs(const ExampleFile *f, ExampleText line, ExampleText field[FIELDS_MAX],
                         int *n, Err *err)
{
    *n = 0;
    for (size_t i = 0; i <= line.bytes;) {
        const char *tab = memchr(line.text + i, '\t', line.bytes - i);
        const size_t end = tab ? (size_t)(tab - line.text) : line.bytes;
        if (*n == FIELDS_MAX) return example_file_bad(f, err, "too many columns");
        field[(*n)++] = (ExampleText){line.text + i, end - i};
        i = end + 1;
    }
    return ERR_NONE;
}

// Does the first line name the columns?
static bool name_columns(ExampleFile *f, const ExampleText *field, int n)
{
    static const char *const names[COLUMN_COUNT] = {"text", "text_pair", "label"};
    for (int c = 0; c < COLUMN_COUNT; c++) {
        f->column[c] = -1;
        for (int i = 0; i < n; i++)
            if (is_word(field[i], names[c])) f->column[c] = i;
    }
    return f->column[COLUMN_TEXT] >= 0 || (f->labelled && f->column[COLUMN_LABEL] >= 0);
}

static Status first_line(ExampleFile *f, const ExampleText *field, int n, bool *named, Err *err)
{
    f->begun = true;
    f->columns = n;
    *named = name_columns(f, field, n);
    if (*named && f->column[COLUMN_TEXT] < 0)
        return example_file_bad(f, err, "it names a column label, but none is called text");
    if (*named && f->labelled && f->column[COLUMN_LABEL] < 0)
        return example_file_bad(f, err, "it names a column text, but none is called label");
    if (*named) return ERR_NONE;
    const int texts = n - f->labelled;
    if (texts != 1 && texts != 2) {
        char what[160];
        snprintf(what, sizeof what,
                 "%d column%s; %s, or a first line that names them: text, text_pair, label", n,
                 n == 1 ? "" : "s",
                 f->labelled ? "a text and its label have 2, a pair of texts and its label 3"
                             : "a text has 1, a pair of texts 2");
        return example_file_bad(f, err, what);
    }
    f->plain = !f->labelled;
    f->column[COLUMN_TEXT] = 0;
    f->column[COLUMN_PAIR] = texts == 2 ? 1 : -1;
    f->column[COLUMN_LABEL] = f->labelled ? n - 1 : -1;
    return ERR_NONE;
}

static ExampleText column(const ExampleFile *f, const ExampleText *field, int c)
{
    return f->column[c] < 0 ? (ExampleText){0} : field[f->column[c]];
}

static Status tsv_record(ExampleFile *f, ExampleRecord *r, bool *more, Err *err)
{
    ExampleText line, field[FIELDS_MAX];
    while (next_line(f, &line)) {
        const bool texts = !f->labelled && (f->plain || !f->begun); // a text may be empty
        if (is_blank(line) && !texts) continue;
        int n;
        TRY(split_tabs(f, line, field, &n, err));
        if (!f->begun) {
            bool named;
            TRY(first_line(f, field, n, &named, err));
            if (named) continue;
        }
        // Of texts to be predicted, some may be pairs and some not.
        if (f->plain && n <= 2) f->column[COLUMN_PAIR] = n == 2 ? 1 : -1;
        if (n != f->columns && !(f->plain && n <= 2)) {
            char what[80];
            snprintf(what, sizeof what, "%d column%s, but the first line has %d", n,
                     n == 1 ? "" : "s", f->columns);
            return example_file_bad(f, err, what);
        }
        *r = (ExampleRecord){.line = f->line,
                             .text = column(f, field, COLUMN_TEXT),
                             .pair = column(f, field, COLUMN_PAIR),
                             .label = column(f, field, COLUMN_LABEL)};
        *more = true;
        return ERR_NONE;
    }
    return ERR_NONE;
}

// ---------------------------------------------------------------- columns of words

static Status columns_record(ExampleFile *f, ExampleRecord *r, bool *more, Err *err)
{
    ExampleText line;
    int64_t first = 0;
    f->words = 0;
    while (next_line(f, &line)) {
        if (is_blank(line)) {
            if (f->words) break;
            continue;
        }
        const size_t from = blank(line.text, line.bytes);
        size_t n = black(line.text + from, line.bytes - from);
        const ExampleText word = {line.text + from, n};
        if (is_word(word, "-DOCSTART-")) continue;
        ExampleText tag = {0};
        for (size_t i = from + n; i < line.bytes; i += n) {
            i += blank(line.text + i, line.bytes - i);
            n = black(line.text + i, line.bytes - i);
            if (n) tag = (ExampleText){line.text + i, n};
        }
        if (!tag.text) return example_file_bad(f, err, "a word without a tag");
        if (f->words == 0) first = f->line;
        TRY(example_file_word(f, word, tag, err));
    }
    *more = f->words > 0;
    *r = (ExampleRecord){.line = first, .word = f->word, .tag = f->tag, .words = f->words};
    return ERR_NONE;
}

static Status sentence_record(ExampleFile *f, ExampleRecord *r, bool *more, Err *err)
{
    ExampleText line;
    *more = next_line(f, &line);
    if (!*more) return ERR_NONE;
    TRY(example_file_cut(f, line, err));
    *r = (ExampleRecord){.line = f->line, .text = line, .word = f->word, .words = f->words};
    return ERR_NONE;
}

static Status jsonl_record(ExampleFile *f, ExampleRecord *r, bool *more, Err *err)
{
    ExampleText line;
    while (next_line(f, &line)) {
        if (is_blank(line)) continue;
        *more = true;
        return example_json_record(f, line.text, line.bytes, r, err);
    }
    return ERR_NONE;
}

Status example_file_next(ExampleFile *f, ExampleRecord *r, bool *more, Err *err)
{
    *more = false;
    if (f->jsonl) return jsonl_record(f, r, more, err);
    if (f->task == EXAMPLE_TAG)
        return (f->labelled ? columns_record : sentence_record)(f, r, more, err);
    return tsv_record(f, r, more, err);
}

// ---------------------------------------------------------------- open

static Status read_all(ExampleFile *f, const char *path, Err *err)
{
    enum { STEP = 1 << 20 };
    ByteReader *in;
    TRY(byte_reader_open(&in, path, err));
    Status st = ERR_NONE;
    for (size_t got = 1; st == ERR_NONE && got > 0;) {
        st = buf_reserve(&f->bytes, STEP, err);
        if (st == ERR_NONE)
            st = byte_reader_read(in, f->bytes.data + f->bytes.len, STEP, &got, err);
        if (st == ERR_NONE) f->bytes.len += got;
    }
    byte_reader_close(in);
    return st;
}

static bool ends_in(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static Status begin(ExampleFile *f, const char *path, Err *err)
{
    TRY(read_all(f, path, err));
    const char *p = f->bytes.data;
    const size_t n = f->bytes.len;
    if (n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) f->at = 3;
    if (n >= 2 && (memcmp(p, "\xff\xfe", 2) == 0 || memcmp(p, "\xfe\xff", 2) == 0)) {
        const Status st = err_set(
            err, ERR_FORMAT, "%s: begins with a UTF-16 byte order mark; it must be UTF-8", f->name);
        err_hint(err, "convert it: iconv -f UTF-16 -t UTF-8");
        return st;
    }
    f->jsonl = ends_in(path, ".jsonl") || ends_in(path, ".jsonl.gz") ||
               (f->at < n && p[f->at] == '{') || f->task == EXAMPLE_QA;
    return ERR_NONE;
}

Status example_file_open(ExampleFile **out, const char *path, ExampleTask task, bool labelled,
                         Err *err)
{
    *out = NULL;
    ExampleFile *f = mem_calloc(1, sizeof *f);
    if (!f) return mem_err(err, sizeof *f, "a file of examples");
    f->task = task;
    f->labelled = labelled;
    snprintf(f->name, sizeof f->name, "%s", strcmp(path, "-") == 0 ? "standard input" : path);
    const Status st = begin(f, path, err);
    if (st != ERR_NONE) {
        example_file_close(f);
        return st;
    }
    *out = f;
    return ERR_NONE;
}

bool example_file_is_jsonl(const ExampleFile *f)
{
    return f->jsonl;
}

const char *example_file_name(const ExampleFile *f)
{
    return f->name;
}

void example_file_close(ExampleFile *f)
{
    if (!f) return;
    json_decref(f->object);
    buf_free(&f->numbers);
    buf_free(&f->bytes);
    mem_free(f->word);
    mem_free(f->tag);
    mem_free(f->answer);
    mem_free(f->answer_at);
    mem_free(f);
}
