// progress.c -- see progress.h.
//
// SPDX-License-Identifier: MIT
#include "engine/report/progress.h"
#include "engine/base/clock.h"
#include "engine/base/log.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double PROGRESS_REDRAW = 0.1; // seconds

static void add(char *out, size_t cap, const char *fmt, ...) LT_PRINTF(3, 4);
static void add(char *out, size_t cap, const char *fmt, ...)
{
    const size_t used = strlen(out);
    if (used + 1 >= cap) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(out + used, cap - used, fmt, ap);
    va_end(ap);
}

void progress_duration(double seconds, char out[32])
{
    if (!(seconds >= 0) || seconds > 1e12) {
        snprintf(out, 32, "?");
        return;
    }
    const long long s = (long long)(seconds + 0.5);
    const long long day = s / 86400, hour = s / 3600 % 24, minute = s / 60 % 60;
    if (day)
        snprintf(out, 32, "%lldd %02lld:%02lld", day, hour, minute);
    else if (hour)
        snprintf(out, 32, "%lld:%02lld:%02lld", hour, minute, s % 60);
    else
        snprintf(out, 32, "%lld:%02lld", minute, s % 60);
}

// printf writes the sign of a NaN, which says nothing.
static double no_signed_nan(double v)
{
    return isnan(v) ? fabs(v) : v;
}

void progress_count(double n, char out[32])
{
    static const char unit[] = "kMBTPE";
    if (!(fabs(n) >= 999.5)) {
        snprintf(out, 32, "%.0f", no_signed_nan(n));
        return;
    }
    int i = -1;
    while (fabs(n) >= 999.95 && i + 1 < (int)sizeof unit - 1) {
        n /= 1000;
        i++;
    }
    if (i < 0)
        snprintf(out, 32, "%.0f", n);
    else
        snprintf(out, 32, "%.*f%c", fabs(n) < 9.995 ? 2 : 1, n, unit[i]);
}

void progress_bytes(double n, char out[32])
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t i = 0;
    while (n >= 1023.95 && i + 1 < LT_COUNT(unit)) {
        n /= 1024;
        i++;
    }
    snprintf(out, 32, i ? "%.1f %s" : "%.0f %s", n, unit[i]);
}

void progress_text(const ProgressRow *row, char *out, size_t cap)
{
    char rate[32], eta[32];
    progress_count(row->tokens_per_second, rate);
    progress_duration(row->eta, eta);
    out[0] = 0;
    add(out, cap, "step %lld/%lld | loss %.4f", (long long)row->step, (long long)row->max_steps,
        no_signed_nan(row->loss));
    for (int i = 0; i < 2 && row->part[0].name && row->part[1].name; i++)
        add(out, cap, "%s%s %.4f%s", i ? " " : " (", row->part[i].name,
            no_signed_nan(row->part[i].loss), i ? ")" : "");
    add(out, cap, " | lr %.2e | norm %.3g", row->lr, no_signed_nan(row->grad_norm));
    add(out, cap, " | %.*f ms | %s tok/s", row->seconds < 0.1 ? 1 : 0, row->seconds * 1e3, rate);
    if (row->mfu >= 0) add(out, cap, " | mfu %.1f%%", row->mfu * 100);
    if (row->loss_scale > 0) add(out, cap, " | scale %.10g", row->loss_scale);
    if (row->skipped) add(out, cap, " | skipped %lld", (long long)row->skipped);
    if (row->eta >= 0) add(out, cap, " | eta %s", eta);
}

void progress_line(const ProgressRow *row, bool live)
{
    char text[256];
    progress_text(row, text, sizeof text);
    if (log_is_terminal()) {
        log_live(text);
        if (!live) log_live_end();
    } else if (!live) {
        log_note("%s", text);
    }
}

void progress_break(void)
{
    if (log_is_terminal()) log_live("");
}

static void amount(const Progress *p, double n, char out[32])
{
    if (p->unit)
        progress_count(n, out);
    else
        progress_bytes(n, out);
}

void progress_work_text(const Progress *p, double done, double total, double seconds, char *out,
                        size_t cap)
{
    char text[32];
    const char *unit = p->unit ? p->unit : "", *space = p->unit ? " " : "";
    out[0] = 0;
    amount(p, done, text);
    add(out, cap, "%s %s", p->label, text);
    if (total > 0) {
        amount(p, total, text);
        add(out, cap, "/%s", text);
    }
    add(out, cap, "%s%s", space, unit);
    if (total > 0) add(out, cap, " | %d%%", (int)(100 * LT_MIN(done / total, 1.0)));
    if (!(done > 0 && seconds > 0)) return;
    amount(p, done / seconds, text);
    add(out, cap, " | %s%s%s/s", text, space, unit);
    if (total <= 0) return;
    progress_duration(LT_MAX(total - done, 0.0) * seconds / done, text);
    add(out, cap, " | %s left", text);
}

void progress_begin(Progress *p, const char *label, const char *unit, double after)
{
    const double now = clock_seconds();
    *p = (Progress){.label = label,
                    .unit = unit,
                    .after = after,
                    .start = now,
                    .drawn = now - PROGRESS_REDRAW,
                    .wanted = isatty(STDERR_FILENO) == 1};
}

void progress_at(Progress *p, double done, double total)
{
    if (!p->wanted) return;
    const double now = clock_seconds();
    if (now - p->start < p->after || now - p->drawn < PROGRESS_REDRAW) return;
    char text[256];
    progress_work_text(p, done, total, now - p->start, text, sizeof text);
    fprintf(stderr, "\r\033[K%.*s", log_columns(STDERR_FILENO) - 1, text);
    fflush(stderr);
    p->drawn = now;
    p->shown = true;
}

void progress_end(Progress *p)
{
    if (p->shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    p->wanted = p->shown = false;
}

static void on_at(void *arg, double done, double total)
{
    progress_at(arg, done, total);
}

OnProgress progress_listener(Progress *p)
{
    return (OnProgress){.at = on_at, .arg = p};
}
