// log.c -- see log.h.
//
// SPDX-License-Identifier: MIT
#include "engine/base/log.h"
#include "engine/base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINE_CAP = 1 << 15 }; // longer texts are cut

static void say(FILE *to, const char *fmt, va_list ap)
{
    char line[LINE_CAP];
    vsnprintf(line, sizeof line, fmt, ap);
    err_plain(line);
    fprintf(to, "%s\n", line);
}

// Told once: the stream remembers its error.
static void flush_or_tell(bool was_broken)
{
    if ((fflush(stdout) != 0 || ferror(stdout)) && !was_broken)
        log_warn("standard output cannot be written any more (%s); the work goes on without it",
                 strerror(errno));
}

void log_note(const char *fmt, ...)
{
    const bool was_broken = ferror(stdout) != 0;
    va_list ap;
    va_start(ap, fmt);
    say(stdout, fmt, ap);
    va_end(ap);
    flush_or_tell(was_broken);
}

void log_warn(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "lathe: warning: ");
    say(stderr, fmt, ap);
    va_end(ap);
}

void log_live(const char *text)
{
    if (!log_is_terminal()) return;
    printf("\r\033[K%.*s", log_columns(STDOUT_FILENO) - 1, text);
    fflush(stdout);
}

void log_live_end(void)
{
    if (log_is_terminal()) putchar('\n');
    fflush(stdout);
}

bool log_is_terminal(void)
{
    return isatty(STDOUT_FILENO) == 1;
}

int log_columns(int fd)
{
    struct winsize w;
    if (ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col > 0) return w.ws_col;
    return 80;
}
