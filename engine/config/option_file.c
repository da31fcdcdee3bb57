// option_file.c -- see option_file.h.
//
// SPDX-License-Identifier: MIT
#include "engine/config/option_file.h"
#include "engine/base/file.h"
#include "engine/base/mem.h"

#include <stdio.h>
#include <string.h>

Status entries_add(Entries *e, Entry entry, Err *err)
{
    if (e->n == e->cap) {
        const int    cap   = e->cap ? e->cap * 2 : 32;
        const size_t bytes = (size_t)cap * sizeof *e->entry;
        Entry       *list  = mem_realloc(e->entry, bytes);
        if (!list) return mem_err(err, bytes, "options");
        e->entry = list;
        e->cap   = cap;
    }
    e->entry[e->n++] = entry;
    return ERR_NONE;
}

void entries_free(Entries *e)
{
    mem_free(e->entry);
    buf_free(&e->text);
    *e = (Entries){0};
}

static bool is_space(char c) { return c == ' ' || c == '\t'; }

// Cut spaces at both ends; writes a 0 behind the last character.
static char *trim(char *s)
{
    while (is_space(*s)) s++;
    char *end = s + strlen(s);
    while (end > s && is_space(end[-1])) end--;
    *end = 0;
    return s;
}

// End the line where a comment begins. spaced: s stands behind a space.
static void cut_comment(char *s, bool spaced)
{
    for (char *c = s; *c; c++) {
        if (*c == '#' && (c == s ? spaced : is_space(c[-1]))) {
            *c = 0;
            return;
        }
    }
}

// s stands behind an opening quote: unescape in place. NULL, or what is wrong.
static const char *unquote(char *s)
{
    char *out = s;
    while (*s && *s != '"') {
        if (*s != '\\') {
            *out++ = *s++;
            continue;
        }
        const char c = s[1];
        if (c != '"' && c != '\\' && c != 'n' && c != 't' && c != 'r')
            return "in quotes, a backslash stands before \" \\ n t or r only";
        *out++ = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
        s += 2;
    }
    if (!*s) return "the closing quote is missing";
    char *rest = s + 1;
    cut_comment(rest, true);
    *out = 0;
    return *trim(rest) ? "text behind the closing quote" : NULL;
}

// One line, without its line end. NULL, or what is wrong; *key stays NULL for an empty line.
static const char *split_line(char *line, char **key, char **value)
{
    *key = *value = NULL;
    while (is_space(*line)) line++;
    if (!*line || *line == '#') return NULL;
    if (*line == '[') return "sections are not used; a line is `key = value`";
    char *eq = strchr(line, '=');
    if (!eq) return "a line is `key = value`";
    *eq     = 0;
    char *k = trim(line);
    if (!*k || strpbrk(k, " \t#\"")) return "a line is `key = value`";
    char *v = eq + 1;
    while (is_space(*v)) v++;
    if (*v == '"') {
        const char *wrong = unquote(++v);
        if (wrong) return wrong;
    } else {
        cut_comment(v, v > eq + 1);
        v = trim(v);
    }
    *key   = k;
    *value = v;
    return NULL;
}

Status option_file_read(const char *path, Entries *e, Problems *p, Err *err)
{
    TRY_CTX(file_read(path, &e->text, err), err, "reading the config file");
    char *at = e->text.data;
    if (!at) return ERR_NONE;
    const char *const end = at + e->text.len;
    if (memchr(at, 0, e->text.len))
        return problems_add(p, err, path, "holds a zero byte: not a config file");
    if (strncmp(at, "\xEF\xBB\xBF", 3) == 0) at += 3;
    for (int line = 1; at < end; line++) {
        char *next = at + strcspn(at, "\n");
        char *stop = next;
        if (*next) *next++ = 0;
        if (stop > at && stop[-1] == '\r') stop[-1] = 0;
        char       *key, *value;
        const char *wrong = split_line(at, &key, &value);
        if (wrong) {
            char where[PATH_CAP + 16];
            snprintf(where, sizeof where, "%s:%d", path, line);
            TRY(problems_add(p, err, where, "%s", wrong));
        } else if (key) {
            TRY(entries_add(e, (Entry){key, value, line, ORIGIN_FILE}, err));
        }
        at = next;
    }
    return ERR_NONE;
}

Status option_file_quote(Buf *out, const char *value, Err *err)
{
    const size_t n = strlen(value);
    const bool   plain = !n || (!is_space(value[0]) && !is_space(value[n - 1]) &&
                                !strpbrk(value, "\"#\n\r"));
    if (plain) return buf_puts(out, value, err);
    TRY(buf_puts(out, "\"", err));
    for (const char *s = value; *s; s++) {
        const char *esc = *s == '\n' ? "\\n"
                          : *s == '\r' ? "\\r"
                          : *s == '\t' ? "\\t"
                          : *s == '"'  ? "\\\""
                          : *s == '\\' ? "\\\\"
                                       : NULL;
        TRY(esc ? buf_puts(out, esc, err) : buf_append(out, s, 1, err));
    }
    return buf_puts(out, "\"", err);
}
