// hf_files.c -- see hf_files.h.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/hf_files.h"

#include "checkpoints/json_read.h"
#include "engine/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INDEX_MAX = 64 << 20 };

static int by_name(const void *a, const void *b)
{
    return strcmp(((const HfEntry *)a)->name, ((const HfEntry *)b)->name);
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const HfEntry *hf_files_find(const HfFiles *f, const char *name)
{
    const HfEntry key = {.name = name};
    return f->n ? bsearch(&key, f->entry, (size_t)f->n, sizeof key, by_name) : NULL;
}

// The distinct file names of a weight map, sorted; NULL when memory is out. Freed with mem_free;
// the strings belong to `map`.
static const char **shard_names(json_t *map, int *n)
{
    const char **list = mem_calloc(json_object_size(map), sizeof *list);
    *n = 0;
    if (!list) return NULL;
    const char *key;
    json_t *value;
    json_object_foreach(map, key, value) list[(*n)++] = json_string_value(value);
    if (*n) qsort((void *)(uintptr_t)list, (size_t)*n, sizeof *list, compare_text);
    int kept = 0;
    for (int i = 0; i < *n; i++)
        if (!kept || strcmp(list[kept - 1], list[i]) != 0) list[kept++] = list[i];
    *n = kept;
    return list;
}

static Status check_map(const json_t *map, const char *path, Err *err)
{
    if (!json_is_object(map))
        return err_set(err, ERR_FORMAT, "%s: weight_map is %s, expected an object", path,
                       json_read_kind(map));
    const char *key;
    json_t *value;
    char a[JSON_SHOW_CAP], b[JSON_SHOW_CAP];
    if (json_object_size(map) == 0)
        return err_set(err, ERR_FORMAT, "%s: weight_map is empty", path);
    json_object_foreach((json_t *)(uintptr_t)map, key, value)
    {
        if (!json_is_string(value))
            return err_set(err, ERR_FORMAT, "%s: weight_map[\"%s\"] is %s, expected a file name",
                           path, json_read_show(a, key), json_read_kind(value));
        const char *s = json_string_value(value);
        if (!*s || strchr(s, '/') || s[0] == '.')
            return err_set(err, ERR_FORMAT,
                           "%s: weight_map[\"%s\"] is \"%s\", not the name of a file in "
                           "this folder",
                           path, json_read_show(a, key), json_read_show(b, s));
    }
    return ERR_NONE;
}

static Status open_shards(HfFiles *f, const char *const *name, int n, const char *index, Err *err)
{
    f->file = mem_calloc((size_t)n, sizeof *f->file);
    if (!f->file) return mem_err(err, (size_t)n * sizeof *f->file, "the list of shards");
    for (int i = 0; i < n; i++) {
        char path[PATH_CAP], show[JSON_SHOW_CAP];
        TRY(path_join(path, f->dir, name[i], err));
        if (!file_exists(path))
            return err_set(err, ERR_FORMAT, "%s: shard \"%s\" is missing", index,
                           json_read_show(show, name[i]));
        TRY(safe_open(&f->file[i], path, err));
        f->n_file = i + 1;
    }
    return ERR_NONE;
}

static Status collect(HfFiles *f, Err *err)
{
    size_t total = 0;
    for (int i = 0; i < f->n_file; i++) total += (size_t)f->file[i].n;
    f->entry = mem_calloc(total, sizeof *f->entry);
    if (!f->entry) return mem_err(err, total * sizeof *f->entry, "the list of tensors");
    for (int i = 0; i < f->n_file; i++)
        for (int k = 0; k < f->file[i].n; k++) {
            const SafeEntry *e = &f->file[i].entry[k];
            const char *name = hf_slots_strip(e->name);
            if (hf_slots_ignored(name)) continue;
            f->entry[f->n++] = (HfEntry){.name = name, .e = e, .file = &f->file[i]};
        }
    if (f->n) qsort(f->entry, (size_t)f->n, sizeof *f->entry, by_name);
    char a[JSON_SHOW_CAP], b[JSON_SHOW_CAP];
    for (int i = 1; i < f->n; i++)
        if (strcmp(f->entry[i - 1].name, f->entry[i].name) == 0)
            return err_set(err, ERR_FORMAT, "%s: tensors \"%s\" and \"%s\" are the same one, twice",
                           f->dir, json_read_show(a, f->entry[i - 1].e->name),
                           json_read_show(b, f->entry[i].e->name));
    return ERR_NONE;
}

// Index and shards must tell the same story.
static Status check_index(const HfFiles *f, json_t *map, const char *index, Err *err)
{
    char a[JSON_SHOW_CAP], b[JSON_SHOW_CAP];
    const char *key;
    json_t *value;
    json_object_foreach(map, key, value)
    {
        const char *name = hf_slots_strip(key), *shard = json_string_value(value);
        const HfEntry *h = hf_files_find(f, name);
        if (hf_slots_ignored(name)) continue;
        if (!h || strcmp(h->e->name, key) != 0 || strcmp(path_base(h->file->path), shard) != 0)
            return err_set(err, ERR_FORMAT, "%s: tensor \"%s\" is not in shard \"%s\"", index,
                           json_read_show(a, key), json_read_show(b, shard));
    }
    for (int i = 0; i < f->n; i++)
        if (!json_object_get(map, f->entry[i].e->name))
            return err_set(err, ERR_FORMAT, "%s: tensor \"%s\" of shard \"%s\" is not listed",
                           index, json_read_show(a, f->entry[i].e->name),
                           json_read_show(b, path_base(f->entry[i].file->path)));
    return ERR_NONE;
}

static Status open_index(HfFiles *f, const char *index, Err *err)
{
    json_t *root = NULL;
    TRY(json_read_object(&root, index, INDEX_MAX, err));
    json_t *map = json_object_get(root, "weight_map");
    const char **name = NULL;
    int n = 0;
    Status s = check_map(map, index, err);
    if (s == ERR_NONE && !(name = shard_names(map, &n))) s = mem_err(err, 0, "the list of shards");
    if (s == ERR_NONE) s = open_shards(f, name, n, index, err);
    if (s == ERR_NONE) s = collect(f, err);
    if (s == ERR_NONE) s = check_index(f, map, index, err);
    mem_free((void *)(uintptr_t)name);
    json_decref(root);
    f->sharded = true;
    return s;
}

static Status open_any(HfFiles *f, Err *err)
{
    char single[PATH_CAP], index[PATH_CAP], torch[PATH_CAP];
    TRY(path_join(single, f->dir, "model.safetensors", err));
    TRY(path_join(index, f->dir, "model.safetensors.index.json", err));
    TRY(path_join(torch, f->dir, "pytorch_model.bin", err));
    if (file_exists(single)) {
        const char *const name = "model.safetensors";
        TRY(open_shards(f, &name, 1, single, err));
        return collect(f, err);
    }
    if (file_exists(index)) return open_index(f, index, err);
    const Status s =
        err_set(err, file_is_dir(f->dir) ? ERR_FORMAT : ERR_IO,
                "%s: neither model.safetensors nor model.safetensors.index.json is there", f->dir);
    if (file_exists(torch))
        err_hint(err, "pytorch_model.bin is not read; load it with transformers and call "
                      "save_pretrained to get safetensors");
    return s;
}

Status hf_files_open(HfFiles *f, const char *dir, Err *err)
{
    *f = (HfFiles){0};
    if (strlen(dir) + 1 > sizeof f->dir)
        return err_set(err, ERR_USAGE, "path too long: %.60s...", dir);
    snprintf(f->dir, sizeof f->dir, "%s", dir);
    const Status s = open_any(f, err);
    if (s != ERR_NONE) hf_files_close(f);
    return s;
}

void hf_files_close(HfFiles *f)
{
    for (int i = 0; i < f->n_file; i++) safe_close(&f->file[i]);
    mem_free(f->file);
    mem_free(f->entry);
    *f = (HfFiles){0};
}

static void shape_text(char out[256], const int64_t *shape, int rank)
{
    size_t n = (size_t)snprintf(out, 256, "[");
    for (int i = 0; i < rank; i++)
        n += (size_t)snprintf(out + n, 256 - n, "%s%" PRId64, i ? ", " : "", shape[i]);
    snprintf(out + n, 256 - n, "]");
}

static Status check_entry(const HfEntry *h, const HfSlot *s, Err *err)
{
    char show[JSON_SHOW_CAP], have[256], want[256];
    const int64_t shape[2] = {s->shape[s->transposed ? 1 : 0], s->shape[s->transposed ? 0 : 1]};
    bool same = h->e->rank == s->rank;
    for (int i = 0; same && i < s->rank; i++) same = h->e->shape[i] == shape[i];
    json_read_show(show, h->e->name);
    if (!same) {
        shape_text(have, h->e->shape, h->e->rank);
        shape_text(want, shape, s->rank);
        return err_set(err, ERR_FORMAT, "%s: tensor \"%s\" has shape %s, the model wants %s",
                       h->file->path, show, have, want);
    }
    if (h->e->dtype > DTYPE_F16)
        return err_set(err, ERR_FORMAT,
                       "%s: tensor \"%s\" has dtype %s; weights are F32, F16 or BF16",
                       h->file->path, show, h->e->type);
    return ERR_NONE;
}

static Status check_missing(const HfFiles *f, const HfConfig *c, const HfSlot *slot, int n,
                            const HfEntry **found, Err *err)
{
    const HfSlot *first = NULL;
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (found[i] || (slot[i].is_bias && !c->bias)) continue;
        if (!first) first = &slot[i];
        count++;
    }
    if (!first) return ERR_NONE;
    char more[40] = "";
    if (count > 1) snprintf(more, sizeof more, " (and %d more)", count - 1);
    const Status s = err_set(err, ERR_FORMAT, "%s: tensor \"%s%s\" is missing%s", f->dir,
                             first->on_body ? "transformer." : "", first->name, more);
    if (!first->on_body)
        err_hint(err,
                 "if the output layer shares the token embedding, set tie_word_embeddings to true "
                 "in config.json");
    return s;
}

