// steps.h -- the step folders of a run: their names, their order, the line in `best`.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/base/file.h"

typedef struct Steps { // numbers of the step folders, ascending
    int64_t *step;
    int n;
} Steps;

enum { STEPS_NAME_CAP = 40 };

LT_C_BEGIN
void steps_name(char out[STEPS_NAME_CAP], int64_t step); // "step-00001000"
bool steps_parse(const char *name, int64_t *step);       // false: not such a name
LT_MUST_CHECK Status steps_dir(char out[PATH_CAP], const char *run_dir,
                               Err *err); // RUN/checkpoints
LT_MUST_CHECK Status steps_path(char out[PATH_CAP], const char *run_dir, int64_t step, Err *err);
// Empty when the run has no checkpoints folder.
LT_MUST_CHECK Status steps_list(Steps *s, const char *run_dir, Err *err);
void steps_free(Steps *s);
// What `best` names; -1 when it is absent. A line that names no step is ERR_FORMAT.
LT_MUST_CHECK Status steps_best(const char *run_dir, int64_t *step, Err *err);
LT_MUST_CHECK Status steps_set_best(const char *run_dir, int64_t step, Err *err);
// Removes a folder of RUN/checkpoints (a step, or one that was set aside). It stops being one at
// once, by the name .tmp-old-NAME; its bytes go after that.
LT_MUST_CHECK Status steps_drop(const char *run_dir, const char *name, Err *err);
LT_C_END
