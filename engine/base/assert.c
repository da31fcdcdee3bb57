// assert.c -- see assert.h. The only caller of abort() in lathe.
//
// SPDX-License-Identifier: MIT
#include "engine/base/assert.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void assert_failed(const char *file, int line, const char *cond, const char *fmt, ...)
{
    fprintf(stderr, "lathe: %s:%d: assertion failed: %s\n  ", file, line, cond);
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputs("\n  this is a bug in lathe, not in what you asked for; please report this text\n",
          stderr);
    abort();
}
