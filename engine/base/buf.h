// buf.h -- a growable byte buffer that is also a C string: data[len] is always 0 once anything
// was appended. Zero-initialise it; free it with buf_free. Growth doubles.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"

typedef struct Buf {
    char *data; // owned; NULL when nothing was appended yet
    size_t len;
    size_t cap;
} Buf;

// The end of the word behind a number: "%lld file%s".
static inline const char *plural_s(int64_t n) { return n == 1 ? "" : "s"; }

LT_C_BEGIN
LT_MUST_CHECK Status buf_reserve(Buf *b, size_t extra, Err *err); // room for `extra` more bytes
LT_MUST_CHECK Status buf_append(Buf *b, const void *bytes, size_t n, Err *err);
LT_MUST_CHECK Status buf_puts(Buf *b, const char *s, Err *err);
LT_MUST_CHECK Status buf_printf(Buf *b, Err *err, const char *fmt, ...) LT_PRINTF(3, 4);
void buf_clear(Buf *b); // len = 0, memory kept
void buf_free(Buf *b);  // also of a zeroed one; leaves it zeroed
LT_C_END
