// fp8_saved.c -- see fp8_saved.h.
//
// SPDX-License-Identifier: MIT
#include "engine/model/fp8_saved.h"
#include "engine/base/mem.h"

#include <float.h>
#include <inttypes.h>

Status fp8_saved_open(Fp8Saved *v, const Fp8State *s, Err *err)
{
    *v = (Fp8Saved){.n = s->n, .length = s->recipe.history};
    const size_t n = (size_t)v->n, all = n * (size_t)v->length;
    v->scale = mem_calloc(n, sizeof *v->scale);
    if (v->length) {
        v->history = mem_calloc(all, sizeof *v->history);
        v->at = mem_calloc(n, sizeof *v->at);
    }
    if (v->scale && (!v->length || (v->history && v->at))) return ERR_NONE;
    fp8_saved_close(v);
    return mem_err(err, n * sizeof *v->scale + (all + n) * sizeof *v->history, "saved FP8 scales");
}

void fp8_saved_close(Fp8Saved *v)
{
    mem_free(v->scale);
    mem_free(v->history);
    mem_free(v->at);
    *v = (Fp8Saved){0};
}

int fp8_saved_tensors(const Fp8Saved *v, Tensor *out)
{
    out[0] = (Tensor){
        .name = "fp8.scale", .dtype = DTYPE_F32, .rank = 2, .shape = {v->n, 4}, .data = v->scale};
    if (!v->length) return 1;
    out[1] = (Tensor){.name = "fp8.history",
                      .dtype = DTYPE_F32,
                      .rank = 2,
                      .shape = {v->n, v->length},
                      .data = v->history};
    out[2] =
        (Tensor){.name = "fp8.at", .dtype = DTYPE_I32, .rank = 1, .shape = {v->n}, .data = v->at};
    return FP8_SAVED_TENSORS;
}

Status fp8_saved_take(Fp8Saved *v, const Fp8State *s, Device *d, Err *err)
{
    const size_t n = (size_t)v->n;
    TRY(device_download(d, v->scale, s->scale, n * sizeof *v->scale, err));
    if (!v->length) return ERR_NONE;
    TRY(device_download(d, v->history, s->history, n * (size_t)v->length * sizeof *v->history,
                        err));
    return device_download(d, v->at, s->at, n * sizeof *v->at, err);
}

static bool number(float f, float least)
{
    return f >= least && f <= FLT_MAX; // and no NaN
}

static Status check(const Fp8Saved *v, const char *path, Err *err)
{
    for (int64_t i = 0; i < v->n; i++) {
        const Fp8Scale *k = &v->scale[i];
        const bool scale = number(k->scale, FLT_MIN) && number(k->inv, 0) && k->inv > 0 &&
                           k->max == fp8_max(fp8_dtype((Fp8Kind)(i % FP8_KINDS)));
        bool past = true;
        for (int64_t j = 0; j < v->length && past; j++)
            past = number(v->history[i * v->length + j], 0);
        if (v->length) past = past && v->at[i] >= 0 && v->at[i] < v->length;
        if (!scale || !past)
            return err_set(err, ERR_FORMAT, "%s: FP8 slot %" PRId64 " has no usable %s", path, i,
                           scale ? "history" : "scale");
    }
    return ERR_NONE;
}

Status fp8_saved_put(const Fp8Saved *v, Fp8State *s, Device *d, const char *path, Err *err)
{
    const size_t n = (size_t)v->n;
    TRY(check(v, path, err));
    s->cast = false;
    TRY(device_upload(d, s->scale, v->scale, n * sizeof *v->scale, err));
    if (!v->length) return ERR_NONE;
    TRY(device_upload(d, s->history, v->history, n * (size_t)v->length * sizeof *v->history, err));
    return device_upload(d, s->at, v->at, n * sizeof *v->at, err);
}
