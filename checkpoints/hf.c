// hf.c -- a model folder into the engine's tensors, and back.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/hf.h"

#include "checkpoints/hf_files.h"
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
static Status pair(HfSlot *slot, int n_slot, const HfConfig *c, const Tensor *t, int n,
                   const Tensor **given, Err *err)
{
    int used = 0, at = 0;
    for (int i = 0; i < n_slot; i++) {
        given[i] = tensor_of(t, n, slot[i].engine, &at);
        if (!given[i] && slot[i].is_bias && !c->bias) continue;
        if (!given[i])
            return err_set(err, ERR_UNSUPPORTED,
                           "the model has no tensor \"%s\", the config wants one", slot[i].engine);
        if (given[i]->rank != slot[i].rank)
            return err_set(err, ERR_UNSUPPORTED,
                           "tensor \"%s\" has %d dimensions, the config wants %d", slot[i].engine,
                           given[i]->rank, slot[i].rank);
        for (int d = 0; d < slot[i].rank; d++) slot[i].shape[d] = given[i]->shape[d];
        used++;
    }
    if (used == n) return ERR_NONE;
    for (int k = 0; k < n; k++) {
        bool known = false;
        for (int i = 0; i < n_slot && !known; i++) known = given[i] == &t[k];
        if (!known)
            return err_set(err, ERR_UNSUPPORTED, "tensor \"%s\" has no place in a %s model",
                           t[k].name, c->architecture);
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

static Status load_matched(const HfFiles *f, const HfConfig *c, const HfSlot *slot, int n,
                           const Tensor *const *given, Err *err)
{
    const HfEntry **found = mem_calloc((size_t)n, sizeof *found);
    if (!found) return mem_err(err, (size_t)n * sizeof *found, "the list of tensors");
    Strip strip = {0};
    Status s = hf_files_match(f, c, slot, n, found, err);
    if (s == ERR_NONE) s = strip_init(&strip, err);
    for (int i = 0; i < n && s == ERR_NONE; i++) {
        if (!given[i]) continue;
        if (found[i]) {
            strip_read(&strip, given[i]->data, given[i]->dtype, found[i]->e->data,
                       found[i]->e->dtype, rows_of(&slot[i]), cols_of(&slot[i]),
                       slot[i].transposed);
        } else { // a bias of an engine that has it, in a file of a model that does not
            memset(given[i]->data, 0,
                   (size_t)tensor_count(given[i]) * dtype_bytes(given[i]->dtype));
        }
    }
    strip_free(&strip);
    mem_free((void *)(uintptr_t)found);
    return s;
}

Status hf_load(const char *dir, const HfConfig *c, Tensor *t, int n, Err *err)
{
    HfSlot *slot = NULL;
    int n_slot = 0;
    TRY(hf_slots_make(c, &slot, &n_slot, err));
    const Tensor **given = mem_calloc((size_t)n_slot, sizeof *given);
    HfFiles f = {0};
    Status s = given ? ERR_NONE : mem_err(err, 0, "the list of tensors");
    if (s == ERR_NONE) s = pair(slot, n_slot, c, t, n, given, err);
    if (s == ERR_NONE) s = hf_files_open(&f, dir, err);
    if (s == ERR_NONE) s = load_matched(&f, c, slot, n_slot, given, err);
    hf_files_close(&f);
    mem_free((void *)(uintptr_t)given);
    mem_free(slot);
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
    return strip_write(&s->strip, w, t->data, t->dtype, s->as, rows, cols, slot->transposed, err);
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
        snprintf(name[i], sizeof name[i], "%s%s", slot->on_body ? "transformer." : "", slot->name);
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
    HfSlot *slot = NULL;
    int n_slot = 0;
    TRY(hf_slots_make(c, &slot, &n_slot, err));
    const Tensor **given = mem_calloc((size_t)n_slot, sizeof *given);
    Status s = given ? ERR_NONE : mem_err(err, 0, "the list of tensors");
    if (s == ERR_NONE) s = pair(slot, n_slot, c, t, n, given, err);
    Save save = {.slot = slot, .given = given, .as = as};
    if (s == ERR_NONE) s = save_slots(dir, &save, n_slot, crc, bytes, err);
    mem_free((void *)(uintptr_t)given);
    mem_free(slot);
    return s;
}