static Status check_extra(const HfFiles *f, const HfConfig *c, const HfEntry **found, int n,
                          Err *err)
{
    char *used = mem_calloc((size_t)f->n, 1);
    if (!used) return mem_err(err, (size_t)f->n, "checking tensors");
    for (int i = 0; i < n; i++)
        if (found[i]) used[found[i] - f->entry] = 1;
    Status s = ERR_NONE;
    int count = 0, first = -1;
    for (int i = 0; i < f->n; i++) {
        if (used[i] || (c->tie_word_embeddings && strcmp(f->entry[i].name, "lm_head.weight") == 0))
            continue;
        if (first < 0) first = i;
        count++;
    }
    mem_free(used);
    if (first >= 0) {
        char show[JSON_SHOW_CAP], more[40] = "";
        if (count > 1) snprintf(more, sizeof more, " (nor are %d more)", count - 1);
        s = err_set(err, ERR_FORMAT,
                    "%s: tensor \"%s\" is not part of a %s with %" PRId64 " layers%s",
                    f->entry[first].file->path, json_read_show(show, f->entry[first].e->name),
                    c->architecture, c->n_layer, more);
    }
    return s;
}

// A tied model may carry its head all the same, when it is the embedding.
static Status check_tied(const HfFiles *f, Err *err)
{
    const HfEntry *head = hf_files_find(f, "lm_head.weight"), *wte = hf_files_find(f, "wte.weight");
    if (!head) return ERR_NONE;
    const HfSlot as_embedding = {.rank = 2, .shape = {wte->e->shape[0], wte->e->shape[1]}};
    TRY(check_entry(head, &as_embedding, err));
    Strip strip;
    TRY(strip_init(&strip, err));
    const bool same = strip_equal(&strip, head->e->data, head->e->dtype, wte->e->data,
                                  wte->e->dtype, wte->e->shape[0] * wte->e->shape[1]);
    strip_free(&strip);
    if (same) return ERR_NONE;
    const Status s = err_set(err, ERR_FORMAT,
                             "%s: config.json ties the output layer to the token embedding, but "
                             "lm_head.weight differs from wte.weight",
                             f->dir);
    err_hint(err, "set tie_word_embeddings to false in config.json if both are meant");
    return s;
}

