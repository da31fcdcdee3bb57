// json_read.h -- JSON files as other people wrote them: size limits, and errors that name the
// place.
//
// jansson parses; this adds the path, the line and a bound on the size, and turns whatever a file
// holds into text that is safe to print. Duplicate keys, NaN, trailing bytes, NUL and invalid UTF-8
// are ERR_FORMAT.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"

enum { JSON_SHOW_CAP = 128 };

LT_C_BEGIN
// Any value from memory; `path` is for messages. The caller owns *out (json_decref).
LT_MUST_CHECK Status json_read_text(json_t **out, const char *path, const char *text, size_t bytes,
                                    Err *err);
// A file that holds one object, of at most `limit` bytes.
LT_MUST_CHECK Status json_read_object(json_t **out, const char *path, uint64_t limit, Err *err);
// "a string", "an integer", ...: for messages.
const char *json_read_kind(const json_t *j);
// `s` cut to what a message can take, control and non-ASCII bytes as '?'. Returns out.
const char *json_read_show(char out[JSON_SHOW_CAP], const char *s);
LT_C_END
