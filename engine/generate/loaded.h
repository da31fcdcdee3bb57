// loaded.h -- a model read for use: its folder, configuration, and weights in memory.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/file.h"
#include "engine/model/backend.h"
#include "engine/model/model_hf.h"
#include "engine/model/params.h"
#include "engine/model/precision.h"

typedef struct Loaded {
    char dir[PATH_CAP]; // the folder that was read
    int64_t step;       // of a run's checkpoint, -1: a foreign folder
    HfConfig hf;
    ModelConfig c;
    Precision prec;
    ParamSet params;
    void *weights; // flat, prec.param
    size_t bytes;
    Device *device; // borrowed
} Loaded;

LT_C_BEGIN
// path, which: see ckpt_find. precision "auto": what the folder was saved with (f16 as fp32).
LT_MUST_CHECK Status loaded_open(Loaded *m, const char *path, const char *which,
                                 const char *precision, Device *device, Err *err);
void loaded_close(Loaded *m); // also of a zeroed one
LT_C_END
