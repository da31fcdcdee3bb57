// buf.c -- see buf.h.
//
// SPDX-License-Identifier: MIT
#include "engine/base/buf.h"
#include "engine/base/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

Status buf_reserve(Buf *b, size_t extra, Err *err)
{
    if (extra > SIZE_MAX / 4 || b->len > SIZE_MAX / 4) return mem_err(err, extra, "a buffer");
    const size_t need = b->len + extra + 1;
    if (need <= b->cap) return ERR_NONE;
    const size_t cap = need > b->cap * 2 ? need + 64 : b->cap * 2;
    char *p = mem_realloc(b->data, cap);
    if (!p) return mem_err(err, cap, "a buffer");
    b->data = p;
    b->cap = cap;
    return ERR_NONE;
}

Status buf_append(Buf *b, const void *bytes, size_t n, Err *err)
{
    TRY(buf_reserve(b, n, err));
    if (n) memcpy(b->data + b->len, bytes, n);
    b->len += n;
    b->data[b->len] = 0;
    return ERR_NONE;
}

Status buf_puts(Buf *b, const char *s, Err *err)
{
    return buf_append(b, s, strlen(s), err);
}

Status buf_printf(Buf *b, Err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    TRY(buf_reserve(b, (size_t)n, err));
    va_start(ap, fmt);
    vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
    return ERR_NONE;
}

void buf_clear(Buf *b)
{
    b->len = 0;
    if (b->data) b->data[0] = 0;
}

void buf_free(Buf *b)
{
    mem_free(b->data);
    *b = (Buf){0};
}
