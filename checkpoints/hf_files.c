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
