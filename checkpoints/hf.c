// hf.c -- a model folder into the engine's tensors, and back.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/hf.h"

#include "checkpoints/hf_match.h"
#include "engine/base/mem.h"

#include <stdio.h>
#include <string.h>

// The tensor of that name; the search begins at *at (both lists have about the same order).
static const Tensor *tensor_of(const Tensor *t, int n, const char *engine, int *at)
{
    for (int k = 0; k < n; k++) {
        const int i = (*at + k) % n;
        if (strcmp(t[i].name, engine) != 0) continue;
        *at = i + 1;
        return &t[i];
    }
    return NULL;
}

// given[i] = the engine's tensor of slot i, NULL for biases it does not have. Shapes become the
// engine's. The engine must know exactly the tensors of the config.
static Status pair(HfMatch *m, const Tensor *t, int n, const Tensor **given, Err *err)
{
    int used = 0, at = 0;
    for (int i = 0; i < m->n; i++) {
        HfSlot *s = &m->slot[i];
        given[i] = tensor_of(t, n, s->engine, &at);
        if (!given[i] && s->is_bias && !m->model->bias) continue;
        if (!given[i])
            return err_set(err, ERR_UNSUPPORTED,
                           "the model has no tensor \"%s\", the config wants one", s->engine);
        if (given[i]->rank != s->rank)
            return err_set(err, ERR_UNSUPPORTED,
                           "tensor \"%s\" has %d dimensions, the config wants %d", s->engine,
                           given[i]->rank, s->rank);
        if (given[i]->shape[0] % s->parts)
            return err_set(err, ERR_UNSUPPORTED, "tensor \"%s\" has %lld rows, not %d parts",
                           s->engine, (long long)given[i]->shape[0], s->parts);
        for (int d = 0; d < s->rank; d++) s->shape[d] = given[i]->shape[d];
        s->shape[0] /= s->parts;
        used += !hf_slots_again(s);
    }
    if (used == n) return ERR_NONE;
    for (int k = 0; k < n; k++) {
        bool known = false;
        for (int i = 0; i < m->n && !known; i++) known = given[i] == &t[k];
        if (!known)
            return err_set(err, ERR_UNSUPPORTED, "tensor \"%s\" has no place in a %s model",
                           t[k].name, m->model->architecture);
    }
    return ERR_NONE;
}

// A vector is one row.
static int64_t rows_of(const HfSlot *s)
{
    return s->rank == 2 ? s->shape[0] : 1;
}
static int64_t cols_of(const HfSlot *s)
{
    return s->rank == 2 ? s->shape[1] : s->shape[0];
}

// Where a slot's part of the engine's tensor begins.
static void *data_of(const HfSlot *s, const Tensor *t)
{
    const int64_t before = s->part * rows_of(s) * cols_of(s);
    return (char *)t->data + (size_t)before * dtype_bytes(t->dtype);
}

static Status load_matched(const HfMatch *m, const Tensor *const *given, Err *err)
{
    Strip strip;
    TRY(strip_init(&strip, err));
    for (int i = 0; i < m->n; i++) {
        const HfSlot *s = &m->slot[i];
        const HfEntry *h = m->found[i];
        if (!given[i] || m->lacks[s->of] || s->twin) continue;
        if (h)
            strip_read(&strip, data_of(s, given[i]), given[i]->dtype, h->e->data, h->e->dtype,
                       rows_of(s), cols_of(s), s->transposed);
        else // a bias of an engine that has it, in a file of a model that does not
            memset(given[i]->data, 0,
                   (size_t)tensor_count(given[i]) * dtype_bytes(given[i]->dtype));
    }
    strip_free(&strip);
    return ERR_NONE;
}

