// err.c -- see err.h.
//
// SPDX-License-Identifier: MIT
#include "engine/base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void err_plain(char *text)
{
    for (char *c = text; *c; c++)
        if (((unsigned char)*c < 32 && *c != '\n') || *c == 127) *c = '?';
}

// A text that is too long (a path may have 4 KB) loses its middle: what is wrong stands at its end.
static void append(char *dst, size_t cap, const char *fmt, va_list ap)
{
    enum { HEAD = ERR_MOST / 2, TAIL = ERR_MOST - HEAD - 5 };
    char whole[3 * 4096];
    const size_t used = strlen(dst);
    if (used + 1 >= cap) return;
    vsnprintf(whole, sizeof whole, fmt, ap);
    const size_t n = strlen(whole);
    if (n > ERR_MOST)
        snprintf(dst + used, cap - used, "%.*s ... %s", (int)HEAD, whole, whole + n - TAIL);
    else
        snprintf(dst + used, cap - used, "%s", whole);
    err_plain(dst + used);
}

Status err_set(Err *err, Status code, const char *fmt, ...)
{
    if (!err) return code;
    err_clear(err);
    err->code = code;
    va_list ap;
    va_start(ap, fmt);
    append(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    return code;
}

Status err_add(Err *err, Status code, const char *fmt, ...)
{
    if (!err) return code;
    const size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof err->text - used, "\n  while ");
    va_list ap;
    va_start(ap, fmt);
    append(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    return code;
}

// Out of something that comes back says nothing about the file.
static Status code_of(int errno_value)
{
    const int e = errno_value;
    return e == ENOMEM || e == EMFILE || e == ENFILE || e == EAGAIN ? ERR_NOMEM : ERR_IO;
}

Status err_errno(Err *err, int errno_value, const char *fmt, ...)
{
    const Status code = code_of(errno_value);
    if (!err) return code;
    err_clear(err);
    err->code = code;
    va_list ap;
    va_start(ap, fmt);
    append(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    const size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof err->text - used, ": %s", strerror(errno_value));
    return code;
}

void err_hint(Err *err, const char *fmt, ...)
{
    if (!err) return;
    err->hint[0] = 0;
    va_list ap;
    va_start(ap, fmt);
    append(err->hint, sizeof err->hint, fmt, ap);
    va_end(ap);
}

void err_clear(Err *err)
{
    err->code = ERR_NONE;
    err->text[0] = 0;
    err->hint[0] = 0;
}

int err_exit_code(Status code)
{
    switch (code) {
    case ERR_NONE: return 0;
    case ERR_USAGE:
    case ERR_UNSUPPORTED: return 2;
    case ERR_FORMAT: return 3;
    case ERR_DIVERGED: return 4;
    case ERR_STOPPED: return 5;
    case ERR_IO:
    case ERR_NOMEM:
    case ERR_DEVICE: break;
    }
    return 1;
}

const char *err_name(Status code)
{
    static const char *const names[] = {"none",   "usage",       "io",       "format", "nomem",
                                        "device", "unsupported", "diverged", "stopped"};
    return (unsigned)code < LT_COUNT(names) ? names[code] : "unknown";
}
