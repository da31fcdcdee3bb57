// safe_write.c -- writing safetensors: header first (all sizes are known), then the bytes,
// streamed.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/safetensors.h"

#include "checkpoints/strip.h"
#include "engine/base/assert.h"
#include "engine/base/buf.h"
#include "engine/base/mem.h"

#include <inttypes.h>

static const char *const type_names[DTYPE_COUNT] = {
    [DTYPE_F32] = "F32",      [DTYPE_BF16] = "BF16",    [DTYPE_F16] = "F16",
    [DTYPE_E4M3] = "F8_E4M3", [DTYPE_E5M2] = "F8_E5M2", [DTYPE_U8] = "U8",
    [DTYPE_U16] = "U16",      [DTYPE_I32] = "I32",      [DTYPE_I64] = "I64",
};

static uint64_t out_bytes(const SafeOut *o)
{
    uint64_t n = dtype_bytes(o->dtype);
    for (int i = 0; i < o->rank; i++) n *= (uint64_t)o->shape[i];
    return n;
}

static Status put_string(Buf *b, const char *s, Err *err)
{
    TRY(buf_puts(b, "\"", err));
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            TRY(buf_printf(b, err, "\\%c", *s));
        else if ((unsigned char)*s < 32)
            TRY(buf_printf(b, err, "\\u%04x", (unsigned)*s));
        else
            TRY(buf_append(b, s, 1, err));
    }
    return buf_puts(b, "\"", err);
}

static Status put_header(Buf *b, const SafeOut *o, const int *order, int n, const char *const *meta,
                         Err *err)
{
    const char *comma = "";
    TRY(buf_append(b, "\0\0\0\0\0\0\0\0{", 9, err));
    if (meta && *meta) {
        TRY(buf_puts(b, "\"__metadata__\":{", err));
        for (int i = 0; meta[i]; i += 2) {
            TRY(buf_puts(b, i ? "," : "", err));
            TRY(put_string(b, meta[i], err));
            TRY(buf_puts(b, ":", err));
            TRY(put_string(b, meta[i + 1], err));
        }
        TRY(buf_puts(b, "}", err));
        comma = ",";
    }
    uint64_t at = 0;
    for (int k = 0; k < n; k++) {
        const SafeOut *t = &o[order[k]];
        TRY(buf_puts(b, comma, err));
        TRY(put_string(b, t->name, err));
        TRY(buf_printf(b, err, ":{\"dtype\":\"%s\",\"shape\":[", type_names[t->dtype]));
        for (int d = 0; d < t->rank; d++)
            TRY(buf_printf(b, err, "%s%" PRId64, d ? "," : "", t->shape[d]));
        TRY(buf_printf(b, err, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at,
                       at + out_bytes(t)));
        at += out_bytes(t);
        comma = ",";
    }
    TRY(buf_puts(b, "}", err));
    while (b->len % 8) TRY(buf_puts(b, " ", err));
    const uint64_t header = b->len - 8;
    for (int i = 0; i < 8; i++) b->data[i] = (char)(header >> (8 * i));
    return ERR_NONE;
}

// Wider types first, otherwise as given.
static int *make_order(const SafeOut *o, int n)
{
    int *order = mem_calloc((size_t)n, sizeof *order);
    if (!order) return NULL;
    int k = 0;
    for (size_t bytes = 8; bytes; bytes /= 2)
        for (int i = 0; i < n; i++)
            if (dtype_bytes(o[i].dtype) == bytes) order[k++] = i;
    return order;
}

static Status write_all(FileWriter *w, const SafeOut *o, const int *order, int n,
                        const char *const *meta, SafeBody body, void *user, Err *err)
{
    Buf head = {0};
    Status s = put_header(&head, o, order, n, meta, err);
    if (s == ERR_NONE) s = file_write(w, head.data, head.len, err);
    buf_free(&head);
    for (int k = 0; k < n && s == ERR_NONE; k++) {
        const uint64_t before = w->written;
        s = body(user, order[k], w, err);
        ASSERT(s != ERR_NONE || w->written - before == out_bytes(&o[order[k]]),
               "%s: %s wrote %" PRIu64 " bytes of %" PRIu64, w->path, o[order[k]].name,
               w->written - before, out_bytes(&o[order[k]]));
    }
    return s;
}

Status safe_write_body(const char *path, const SafeOut *o, int n, const char *const *meta,
                       SafeBody body, void *user, uint32_t *crc, uint64_t *bytes, Err *err)
{
    int *order = make_order(o, n);
    if (!order) return mem_err(err, (size_t)n * sizeof *order, path);
    FileWriter w;
    Status s = file_create(&w, path, err);
    if (s == ERR_NONE) {
        s = write_all(&w, o, order, n, meta, body, user, err);
        if (s == ERR_NONE)
            s = file_commit(&w, err);
        else
            file_abandon(&w);
    }
    mem_free(order);
    if (s == ERR_NONE && crc) *crc = w.crc;
    if (s == ERR_NONE && bytes) *bytes = w.written;
    return s;
}

typedef struct Given {
    const Tensor *t;
    const SafeOut *o;
    Strip strip;
} Given;

static Status write_given(void *user, int i, FileWriter *w, Err *err)
{
    Given *g = user;
    const Tensor *t = &g->t[i];
    return strip_write(&g->strip, w, t->data, t->dtype, g->o[i].dtype, 1, tensor_count(t), false,
                       err);
}

Status safe_write(const char *path, const Tensor *t, int n, int as, const char *const *meta,
                  uint32_t *crc, uint64_t *bytes, Err *err)
{
    SafeOut *o = mem_calloc((size_t)n, sizeof *o);
    if (!o) return mem_err(err, (size_t)n * sizeof *o, path);
    for (int i = 0; i < n; i++) {
        o[i] = (SafeOut){
            .name = t[i].name, .dtype = as < 0 ? t[i].dtype : (DType)as, .rank = t[i].rank};
        for (int d = 0; d < t[i].rank; d++) o[i].shape[d] = t[i].shape[d];
    }
    Given g = {.t = t, .o = o};
    Status s = strip_init(&g.strip, err);
    if (s == ERR_NONE) s = safe_write_body(path, o, n, meta, write_given, &g, crc, bytes, err);
    strip_free(&g.strip);
    mem_free(o);
    return s;
}