static Status load(const char *dir, const HfConfig *model, const HfConfig *file, Tensor *t, int n,
                   HfHeads *heads, Err *err)
{
    HfMatch m;
    TRY(hf_match_begin(&m, model, err));
    const Tensor **given = mem_calloc((size_t)m.n, sizeof *given);
    HfFiles f = {0};
    Status s = given ? ERR_NONE : mem_err(err, 0, "the list of tensors");
    if (s == ERR_NONE) s = pair(&m, t, n, given, err);
    if (s == ERR_NONE) s = hf_files_open(&f, dir, err);
    if (s == ERR_NONE) s = hf_match_files(&m, &f, file, err);
    if (s == ERR_NONE) s = load_matched(&m, given, err);
    if (heads) *heads = m.heads;
    hf_files_close(&f);
    mem_free((void *)(uintptr_t)given);
    hf_match_end(&m);
    return s;
}

Status hf_load(const char *dir, const HfConfig *c, Tensor *t, int n, Err *err)
{
    return load(dir, c, NULL, t, n, NULL, err);
}

Status hf_load_trunk(const char *dir, const HfConfig *model, Tensor *t, int n, HfHeads *heads,
                     Err *err)
{
    HfConfig *file = mem_calloc(1, sizeof *file);
    if (!file) return mem_err(err, sizeof *file, "config.json");
    *heads = (HfHeads){0};
    Status s = hf_config_read(file, dir, err);
    if (s == ERR_NONE && strcmp(file->model_type, model->model_type) != 0)
        s = err_set(err, ERR_USAGE, "%s: a model of type %s, where one of type %s is wanted", dir,
                    file->model_type, model->model_type);
    if (s == ERR_NONE) s = load(dir, model, file, t, n, heads, err);
    mem_free(file);
    return s;
}

typedef struct Save {
    const HfSlot *slot;
    const Tensor *const *given;
    DType as;
    Strip strip;
} Save;

static Status save_one(void *user, int i, FileWriter *w, Err *err)
{
    Save *s = user;
    const HfSlot *slot = &s->slot[i];
    const Tensor *t = s->given[i];
    const int64_t rows = rows_of(slot), cols = cols_of(slot);
    if (!t)
        return strip_write_zeros(&s->strip, w, (uint64_t)(rows * cols) * dtype_bytes(s->as), err);
    return strip_write(&s->strip, w, data_of(slot, t), t->dtype, s->as, rows, cols,
                       slot->transposed, err);
}

static Status save_slots(const char *dir, Save *save, int n, uint32_t *crc, uint64_t *bytes,
                         Err *err)
{
    typedef char Name[HF_NAME_CAP + 16];
    char path[PATH_CAP];
    TRY(path_join(path, dir, "model.safetensors", err));
    SafeOut *out = mem_calloc((size_t)n, sizeof *out);
    Name *name = mem_calloc((size_t)n, sizeof *name);
    Status s = out && name ? ERR_NONE : mem_err(err, 0, "the list of tensors");
    for (int i = 0; i < n && s == ERR_NONE; i++) {
        const HfSlot *slot = &save->slot[i];
        snprintf(name[i], sizeof name[i], "%s%s", slot->prefix, slot->name);
        out[i] = (SafeOut){.name = name[i], .dtype = save->as, .rank = slot->rank};
        for (int d = 0; d < slot->rank; d++)
            out[i].shape[d] = slot->shape[slot->transposed ? slot->rank - 1 - d : d];
    }
    const char *const meta[] = {"format", "pt", NULL};
    if (s == ERR_NONE) s = strip_init(&save->strip, err);
    if (s == ERR_NONE) s = safe_write_body(path, out, n, meta, save_one, save, crc, bytes, err);
    strip_free(&save->strip);
    mem_free(name);
    mem_free(out);
    return s;
}

Status hf_save(const char *dir, const HfConfig *c, const Tensor *t, int n, DType as, uint32_t *crc,
               uint64_t *bytes, Err *err)
{
    HfMatch m;
    TRY(hf_match_begin(&m, c, err));
    const Tensor **given = mem_calloc((size_t)m.n, sizeof *given);
    Status s = given ? ERR_NONE : mem_err(err, 0, "the list of tensors");
    if (s == ERR_NONE) s = pair(&m, t, n, given, err);
    Save save = {.slot = m.slot, .given = given, .as = as};
    if (s == ERR_NONE) s = save_slots(dir, &save, m.n, crc, bytes, err);
    mem_free((void *)(uintptr_t)given);
    hf_match_end(&m);
    return s;
}
