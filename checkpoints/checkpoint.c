// checkpoint.c -- saving: a folder under a name nobody reads, made complete, then renamed.
//
//     .tmp-step-N/      files, each synced; MANIFEST last
//        | rename, sync of the parent          <- the only moment at which step-N appears
//     step-N/
//
// Removing goes the other way round: step-N is renamed to .tmp-old-step-N first, so that a kill
// in the middle leaves nothing that looks like a damaged step. ckpt_clean sweeps up .tmp-*.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/checkpoint.h"

#include "checkpoints/manifest.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/steps.h"
#include "checkpoints/tokenizer_files.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"

#include <stdio.h>
#include <string.h>

static const char tmp_prefix[] = ".tmp-";

// RUN/checkpoints/.tmp-step-N
static Status tmp_path(char out[PATH_CAP], const char *run_dir, int64_t step, Err *err)
{
    char dir[PATH_CAP], name[STEPS_NAME_CAP], tmp[STEPS_NAME_CAP + 16];
    TRY(steps_dir(dir, run_dir, err));
    steps_name(name, step);
    snprintf(tmp, sizeof tmp, "%s%s", tmp_prefix, name);
    return path_join(out, dir, tmp, err);
}

static Status put_text(const char *dir, const char *name, const char *text, size_t n, Manifest *m,
                       Err *err)
{
    char path[PATH_CAP];
    FileWriter w;
    TRY(path_join(path, dir, name, err));
    TRY(file_create(&w, path, err));
    const Status s = file_write(&w, text, n, err);
    if (s != ERR_NONE) {
        file_abandon(&w);
        return s;
    }
    TRY(file_commit(&w, err));
    return manifest_add(m, name, w.crc, w.written, err);
}

static Status put_config(const char *dir, const HfConfig *c, Manifest *m, Err *err)
{
    Buf text = {0};
    Status s = hf_config_text(c, &text, err);
    if (s == ERR_NONE) s = put_text(dir, "config.json", text.data, text.len, m, err);
    buf_free(&text);
    return s;
}

static Status fill_folder(const CkptSave *s, const char *dir, Manifest *m, Err *err)
{
    char path[PATH_CAP];
    uint32_t crc = 0;
    uint64_t bytes = 0;
    TRY(hf_save(dir, &s->config, s->model, s->n_model, s->model_dtype, &crc, &bytes, err));
    TRY(manifest_add(m, "model.safetensors", crc, bytes, err));
    TRY(path_join(path, dir, "trainer.safetensors", err));
    TRY(safe_write(path, s->trainer, s->n_trainer, -1, NULL, &crc, &bytes, err));
    TRY(manifest_add(m, "trainer.safetensors", crc, bytes, err));
    TRY(put_text(dir, "trainer.json", s->trainer_json, strlen(s->trainer_json), m, err));
    TRY(put_config(dir, &s->config, m, err));
    if (s->tokenizer_dir[0]) TRY(tokenizer_files_copy(dir, s->tokenizer_dir, false, m, err));
    return manifest_write(m, dir, err);
}

static Status drop_step(const char *run_dir, int64_t step, Err *err)
{
    char name[STEPS_NAME_CAP];
    steps_name(name, step);
    return steps_drop(run_dir, name, err);
}

// Is the folder still the one whose lock is held? It may be moved away, and another run take its
// name, at any moment of a save.
static Status still_ours(const CkptSave *s, Err *err)
{
    char path[PATH_CAP];
    TRY(path_join(path, s->run_dir, "lock", err));
    if (!s->lock || file_lock_stands(s->lock, path)) return ERR_NONE;
    return err_set(err, ERR_IO, "the folder %s was removed or moved", s->run_dir);
}

static Status publish(const CkptSave *s, const char *tmp, const char *final, Err *err)
{
    TRY(still_ours(s, err));
    // The damaged step of that number, if there is one, makes room.
    if (file_exists(final)) TRY(drop_step(s->run_dir, s->step, err));
    return file_rename(tmp, final, err);
}

static Status write_step(const CkptSave *s, const char *final, Err *err)
{
    char tmp[PATH_CAP];
    TRY(tmp_path(tmp, s->run_dir, s->step, err));
    Manifest *m = mem_calloc(1, sizeof *m);
    if (!m) return mem_err(err, sizeof *m, "a manifest");
    Status e = file_remove_tree(tmp, err);
    if (e == ERR_NONE) e = file_mkdirs(tmp, err);
    if (e == ERR_NONE) e = fill_folder(s, tmp, m, err);
    if (e == ERR_NONE) e = publish(s, tmp, final, err);
    mem_free(m);
    if (e != ERR_NONE && file_remove_tree(tmp, NULL) != ERR_NONE)
        log_warn("%s could not be removed; the next start of the run will", tmp);
    return e;
}

