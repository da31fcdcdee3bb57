// cmd_inspect.c -- lathe inspect PATH: tells what PATH is, and hands it to the part that knows it.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/checkpoint.h"
#include "engine/cli/cli.h"
#include "engine/cli/inspect.h"
#include "engine/report/progress.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool has(const char *dir, const char *name)
{
    char path[PATH_CAP];
    return path_join(path, dir, name, NULL) == ERR_NONE && file_exists(path);
}

static bool ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

static bool has_tokenizer(const char *dir)
{
    const char *const names[] = {"tokenizer.json", "vocab.json", "encoder.json", "vocab.txt"};
    for (size_t i = 0; i < LT_COUNT(names); i++)
        if (has(dir, names[i])) return true;
    return false;
}

// Token files that other programs made?
static bool has_shards(const char *dir)
{
    FileList l;
    bool yes = false;
    if (file_list(dir, &l, NULL) != ERR_NONE) return false;
    for (int i = 0; i < l.n; i++) yes |= ends_with(l.name[i], ".bin");
    file_list_free(&l);
    return yes;
}

static Status inspect_folder(const char *dir, const char *which, OnPart *check, Buf *out, Err *err)
{
    if (has(dir, "checkpoints")) {
        if (!*which) return inspect_run(dir, check, out, err);
        char step_dir[PATH_CAP];
        int64_t step = -1;
        TRY(ckpt_find(dir, which, step_dir, &step, err));
        return inspect_model(step_dir, check, out, err);
    }
    if (*which) return err_set(err, ERR_USAGE, "%s: --which is for run folders", dir);
    if (has(dir, "MANIFEST") || has(dir, "config.json")) return inspect_model(dir, check, out, err);
    if (has(dir, "meta.json") || has(dir, "INCOMPLETE")) return inspect_data(dir, check, out, err);
    if (has(dir, "model.safetensors")) {
        char path[PATH_CAP];
        TRY(path_join(path, dir, "model.safetensors", err));
        return inspect_safetensors(path, out, err);
    }
    if (has_tokenizer(dir)) return inspect_tokenizer(dir, out, err);
    if (has_shards(dir)) return inspect_corpus(dir, out, err);
    return err_set(err, ERR_USAGE,
                   "%s: not a run, checkpoint, model, data or tokenizer folder that lathe knows",
                   dir);
}

static Status inspect_file(const char *path, Buf *out, Err *err)
{
    if (ends_with(path, ".safetensors")) return inspect_safetensors(path, out, err);
    if (inspect_is_shard(path)) return inspect_shard(path, out, err);
    if (ends_with(path, ".json") || ends_with(path, ".tiktoken") || ends_with(path, "vocab.txt"))
        return inspect_tokenizer(path, out, err);
    if (ends_with(path, ".bin")) return inspect_corpus(path, out, err);
    return err_set(err, ERR_USAGE, "%s: not a safetensors file, token shard or tokenizer", path);
}

Status cmd_inspect(const Options *o, Err *err)
{
    if (o->n_args != 1) return err_set(err, ERR_USAGE, "expected one PATH, got %d", o->n_args);
    const char *path = o->args[0];
    Buf out = {0};
    Status s;
    Progress progress;
    progress_begin(&progress, "checking", NULL, o->progress_after);
    OnPart checksums = {.on = progress_listener(&progress)};
    OnPart *const check = o->verify ? &checksums : NULL;
    if (!file_exists(path))
        s = err_set(err, ERR_IO, "%s: no such file or folder", path);
    else if (file_is_dir(path))
        s = inspect_folder(path, o->which, check, &out, err);
    else if (o->which[0])
        s = err_set(err, ERR_USAGE, "%s: --which is for run folders", path);
    else
        s = inspect_file(path, &out, err);
    progress_end(&progress);
    // What was learned is shown even when something is wrong.
    if (out.len) err_plain(out.data);
    if (out.len && fwrite(out.data, 1, out.len, stdout) != out.len && s == ERR_NONE)
        s = err_errno(err, errno, "write to standard output");
    buf_free(&out);
    return s;
}