// A model without biases is written with zeros in their place; anything else would be lost.
static Status check_no_bias(const HfSlot *slot, const HfEntry **found, int n, Err *err)
{
    Strip strip;
    TRY(strip_init(&strip, err));
    Status s = ERR_NONE;
    for (int i = 0; i < n && s == ERR_NONE; i++) {
        if (!slot[i].is_bias || !found[i]) continue;
        if (strip_is_zero(&strip, found[i]->e->data, found[i]->e->dtype, slot[i].shape[0]))
            continue;
        char show[JSON_SHOW_CAP];
        s = err_set(err, ERR_FORMAT,
                    "%s: config.json says the model has no biases, but tensor \"%s\" is not zero",
                    found[i]->file->path, json_read_show(show, found[i]->e->name));
    }
    strip_free(&strip);
    return s;
}

Status hf_files_match(const HfFiles *f, const HfConfig *c, const HfSlot *slot, int n,
                      const HfEntry **found, Err *err)
{
    for (int i = 0; i < n; i++) found[i] = hf_files_find(f, slot[i].name);
    TRY(check_missing(f, c, slot, n, found, err));
    TRY(check_extra(f, c, found, n, err));
    for (int i = 0; i < n; i++)
        if (found[i]) TRY(check_entry(found[i], &slot[i], err));
    if (c->tie_word_embeddings) TRY(check_tied(f, err));
    if (!c->bias) TRY(check_no_bias(slot, found, n, err));
    return ERR_NONE;
}
