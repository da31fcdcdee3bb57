// json_text.c -- see json_text.h.
//
// How large must the reserve be? The buffer of the string that is being read may have to double:
// twice the text. And jansson asks for input in pieces of at most 1024 bytes, so at most as much is
// still parsed: as 1024 nested arrays, the worst case, about 128 KiB. It is rarely touched, and
// memory that is not touched costs nothing.
//
// SPDX-License-Identifier: MIT
#include "engine/base/json_text.h"
#include "engine/base/mem.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { RESERVE_BYTES = 1 << 18, ALIGN = 16 };

typedef struct Reserve {
    char *begin; // NULL: nothing is being parsed
    size_t size, used;
    bool touched; // memory was out
} Reserve;

// jansson's allocator has no argument of ours.
static _Thread_local Reserve reserve;

static void *take(size_t bytes)
{
    Reserve *r = &reserve;
    void *p = mem_alloc(bytes);
    if (p || !r->begin) return p;
    const size_t rounded = LT_ROUND_UP(bytes, ALIGN);
    r->touched = true;
    if (bytes > r->size || rounded > r->size - r->used) return NULL;
    p = r->begin + r->used;
    r->used += rounded;
    return p;
}

static void give(void *p)
{
    const Reserve *r = &reserve;
    const uintptr_t at = (uintptr_t)p, begin = (uintptr_t)r->begin;
    if (r->begin && at >= begin && at - begin < r->size) return;
    mem_free(p);
}

void json_text_init(void)
{
    json_set_alloc_funcs(take, give);
}

typedef struct Input {
    const char *text;
    size_t left;
} Input;

static size_t next_piece(void *to, size_t room, void *user)
{
    Input *in = user;
    const size_t n = LT_MIN(room, in->left);
    if (reserve.touched || n == 0) return 0;
    memcpy(to, in->text, n);
    in->text += n;
    in->left -= n;
    return n;
}

Status json_text_parse(json_t **out, const char *text, size_t n, size_t flags, json_error_t *why,
                       Err *err)
{
    Reserve *r = &reserve;
    *out = NULL;
    if (n > SIZE_MAX / 4) return mem_err(err, n, "a JSON text");
    *r = (Reserve){.size = 2 * n + RESERVE_BYTES};
    r->begin = mem_alloc(r->size);
    if (!r->begin) return mem_err(err, r->size, "a JSON text");
    Input in = {text, n};
    *out = json_load_callback(next_piece, &in, flags, why);
    if (r->touched) {
        json_decref(*out);
        *out = NULL;
    }
    const bool was_out = r->touched;
    mem_free(r->begin);
    *r = (Reserve){0};
    if (*out) return ERR_NONE;
    if (was_out) return mem_err(err, n, "the values of a JSON text");
    return err_set(err, ERR_FORMAT, "not JSON: %s", why->text);
}

typedef struct Output {
    Buf *to;
    Err *err;
    Status status; // of the first piece that did not fit
} Output;

static int put_piece(const char *p, size_t n, void *user)
{
    Output *o = user;
    if (o->status == ERR_NONE) o->status = buf_append(o->to, p, n, o->err);
    return o->status == ERR_NONE ? 0 : -1;
}

Status json_text_append(Buf *out, const json_t *value, size_t flags, Err *err)
{
    Output o = {out, err, ERR_NONE};
    const bool done = json_dump_callback(value, put_piece, &o, flags) == 0;
    if (done || o.status != ERR_NONE) return o.status;
    return mem_err(err, 0, "a JSON text"); // what else: our values are trees of UTF-8
}
