// ckpt_aside.c -- going back: steps that are given up, and the best step after that.
//
//     step-400 step-500 step-600 step-700     a run goes on from step 400
//     step-400 aside-step-500 aside-step-600 aside-step-700
//
// Nothing reads a folder of that name by itself; a person can still name it. They are bounded like
// the steps of a run: see ckpt_set_aside in checkpoint.h.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/checkpoint.h"

#include "checkpoints/steps.h"
#include "engine/base/log.h"

#include <stdio.h>
#include <string.h>

static const char prefix[] = "aside-";

static Status aside_path(char out[PATH_CAP], const char *dir, int64_t step, Err *err)
{
    char name[STEPS_NAME_CAP], aside[STEPS_NAME_CAP + sizeof prefix];
    steps_name(name, step);
    snprintf(aside, sizeof aside, "%s%s", prefix, name);
    return path_join(out, dir, aside, err);
}

static Status set_aside(const char *run_dir, int64_t step, Err *err)
{
    char dir[PATH_CAP], from[PATH_CAP], to[PATH_CAP];
    TRY(steps_dir(dir, run_dir, err));
    TRY(steps_path(from, run_dir, step, err));
    TRY(aside_path(to, dir, step, err));
    TRY(file_remove_tree(to, err)); // of an earlier time the same step was given up
    return file_rename(from, to, err);
}

// Of the steps given up now (those behind `step`), the newest `keep` and the best stay; of those
// given up before, none.
static Status prune_asides(const char *run_dir, const Steps *now, int64_t step, int64_t best,
                           int64_t keep, Err *err)
{
    char dir[PATH_CAP];
    FileList l;
    TRY(steps_dir(dir, run_dir, err));
    TRY(file_list(dir, &l, err));
    Status s = ERR_NONE;
    for (int i = 0; i < l.n && s == ERR_NONE; i++) {
        int64_t number;
        if (strncmp(l.name[i], prefix, sizeof prefix - 1) != 0 ||
            !steps_parse(l.name[i] + sizeof prefix - 1, &number))
            continue;
        bool stays = false;
        for (int k = now->n - 1; k >= 0 && now->step[k] > step; k--)
            stays |= number == now->step[k] && (now->n - k <= keep || number == best);
        if (!stays) s = steps_drop(run_dir, l.name[i], err);
    }
    file_list_free(&l);
    return s;
}

static Status remove_best(const char *run_dir, Err *err)
{
    char dir[PATH_CAP], path[PATH_CAP];
    TRY(steps_dir(dir, run_dir, err));
    TRY(path_join(path, dir, "best", err));
    return file_remove(path, err);
}

Status ckpt_set_aside(const char *run_dir, int64_t step, int64_t keep, int *n, Err *err)
{
    Steps all;
    int64_t best = -1;
    *n = 0;
    TRY(steps_list(&all, run_dir, err));
    if (steps_best(run_dir, &best, NULL) != ERR_NONE) best = -1; // damaged: told when it is used
    Status s = ERR_NONE;
    for (int i = 0; i < all.n && s == ERR_NONE; i++) {
        if (all.step[i] <= step) continue;
        s = set_aside(run_dir, all.step[i], err);
        *n += s == ERR_NONE;
    }
    if (s == ERR_NONE && *n && keep > 0) s = prune_asides(run_dir, &all, step, best, keep, err);
    steps_free(&all);
    if (s == ERR_NONE && best > step) s = remove_best(run_dir, err); // also after a kill just here
    return s;
}

Status ckpt_restore_best(const char *run_dir, int64_t step, Err *err)
{
    int64_t now = -1;
    char dir[PATH_CAP];
    if (step < 0) return ERR_NONE;
    if (steps_best(run_dir, &now, NULL) == ERR_NONE && now == step) return ERR_NONE;
    TRY(steps_path(dir, run_dir, step, err));
    if (ckpt_verify(dir, false, NULL) != ERR_NONE) return ERR_NONE; // gone by retention
    return steps_set_best(run_dir, step, err);
}
