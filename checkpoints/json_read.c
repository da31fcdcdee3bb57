// json_read.c -- see json_read.h.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/json_read.h"

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/base/json_text.h"

#include <stdio.h>
#include <string.h>

Status json_read_text(json_t **out, const char *path, const char *text, size_t bytes, Err *err)
{
    json_error_t e;
    const Status s =
        json_text_parse(out, text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e, err);
    if (s == ERR_NONE) return ERR_NONE;
    if (s != ERR_FORMAT) return err_add(err, s, "reading %s", path);
    char show[JSON_SHOW_CAP];
    return err_set(err, ERR_FORMAT, "%s: not valid JSON at line %d, column %d: %s", path, e.line,
                   e.column, json_read_show(show, e.text));
}

Status json_read_object(json_t **out, const char *path, uint64_t limit, Err *err)
{
    uint64_t bytes = 0;
    *out = NULL;
    TRY(file_size(path, &bytes, err));
    if (bytes > limit)
        return err_set(err, ERR_FORMAT, "%s: %llu bytes; such a file has at most %llu", path,
                       (unsigned long long)bytes, (unsigned long long)limit);
    Buf text = {0};
    Status s = file_read(path, &text, err);
    if (s == ERR_NONE && text.len == 0) s = err_set(err, ERR_FORMAT, "%s: the file is empty", path);
    if (s == ERR_NONE) s = json_read_text(out, path, text.data, text.len, err);
    buf_free(&text);
    if (s != ERR_NONE) return s;
    if (json_is_object(*out)) return ERR_NONE;
    s = err_set(err, ERR_FORMAT, "%s: holds %s, expected an object", path, json_read_kind(*out));
    json_decref(*out);
    *out = NULL;
    return s;
}

const char *json_read_kind(const json_t *j)
{
    if (!j) return "nothing";
    switch (json_typeof(j)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a real number";
    case JSON_TRUE:
    case JSON_FALSE: return "a truth value";
    case JSON_NULL: break;
    }
    return "null";
}

const char *json_read_show(char out[JSON_SHOW_CAP], const char *s)
{
    size_t n = 0;
    for (; s[n] && n + 4 < JSON_SHOW_CAP; n++) out[n] = s[n] >= 32 && s[n] < 127 ? s[n] : '?';
    snprintf(out + n, JSON_SHOW_CAP - n, "%s", s[n] ? "..." : "");
    return out;
}
