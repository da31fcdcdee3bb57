// steps.c -- see steps.h.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/steps.h"

#include "engine/base/buf.h"
#include "engine/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prefix[] = "step-";

void steps_name(char out[STEPS_NAME_CAP], int64_t step)
{
    snprintf(out, STEPS_NAME_CAP, "%s%08" PRId64, prefix, step);
}

bool steps_parse(const char *name, int64_t *step)
{
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return false;
    const char *p = name + sizeof prefix - 1;
    int64_t v = 0;
    int n = 0;
    for (; p[n] >= '0' && p[n] <= '9'; n++) {
        if (n == 18) return false;
        v = v * 10 + (p[n] - '0');
    }
    if (!n || p[n]) return false;
    char again[STEPS_NAME_CAP];
    steps_name(again, v); // one spelling a step
    if (strcmp(again, name) != 0) return false;
    *step = v;
    return true;
}

Status steps_dir(char out[PATH_CAP], const char *run_dir, Err *err)
{
    return path_join(out, run_dir, "checkpoints", err);
}

Status steps_path(char out[PATH_CAP], const char *run_dir, int64_t step, Err *err)
{
    char dir[PATH_CAP], name[STEPS_NAME_CAP];
    TRY(steps_dir(dir, run_dir, err));
    steps_name(name, step);
    return path_join(out, dir, name, err);
}

static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

Status steps_list(Steps *s, const char *run_dir, Err *err)
{
    char dir[PATH_CAP];
    FileList l;
    *s = (Steps){0};
    TRY(steps_dir(dir, run_dir, err));
    if (!file_is_dir(dir)) return ERR_NONE;
    TRY(file_list(dir, &l, err));
    s->step = mem_calloc((size_t)l.n, sizeof *s->step);
    Status e =
        s->step ? ERR_NONE : mem_err(err, (size_t)l.n * sizeof *s->step, "the list of steps");
    for (int i = 0; i < l.n && e == ERR_NONE; i++)
        if (steps_parse(l.name[i], &s->step[s->n])) s->n++;
    file_list_free(&l);
    if (s->n) qsort(s->step, (size_t)s->n, sizeof *s->step, ascending);
    return e;
}

void steps_free(Steps *s)
{
    mem_free(s->step);
    *s = (Steps){0};
}

static Status best_path(char out[PATH_CAP], const char *run_dir, Err *err)
{
    char dir[PATH_CAP];
    TRY(steps_dir(dir, run_dir, err));
    return path_join(out, dir, "best", err);
}

Status steps_best(const char *run_dir, int64_t *step, Err *err)
{
    char path[PATH_CAP];
    *step = -1;
    TRY(best_path(path, run_dir, err));
    if (!file_exists(path)) return ERR_NONE;
    uint64_t bytes = 0;
    TRY(file_size(path, &bytes, err));
    Buf text = {0};
    Status s = bytes > 256 ? ERR_NONE : file_read(path, &text, err);
    bool good = false;
    if (s == ERR_NONE && text.data) {
        text.data[strcspn(text.data, "\n")] = 0;
        good = steps_parse(text.data, step);
    }
    if (s == ERR_NONE && !good) s = err_set(err, ERR_FORMAT, "%s: does not name a step", path);
    buf_free(&text);
    return s;
}

Status steps_set_best(const char *run_dir, int64_t step, Err *err)
{
    char path[PATH_CAP], line[STEPS_NAME_CAP + 1], name[STEPS_NAME_CAP];
    TRY(best_path(path, run_dir, err));
    steps_name(name, step);
    const int n = snprintf(line, sizeof line, "%s\n", name);
    return file_replace(path, line, (size_t)n, err);
}

Status steps_drop(const char *run_dir, const char *name, Err *err)
{
    char dir[PATH_CAP], from[PATH_CAP], to[PATH_CAP], tmp[STEPS_NAME_CAP + 32];
    TRY(steps_dir(dir, run_dir, err));
    snprintf(tmp, sizeof tmp, ".tmp-old-%s", name);
    TRY(path_join(from, dir, name, err));
    TRY(path_join(to, dir, tmp, err));
    TRY(file_remove_tree(to, err));
    TRY(file_rename(from, to, err));
    return file_remove_tree(to, err);
}
