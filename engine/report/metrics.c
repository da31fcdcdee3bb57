// metrics.c -- see metrics.h.
//
// SPDX-License-Identifier: MIT
#include "engine/report/metrics.h"
#include "engine/base/assert.h"
#include "engine/base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_CAP = 1024 };

typedef struct Line { // one JSON object in the making; bounded by construction
    char   text[LINE_CAP];
    size_t len;
    char   bad[256]; // "\"loss\",\"lr\"": fields that are not finite
} Line;

static void put(Line *l, const char *fmt, ...) LT_PRINTF(2, 3);
static void put(Line *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(l->text + l->len, LINE_CAP - l->len, fmt, ap);
    va_end(ap);
    l->len += (size_t)n;
    ASSERT(l->len < LINE_CAP, "a metrics line of %zu bytes", l->len);
}

static void begin(Line *l, const char *kind, int64_t step)
{
    l->len    = 0;
    l->bad[0] = 0;
    put(l, "{\"kind\":\"%s\",\"step\":%lld", kind, (long long)step);
}

static void put_number(Line *l, const char *name, double v, int digits)
{
    if (isfinite(v)) {
        put(l, ",\"%s\":%.*g", name, digits, v);
        return;
    }
    const size_t used = strlen(l->bad);
    put(l, ",\"%s\":null", name);
    snprintf(l->bad + used, sizeof l->bad - used, "%s\"%s\"", used ? "," : "", name);
}

static void put_int(Line *l, const char *name, int64_t v)
{
    put(l, ",\"%s\":%lld", name, (long long)v);
}

static Status end(Metrics *m, Line *l, Err *err)
{
    ASSERT(m->fd >= 0, "%s is not open", m->path);
    if (l->bad[0]) put(l, ",\"nonfinite\":[%s]", l->bad);
    put(l, "}\n");
    for (size_t done = 0; done < l->len;) {
        const ssize_t n = write(m->fd, l->text + done, l->len - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return err_errno(err, errno, "write %s", m->path);
        done += (size_t)n;
    }
    return ERR_NONE;
}

// The step a line belongs to, or -1: not a line of ours.
static int64_t step_of(const char *line)
{
    const char *at = strstr(line, "\"step\":");
    if (line[0] != '{' || !at) return -1;
    char           *stop;
    const long long step = strtoll(at + 7, &stop, 10);
    return stop == at + 7 ? -1 : step;
}

// Bytes of the file that belong to steps <= from_step: up to the first line that does not.
static size_t bytes_to_keep(char *text, size_t len, int64_t from_step)
{
    size_t keep = 0;
    while (keep < len) {
        char *eol = memchr(text + keep, '\n', len - keep);
        if (!eol) break;
        *eol               = 0;
        const int64_t step = step_of(text + keep);
        if (step < 0 || step > from_step) break;
        keep = (size_t)(eol - text) + 1;
    }
    return keep;
}

Status metrics_open(Metrics *m, const char *path, int64_t from_step, Err *err)
{
    Buf    old  = {0};
    size_t keep = 0;
    m->fd       = -1;
    if (strlen(path) >= PATH_CAP) return err_set(err, ERR_USAGE, "path too long: %.60s...", path);
    memcpy(m->path, path, strlen(path) + 1);
    if (from_step > 0 && file_exists(path)) {
        TRY(file_read(path, &old, err));
        keep = bytes_to_keep(old.data, old.len, from_step);
        buf_free(&old);
    }
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) return err_errno(err, errno, "open %s", path);
    if (ftruncate(fd, (off_t)keep) != 0) {
        const int e = errno;
        close(fd);
        return err_errno(err, e, "truncate %s", path);
    }
    m->fd = fd;
    return ERR_NONE;
}

Status metrics_step(Metrics *m, const MetricsRow *row, Err *err)
{
    Line l;
    begin(&l, "step", row->step);
    put_number(&l, "loss", row->loss, 9);
    put_number(&l, "lr", row->lr, 9);
    put_number(&l, "grad_norm", row->grad_norm, 9);
    put_number(&l, "seconds", row->seconds, 9);
    put_number(&l, "tokens_per_second", row->tokens_per_second, 9);
    if (!(row->mfu < 0)) put_number(&l, "mfu", row->mfu, 9);
    put_int(&l, "tokens", row->tokens);
    put_int(&l, "targets", row->targets);
    put_int(&l, "skipped", row->skipped);
    if (row->skip) put(&l, ",\"skip\":true");
    return end(m, &l, err);
}

Status metrics_eval(Metrics *m, const MetricsEval *row, Err *err)
{
    Line l;
    begin(&l, "eval", row->step);
    put(&l, ",\"split\":\"%s\"", row->split);
    put_number(&l, "loss", row->loss, 17);
    put_int(&l, "targets", row->targets);
    put_number(&l, "seconds", row->seconds, 9);
    if (row->best) put(&l, ",\"best\":true");
    return end(m, &l, err);
}

Status metrics_note(Metrics *m, int64_t step, const char *text, Err *err)
{
    Line l;
    begin(&l, "note", step);
    put(&l, ",\"text\":\"");
    for (const unsigned char *s = (const unsigned char *)text; *s && l.len < LINE_CAP - 64; s++) {
        if (*s == '"' || *s == '\\')
            put(&l, "\\%c", *s);
        else if (*s < 0x20)
            put(&l, "\\u%04x", *s);
        else
            put(&l, "%c", *s);
    }
    put(&l, "\"");
    return end(m, &l, err);
}

void metrics_close(Metrics *m)
{
    if (m->fd >= 0) close(m->fd);
    m->fd = -1;
}
