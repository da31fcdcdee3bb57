// json_text.h -- text to JSON values and back, safe when memory is out.
//
// jansson's parser is not: where its buffer for a string cannot grow it loses bytes without a word,
// stops the program by an assertion, or writes past the end. So while it parses, it never sees an
// allocation fail: when memory is out it gets a piece of a reserve that was taken before, its input
// ends there, and what it made is thrown away. Its writer goes on after a piece that found no room,
// so a text would have a hole: here the first such piece is remembered.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <jansson.h>
#include <stddef.h>
#include "engine/base/buf.h"
#include "engine/base/err.h"

LT_C_BEGIN
// Once, before the first use of jansson: its memory comes from mem.h and the reserve. (A program
// that does not call this parses as jansson does.)
void json_text_init(void);
// `flags` are jansson's; the caller owns *out (json_decref), which is NULL on failure. ERR_FORMAT:
// `why` has the line, the column and the reason, for the caller's message; err has the reason.
LT_MUST_CHECK Status json_text_parse(json_t **out, const char *text, size_t n, size_t flags,
                                     json_error_t *why, Err *err);
LT_MUST_CHECK Status json_text_append(Buf *out, const json_t *value, size_t flags, Err *err);
LT_C_END
