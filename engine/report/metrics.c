// metrics.c -- see metrics.h.
//
// SPDX-License-Identifier: MIT
#include "engine/report/metrics.h"
#include "engine/base/assert.h"
#include "engine/base/buf.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_CAP = 1024, WAIT_CAP = 1 << 20 };

typedef struct Line { // one JSON object in the making; bounded by construction
    char text[LINE_CAP];
    size_t len;
    char bad[256]; // "\"loss\",\"lr\"": fields that are not finite
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
    l->len = 0;
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

// Write what waits. What is left after a failure begins where the file ends.
static void flush(Metrics *m)
{
    size_t done = 0;
    int error = 0;
    while (done < m->wait_bytes && !error) {
        const ssize_t n = write(m->fd, m->wait + done, m->wait_bytes - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            error = errno;
    }
    m->wait_bytes -= done;
    memmove(m->wait, m->wait + done, m->wait_bytes);
    if (error && !m->failing)
        log_warn("write %s: %s; training goes on, the lines wait in memory", m->path,
                 strerror(error));
    m->failing = error != 0;
}

// A line joins those that wait, and all are written.
static void add_line(Metrics *m, const char *text, size_t len)
{
    ASSERT(m->fd >= 0, "%s is not open", m->path);
    if (m->wait_bytes + len > WAIT_CAP) flush(m);
    if (m->wait_bytes + len > WAIT_CAP) {
        m->dropped++;
        return;
    }
    memcpy(m->wait + m->wait_bytes, text, len);
    m->wait_bytes += len;
    flush(m);
}

static void end(Metrics *m, Line *l)
{
    if (l->bad[0]) put(l, ",\"nonfinite\":[%s]", l->bad);
    put(l, "}\n");
    add_line(m, l->text, l->len);
}

// The number behind "name":, or `none`.
static int64_t number_of(const char *line, const char *name, int64_t none)
{
    char key[32];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *const at = strstr(line, key);
    if (!at) return none;
    char *stop;
    const long long v = strtoll(at + strlen(key), &stop, 10);
    return stop == at + strlen(key) ? none : v;
}

static bool belongs(const char *line, MetricsPoint from)
{
    const int64_t step = number_of(line, "step", -1);
    if (line[0] != '{' || step < 0) return false; // not a line of ours
    if (strstr(line, "\"skip\":true"))
        return step <= from.step + 1 && number_of(line, "skipped", 0) <= from.skipped;
    if (strstr(line, "\"kind\":\"eval\"") && step > from.last_eval) return false;
    return step <= from.step;
}

// Bytes of the file that belong to the run up to `from`: up to the first line that does not.
static size_t bytes_to_keep(char *text, size_t len, MetricsPoint from)
{
    size_t keep = 0;
    while (keep < len) {
        char *eol = memchr(text + keep, '\n', len - keep);
        if (!eol) break;
        *eol = 0;
        if (!belongs(text + keep, from)) break;
        keep = (size_t)(eol - text) + 1;
    }
    return keep;
}

static Status open_at(Metrics *m, size_t keep, Err *err)
{
    const int fd = open(m->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) return err_errno(err, errno, "open %s", m->path);
    if (ftruncate(fd, (off_t)keep) != 0) {
        const int e = errno;
        close(fd);
        return err_errno(err, e, "truncate %s", m->path);
    }
    m->wait = mem_alloc(WAIT_CAP);
    if (!m->wait) {
        close(fd);
        return mem_err(err, WAIT_CAP, "lines of metrics");
    }
    m->fd = fd;
    return ERR_NONE;
}

Status metrics_open(Metrics *m, const char *path, MetricsPoint from, Err *err)
{
    size_t keep = 0;
    *m = (Metrics){.fd = -1};
    if (strlen(path) >= PATH_CAP) return err_set(err, ERR_USAGE, "path too long: %.60s...", path);
    memcpy(m->path, path, strlen(path) + 1);
    if (from.step > 0 && file_exists(path)) {
        Buf old = {0};
        const Status st = file_read(path, &old, err);
        if (st == ERR_NONE) keep = bytes_to_keep(old.data, old.len, from);
        buf_free(&old);
        TRY(st);
    }
    return open_at(m, keep, err);
}

static void put_parts(Line *l, const MetricsPart part[2], bool accuracy)
{
    char name[32];
    for (int i = 0; i < 2; i++) {
        if (!part[i].name) continue;
        snprintf(name, sizeof name, "loss_%s", part[i].name);
        put_number(l, name, part[i].loss, accuracy ? 17 : 9);
        snprintf(name, sizeof name, "accuracy_%s", part[i].name);
        if (accuracy) put_number(l, name, part[i].accuracy, 17);
    }
}

void metrics_step(Metrics *m, const MetricsRow *row)
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
    if (row->loss_scale > 0) put_number(&l, "loss_scale", row->loss_scale, 9);
    put_int(&l, "skipped", row->skipped);
    if (row->skip) put(&l, ",\"skip\":true");
    if (row->sequences > 0) put_int(&l, "sequences", row->sequences);
    put_parts(&l, row->part, false);
    end(m, &l);
}

void metrics_eval(Metrics *m, const MetricsEval *row)
{
    Line l;
    begin(&l, "eval", row->step);
    put(&l, ",\"split\":\"%s\"", row->split);
    put_number(&l, "loss", row->loss, 17);
    put_int(&l, "targets", row->targets);
    put_number(&l, "seconds", row->seconds, 9);
    if (row->best) put(&l, ",\"best\":true");
    if (row->sequences > 0) put_int(&l, "sequences", row->sequences);
    put_parts(&l, row->part, true);
    if (row->fields) put(&l, ",%s", row->fields);
    end(m, &l);
}

void metrics_fields(Metrics *m, const char *kind, int64_t step, const char *fields)
{
    Buf b = {0};
    if (buf_printf(&b, NULL, "{\"kind\":\"%s\",\"step\":%lld%s}\n", kind, (long long)step,
                   fields) == ERR_NONE)
        add_line(m, b.data, b.len);
    else
        m->dropped++;
    buf_free(&b);
}

void metrics_note(Metrics *m, int64_t step, const char *text)
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
    end(m, &l);
}

void metrics_close(Metrics *m)
{
    if (m->fd < 0) return;
    flush(m);
    int64_t lost = m->dropped;
    for (size_t i = 0; i < m->wait_bytes; i++) lost += m->wait[i] == '\n';
    if (lost) log_warn("%lld lines could not be written to %s", (long long)lost, m->path);
    close(m->fd);
    mem_free(m->wait);
    m->wait = NULL;
    m->fd = -1;
}
