// fp8_report.c -- see fp8_report.h.
//
// SPDX-License-Identifier: MIT
#include "engine/model/fp8_report.h"
#include "engine/base/mem.h"

#include <inttypes.h>

static Status read_device(Fp8Report *r, Fp8State *s, Device *d, Err *err)
{
    const size_t n = (size_t)r->n;
    TRY(device_download(d, r->amax, s->last_amax, n * sizeof *r->amax, err));
    TRY(device_download(d, r->scale, s->last_scale, n * sizeof *r->scale, err));
    TRY(device_download(d, r->count, s->count, n * sizeof *r->count, err));
    return device_zero(d, s->count, n * sizeof *r->count, err);
}

Status fp8_report_take(Fp8Report *r, Fp8State *s, Device *d, Err *err)
{
    const size_t n = (size_t)s->n;
    *r = (Fp8Report){.n = s->n};
    r->amax = mem_calloc(n, sizeof *r->amax);
    r->scale = mem_calloc(n, sizeof *r->scale);
    r->count = mem_calloc(n, sizeof *r->count);
    const Status st = r->amax && r->scale && r->count
                          ? read_device(r, s, d, err)
                          : mem_err(err, n * sizeof *r->count, "a report of FP8");
    if (st != ERR_NONE) fp8_report_close(r);
    return st;
}

void fp8_report_close(Fp8Report *r)
{
    mem_free(r->amax);
    mem_free(r->scale);
    mem_free(r->count);
    *r = (Fp8Report){0};
}

// ---- metrics.jsonl ----------------------------------------------------------------------------

typedef Status PutNumber(const Fp8Report *r, int64_t slot, Buf *out, Err *err);

static Status put_amax(const Fp8Report *r, int64_t slot, Buf *out, Err *err)
{
    return r->amax[slot] < 0 ? buf_printf(out, err, "null")
                             : buf_printf(out, err, "%.4g", (double)r->amax[slot]);
}

static Status put_scale(const Fp8Report *r, int64_t slot, Buf *out, Err *err)
{
    return buf_printf(out, err, "%.4g", (double)r->scale[slot].scale);
}

static Status put_saturated(const Fp8Report *r, int64_t slot, Buf *out, Err *err)
{
    return buf_printf(out, err, "%" PRIu32, r->count[slot].saturated);
}

static Status put_flushed(const Fp8Report *r, int64_t slot, Buf *out, Err *err)
{
    return buf_printf(out, err, "%" PRIu32, r->count[slot].flushed);
}

static Status put_nonfinite(const Fp8Report *r, int64_t slot, Buf *out, Err *err)
{
    return buf_printf(out, err, "%" PRIu32, r->count[slot].nonfinite);
}

static Status column(const Fp8Report *r, const Fp8State *s, const char *name, PutNumber *put,
                     Buf *out, Err *err)
{
    TRY(buf_printf(out, err, ",\"%s\":[", name));
    for (int64_t l = s->first; l < s->end; l++) {
        TRY(buf_printf(out, err, "%s[", l > s->first ? "," : ""));
        for (int64_t i = 0; i < FP8_SLOTS_A_LAYER; i++) {
            if (i) TRY(buf_printf(out, err, ","));
            TRY(put(r, l * FP8_SLOTS_A_LAYER + i, out, err));
        }
        TRY(buf_printf(out, err, "]"));
    }
    return buf_printf(out, err, "]");
}

Status fp8_report_json(const Fp8Report *r, const Fp8State *s, Buf *out, Err *err)
{
    TRY(buf_printf(out, err, ",\"layers\":["));
    for (int64_t l = s->first; l < s->end; l++)
        TRY(buf_printf(out, err, "%s%" PRId64, l > s->first ? "," : "", l));
    TRY(buf_printf(out, err, "],\"tensors\":["));
    for (int i = 0; i < LINEAR_COUNT; i++)
        for (int k = 0; k < FP8_KINDS; k++)
            TRY(buf_printf(out, err, "%s\"%s.%s\"", i + k ? "," : "", fp8_linear_name((LinearId)i),
                           fp8_kind_name((Fp8Kind)k)));
    TRY(buf_printf(out, err, "]"));
    TRY(column(r, s, "amax", put_amax, out, err));
    TRY(column(r, s, "scale", put_scale, out, err));
    TRY(column(r, s, "saturated", put_saturated, out, err));
    TRY(column(r, s, "flushed", put_flushed, out, err));
    return column(r, s, "nonfinite", put_nonfinite, out, err);
}

// ---- a table ----------------------------------------------------------------------------------

static Status cells(const Fp8Report *r, int64_t slot, Buf *out, Err *err)
{
    const Fp8Count *n = &r->count[slot];
    if (r->amax[slot] < 0)
        TRY(buf_printf(out, err, " | %8s %8s", "-", "-"));
    else
        TRY(buf_printf(out, err, " | %8.2g %8.2g", (double)r->amax[slot],
                       (double)r->scale[slot].scale));
    return buf_printf(out, err, " %6" PRIu32 " %6" PRIu32 " %4" PRIu32, n->saturated, n->flushed,
                      n->nonfinite);
}

Status fp8_report_table(const Fp8Report *r, const Fp8State *s, Buf *out, Err *err)
{
    TRY(buf_printf(out, err, "%10s", ""));
    for (int k = 0; k < FP8_KINDS; k++)
        TRY(buf_printf(out, err, " | %-2s%6s %8s %6s %6s %4s", fp8_kind_name((Fp8Kind)k), "amax",
                       "scale", "satur", "flush", "bad"));
    TRY(buf_printf(out, err, "\n"));
    for (int64_t l = s->first; l < s->end; l++)
        for (int i = 0; i < LINEAR_COUNT; i++) {
            TRY(buf_printf(out, err, "%5" PRId64 " %-4s", l, fp8_linear_name((LinearId)i)));
            for (int k = 0; k < FP8_KINDS; k++)
                TRY(cells(r, fp8_slot(l, (LinearId)i, (Fp8Kind)k), out, err));
            TRY(buf_printf(out, err, "\n"));
        }
    return ERR_NONE;
}