// Which steps stay: the newest `keep`, every multiple of keep_every, the best, and the one just
// saved (a run that was resumed from an older step may have newer ones beside it).
static Status prune(const CkptSave *s, Err *err)
{
    if (s->keep <= 0) return ERR_NONE;
    int64_t best = -1;
    Steps all;
    if (steps_best(s->run_dir, &best, err) != ERR_NONE) {
        log_warn("%s; nothing is removed",
                 err ? err->text : "the name of the best step is damaged");
        return ERR_NONE;
    }
    TRY(steps_list(&all, s->run_dir, err));
    int64_t newer = 0;
    Status e = ERR_NONE;
    for (int i = all.n - 1; i >= 0 && e == ERR_NONE; i--) {
        const int64_t step = all.step[i];
        char dir[PATH_CAP];
        e = steps_path(dir, s->run_dir, step, err);
        // Damaged steps count for nothing and are left for a person to look at.
        if (e != ERR_NONE || ckpt_verify(dir, false, NULL) != ERR_NONE) continue;
        const bool keep = newer < s->keep || step == best || step == s->step ||
                          (s->keep_every > 0 && step % s->keep_every == 0);
        newer++;
        if (!keep) e = drop_step(s->run_dir, step, err);
    }
    steps_free(&all);
    return e;
}

Status ckpt_save(const CkptSave *s, Err *err)
{
    char final[PATH_CAP], dir[PATH_CAP];
    Err local;
    if (!err) err = &local;
    TRY(steps_path(final, s->run_dir, s->step, err));
    TRY(steps_dir(dir, s->run_dir, err));
    // Not the run's folder: a run that is gone does not come back as a folder of checkpoints alone.
    if (!file_is_dir(s->run_dir))
        return err_set(err, ERR_IO, "saving step %lld: the folder %s is gone", (long long)s->step,
                       s->run_dir);
    TRY_CTX(still_ours(s, err), err, "saving step %lld", (long long)s->step);
    TRY_CTX(file_mkdirs(dir, err), err, "saving step %lld", (long long)s->step);
    if (!file_exists(final) || ckpt_verify(final, true, NULL) != ERR_NONE)
        TRY_CTX(write_step(s, final, err), err, "saving step %lld", (long long)s->step);
    TRY(still_ours(s, err));
    if (s->best) TRY_CTX(steps_set_best(s->run_dir, s->step, err), err, "noting the best step");
    return prune(s, err);
}

Status ckpt_verify_on(const char *step_dir, bool full, const OnProgress *on, Err *err)
{
    Manifest *m = mem_calloc(1, sizeof *m);
    if (!m) return mem_err(err, sizeof *m, "a manifest");
    Status s = manifest_read(m, step_dir, err);
    if (s == ERR_NONE) s = manifest_check(m, step_dir, full, on, err);
    const char *const needed[] = {"config.json", "model.safetensors"};
    for (size_t i = 0; i < LT_COUNT(needed) && s == ERR_NONE; i++)
        if (!manifest_has(m, needed[i]))
            s = err_set(err, ERR_FORMAT, "%s/MANIFEST: does not list %s", step_dir, needed[i]);
    mem_free(m);
    return s;
}

Status ckpt_verify(const char *step_dir, bool full, Err *err)
{
    return ckpt_verify_on(step_dir, full, NULL, err);
}

Status ckpt_prepare(const char *run_dir, Err *err)
{
    char dir[PATH_CAP], probe[PATH_CAP];
    TRY(steps_dir(dir, run_dir, err));
    TRY(file_mkdirs(dir, err));
    TRY(path_join(probe, dir, ".tmp-probe", err));
    TRY(file_mkdirs(probe, err));
    return file_remove_tree(probe, err);
}

Status ckpt_clean(const char *run_dir, Err *err)
{
    char dir[PATH_CAP];
    FileList l;
    TRY(steps_dir(dir, run_dir, err));
    if (!file_is_dir(dir)) return ERR_NONE;
    TRY(file_list(dir, &l, err));
    Status s = ERR_NONE;
    for (int i = 0; i < l.n && s == ERR_NONE; i++) {
        char path[PATH_CAP];
        const bool partial = strcmp(l.name[i], "best.tmp") == 0;
        if (!partial && strncmp(l.name[i], tmp_prefix, sizeof tmp_prefix - 1) != 0) continue;
        s = path_join(path, dir, l.name[i], err);
        if (s == ERR_NONE) s = file_remove_tree(path, err);
    }
    file_list_free(&l);
    return s;
}
