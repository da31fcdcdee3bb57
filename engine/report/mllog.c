// mllog.c -- see mllog.h.
//
// SPDX-License-Identifier: MIT
#include "engine/report/mllog.h"
#include "engine/base/buf.h"
#include "engine/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int64_t mllog_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// Is there the log of a run in it?
static Status look_at(const char *path, bool *empty, Err *err)
{
    struct stat is;
    Buf old = {0};
    *empty = true;
    if (stat(path, &is) != 0 || !S_ISREG(is.st_mode)) return ERR_NONE; // a pipe cannot be read back
    Status st = file_read(path, &old, err);
    if (st == ERR_NONE) st = buf_append(&old, "", 1, err);
    *empty = st == ERR_NONE && old.data[0] == 0;
    if (st == ERR_NONE && strstr(old.data, "\"init_start\"")) {
        st = err_set(err, ERR_USAGE, "%s holds the log of a run already", path);
        err_hint(err, "name another file with --mllog");
    }
    buf_free(&old);
    return st;
}

Status mllog_open(MlLog *l, const char *path, bool *empty, Err *err)
{
    *l = (MlLog){.fd = -1};
    if (strlen(path) >= PATH_CAP) return err_set(err, ERR_USAGE, "path too long: %.60s...", path);
    memcpy(l->path, path, strlen(path) + 1);
    TRY(look_at(path, empty, err));
    l->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (l->fd < 0) return err_errno(err, errno, "open %s", path);
    return ERR_NONE;
}

static void write_line(MlLog *l, const Buf *line)
{
    size_t done = 0;
    int error = 0;
    while (done < line->len && !error) {
        const ssize_t n = write(l->fd, line->data + done, line->len - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            error = errno;
    }
    if (error && !l->failing)
        log_warn("write %s: %s; training goes on, this log is not whole", l->path, strerror(error));
    l->failing |= error != 0;
}

void mllog_event(MlLog *l, int64_t time_ms, MlLogEvent e, const char *key, const char *value,
                 const char *metadata)
{
    static const char *const type[] = {"POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END"};
    Buf line = {0};
    if (l->fd < 0) return;
    if (buf_printf(
            &line, NULL,
            ":::MLLOG {\"namespace\": \"\", \"time_ms\": %" PRId64
            ", \"event_type\": \"%s\", \"key\": \"%s\", \"value\": %s, \"metadata\": {%s}}\n",
            time_ms, type[e], key, value, metadata) == ERR_NONE)
        write_line(l, &line);
    else
        l->failing = true;
    buf_free(&line);
}

void mllog_text(MlLog *l, const char *key, const char *text)
{
    Buf value = {0};
    Status st = buf_puts(&value, "\"", NULL);
    for (const char *s = text; *s && st == ERR_NONE; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            st = buf_printf(&value, NULL, "\\%c", c);
        else if (c < 0x20)
            st = buf_printf(&value, NULL, "\\u%04x", c);
        else
            st = buf_append(&value, s, 1, NULL);
    }
    if (st == ERR_NONE) st = buf_puts(&value, "\"", NULL);
    if (st == ERR_NONE)
        mllog_event(l, mllog_now(), MLLOG_POINT, key, value.data, "");
    else
        l->failing = true;
    buf_free(&value);
}

void mllog_int(MlLog *l, const char *key, int64_t v)
{
    char value[32];
    snprintf(value, sizeof value, "%" PRId64, v);
    mllog_event(l, mllog_now(), MLLOG_POINT, key, value, "");
}

void mllog_number(MlLog *l, const char *key, double v)
{
    char value[40];
    snprintf(value, sizeof value, "%.15g", v);
    if (strtod(value, NULL) != v) snprintf(value, sizeof value, "%.17g", v);
    mllog_event(l, mllog_now(), MLLOG_POINT, key, isfinite(v) ? value : "null", "");
}

void mllog_close(MlLog *l)
{
    if (l->fd >= 0) close(l->fd);
    l->fd = -1;
}
