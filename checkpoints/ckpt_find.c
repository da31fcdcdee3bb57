// ckpt_find.c -- reading: from what a user names to a folder that is whole, and its trainer state.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/checkpoint.h"

#include "checkpoints/json_read.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/steps.h"
#include "engine/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TRAINER_JSON_MAX = 64 << 20 };

static bool has(const char *dir, const char *name)
{
    char path[PATH_CAP];
    return path_join(path, dir, name, NULL) == ERR_NONE && file_exists(path);
}

Status ckpt_newest(const char *run_dir, char out_dir[PATH_CAP], int64_t *step, bool *found,
                   Err *err)
{
    Steps all;
    *found = false;
    TRY(steps_list(&all, run_dir, err));
    Status s = ERR_NONE;
    for (int i = all.n - 1; i >= 0 && s == ERR_NONE && !*found; i--) {
        char dir[PATH_CAP];
        Err why;
        s = steps_path(dir, run_dir, all.step[i], err);
        if (s != ERR_NONE) break;
        const Status whole = ckpt_verify(dir, true, &why);
        if (whole == ERR_NONE) {
            memcpy(out_dir, dir, sizeof dir);
            *step = all.step[i];
            *found = true;
        } else if (whole == ERR_NOMEM) {
            s = err_set(err, whole, "%s", why.text);
        } else {
            log_warn("step %" PRId64 " is skipped: %s", all.step[i], why.text);
        }
    }
    steps_free(&all);
    return s;
}

// One step of a run, by number: it must be whole.
static Status take_step(const char *run_dir, int64_t number, char out_dir[PATH_CAP], int64_t *step,
                        Err *err)
{
    char dir[PATH_CAP];
    TRY(steps_path(dir, run_dir, number, err));
    if (!file_is_dir(dir)) return err_set(err, ERR_IO, "%s: no such checkpoint", dir);
    TRY(ckpt_verify(dir, true, err));
    memcpy(out_dir, dir, sizeof dir);
    *step = number;
    return ERR_NONE;
}

static Status find_in_run(const char *run_dir, const char *which, char out_dir[PATH_CAP],
                          int64_t *step, Err *err)
{
    int64_t number = -1;
    if (which && strcmp(which, "best") == 0) {
        TRY(steps_best(run_dir, &number, err));
        if (number < 0)
            return err_set(err, ERR_IO, "%s: no best step is noted in this run", run_dir);
        return take_step(run_dir, number, out_dir, step, err);
    }
    if (which && *which) {
        if (!steps_parse(which, &number))
            return err_set(err, ERR_USAGE,
                           "\"%.60s\" is neither best nor the name of a step folder", which);
        return take_step(run_dir, number, out_dir, step, err);
    }
    bool found = false;
    TRY(ckpt_newest(run_dir, out_dir, step, &found, err));
    if (!found) return err_set(err, ERR_IO, "%s: no complete checkpoint in this run", run_dir);
    return ERR_NONE;
}

// The step a folder of ours says it is, by its name or by its trainer.json; else -1.
static int64_t step_of(const char *dir)
{
    int64_t step = -1;
    if (steps_parse(path_base(dir), &step)) return step;
    char path[PATH_CAP];
    json_t *root = NULL;
    if (path_join(path, dir, "trainer.json", NULL) != ERR_NONE) return -1;
    if (!file_exists(path) || json_read_object(&root, path, TRAINER_JSON_MAX, NULL) != ERR_NONE)
        return -1;
    const json_t *j = json_object_get(root, "step");
    step = json_is_integer(j) ? json_integer_value(j) : -1;
    json_decref(root);
    return step;
}

// Without the slashes a shell's completion leaves at the end.
static Status trimmed(char out[PATH_CAP], const char *path, Err *err)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    if (n + 1 > PATH_CAP) return err_set(err, ERR_USAGE, "path too long: %.60s...", path);
    memcpy(out, path, n);
    out[n] = 0;
    return ERR_NONE;
}

Status ckpt_find(const char *path, const char *which, char out_dir[PATH_CAP], int64_t *step,
                 Err *err)
{
    char dir[PATH_CAP];
    TRY(trimmed(dir, path, err));
    if (!file_exists(dir)) return err_set(err, ERR_IO, "%s: no such folder", dir);
    if (!file_is_dir(dir)) return err_set(err, ERR_IO, "%s: not a folder", dir);
    if (has(dir, "checkpoints")) return find_in_run(dir, which, out_dir, step, err);
    if (which && *which)
        return err_set(err, ERR_USAGE, "%s: not a run folder, so there is no \"%.60s\" to choose",
                       dir, which);
    int64_t number = -1;
    if (has(dir, "MANIFEST") || has(dir, "trainer.json") || steps_parse(path_base(dir), &number)) {
        const Status s = ckpt_verify(dir, true, err);
        if (s == ERR_FORMAT)
            err_hint(err,
                     "if you changed the folder on purpose, remove MANIFEST and trainer.json and "
                     "rename it: then it is read as a plain model folder");
        if (s != ERR_NONE) return s;
        *step = step_of(dir);
    } else if (has(dir, "config.json")) {
        *step = -1;
    } else {
        return err_set(err, ERR_IO, "%s: neither a run, a checkpoint nor a model folder", dir);
    }
    memcpy(out_dir, dir, strlen(dir) + 1);
    return ERR_NONE;
}

bool ckpt_has_trainer(const char *step_dir)
{
    return has(step_dir, "trainer.json") && has(step_dir, "trainer.safetensors");
}

static Status check_tensor(const SafeFile *f, Tensor *t, Err *err)
{
    const SafeEntry *e = safe_find(f, t->name);
    if (!e) return err_set(err, ERR_FORMAT, "%s: tensor \"%s\" is missing", f->path, t->name);
    if (e->dtype != t->dtype)
        return err_set(err, ERR_FORMAT, "%s: tensor \"%s\" has dtype %s, expected %s", f->path,
                       t->name, e->type, dtype_name(t->dtype));
    bool same = e->rank == t->rank;
    for (int i = 0; same && i < t->rank; i++) same = e->shape[i] == t->shape[i];
    if (!same)
        return err_set(
            err, ERR_FORMAT,
            "%s: tensor \"%s\" has another shape (%" PRIu64 " bytes, expected %" PRIu64 ")",
            f->path, t->name, e->bytes, (uint64_t)tensor_count(t) * dtype_bytes(t->dtype));
    return ERR_NONE;
}

static Status load_tensors(const char *step_dir, Tensor *t, int n, Err *err)
{
    char path[PATH_CAP];
    SafeFile f;
    TRY(path_join(path, step_dir, "trainer.safetensors", err));
    TRY(safe_open(&f, path, err));
    Status s = ERR_NONE;
    // All are checked before the first is touched.
    for (int i = 0; i < n && s == ERR_NONE; i++) s = check_tensor(&f, &t[i], err);
    for (int i = 0; i < n && s == ERR_NONE; i++) {
        const SafeEntry *e = safe_find(&f, t[i].name);
        if (e->bytes) memcpy(t[i].data, e->data, (size_t)e->bytes);
    }
    safe_close(&f);
    return s;
}

Status ckpt_load_trainer(const char *step_dir, Buf *json, Tensor *t, int n, Err *err)
{
    char path[PATH_CAP];
    TRY(path_join(path, step_dir, "trainer.json", err));
    TRY(load_tensors(step_dir, t, n, err));
    return file_read(path, json, err);
}
