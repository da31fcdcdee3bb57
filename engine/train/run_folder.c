// run_folder.c -- see run_folder.h.
//
// SPDX-License-Identifier: MIT
#include "engine/train/run_folder.h"
#include "engine/base/log.h"

#include <string.h>

Status run_folder_open(RunFolder *f, const char *path, Err *err)
{
    char lock[PATH_CAP];
    enum { TRIES = 10, ROOM = 256 }; // room: for checkpoints/.tmp-step-.../NAME.tmp
    *f = (RunFolder){.path = path, .lock = {.fd = -1}};
    if (strlen(path) + ROOM > PATH_CAP)
        return err_set(err, ERR_USAGE, "the name of the run's folder is too long: %.60s...", path);
    TRY(path_join(lock, path, "lock", err));
    const bool there = file_exists(path);
    Status st = ERR_NONE;
    for (int i = 0; i < TRIES; i++) {
        TRY(file_mkdirs(path, err));
        st = file_lock(&f->lock, lock, err);
        if (st == ERR_NONE || file_exists(path)) break; // else a refused process removed its folder
    }
    if (st != ERR_NONE) return err_add(err, st, "opening the run %s", path);
    f->made = !there;
    return ERR_NONE;
}

Status run_folder_config(RunFolder *f, const Options *o, Err *err)
{
    char path[PATH_CAP];
    Buf b = {0};
    TRY(path_join(path, f->path, "config.ini", err));
    Status st = options_text(o, C_TRAIN, &b, err);
    if (st == ERR_NONE) st = file_replace(path, b.data, b.len, err);
    buf_free(&b);
    f->made &= st != ERR_NONE;
    return st;
}

// Does config.ini, if there is one, say what we would write?
static Status check_config(const RunFolder *f, const Options *o, bool *there, Err *err)
{
    char path[PATH_CAP];
    Buf theirs = {0}, ours = {0};
    TRY(path_join(path, f->path, "config.ini", err));
    *there = file_exists(path);
    if (!*there) return ERR_NONE;
    Status st = file_read(path, &theirs, err);
    if (st == ERR_NONE) st = options_text(o, C_TRAIN, &ours, err);
    if (st == ERR_NONE && (theirs.len != ours.len || memcmp(theirs.data, ours.data, ours.len) != 0))
        st = err_set(err, ERR_IO, "the folder %s was removed or moved, and holds another run now",
                     f->path);
    buf_free(&theirs);
    buf_free(&ours);
    return st;
}

static Status take_again(RunFolder *f, const Options *o, const char *lock_path, FileLock *lock,
                         Err *err)
{
    bool there;
    Err problem;
    TRY(file_mkdirs(f->path, err));
    const Status st = file_lock(lock, lock_path, &problem);
    if (st == ERR_USAGE) // at the start that is the user's doing, here it is not
        return err_set(err, ERR_IO, "the folder of the run was removed or moved, and %s",
                       problem.text);
    if (st != ERR_NONE) return err_set(err, st, "%s", problem.text);
    TRY(check_config(f, o, &there, err));
    if (!there) {
        TRY(run_folder_config(f, o, err));
        log_warn("the folder %s was gone and is made again", f->path);
    }
    return ERR_NONE;
}

Status run_folder_hold(RunFolder *f, const Options *o, bool *again, Err *err)
{
    char lock_path[PATH_CAP];
    FileLock lock = {.fd = -1};
    *again = false;
    TRY(path_join(lock_path, f->path, "lock", err));
    if (file_lock_stands(&f->lock, lock_path)) return ERR_NONE;
    const Status st = take_again(f, o, lock_path, &lock, err);
    if (st != ERR_NONE) {
        file_unlock(&lock);
        return st;
    }
    file_unlock(&f->lock);
    f->lock = lock;
    *again = true;
    return ERR_NONE;
}

// Only when it holds nothing but its lock.
static void remove_refused(const char *run)
{
    char lock[PATH_CAP];
    FileList left;
    if (path_join(lock, run, "lock", NULL) != ERR_NONE || file_list(run, &left, NULL) != ERR_NONE)
        return;
    const bool alone = left.n == 1;
    file_list_free(&left);
    if (alone && (file_remove(lock, NULL) != ERR_NONE || file_remove_empty(run, NULL) != ERR_NONE))
        log_warn("%s could not be removed", run);
}

void run_folder_close(RunFolder *f)
{
    if (f->made) remove_refused(f->path); // while the lock is held
    file_unlock(&f->lock);
    f->made = false;
}
