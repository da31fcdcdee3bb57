// run_open.h -- what a run holds open, and opening it: folder, lock, data, model, memory, weights.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/file.h"
#include "engine/model/backend.h"
#include "engine/report/metrics.h"
#include "engine/train/run_state.h"
#include "engine/train/train_setup.h"

typedef struct Run {
    Options *o; // borrowed
    FileLock lock;
    Backend backend;
    Stream *train, *val; // val NULL: no evaluation
    StreamInfo info;     // of the training split
    TrainSetup setup;
    Trainer trainer;
    RunState state;
    RunSaver saver;
    Metrics metrics;
    char resumed_from[PATH_CAP]; // "" for a run that starts
    char init_dir[PATH_CAP];     // the model folder that init_from names; "" for none
    bool made;                   // the run's folder was made by us and holds no run yet
    double opened;               // clock at the start of the process's work, for max_seconds
    double peak;                 // FLOP/s: the MFU's denominator
} Run;

LT_C_BEGIN
LT_MUST_CHECK Status run_open(Run *r, Options *o, Err *err); // closes what it opened on failure
void run_close(Run *r);
LT_C_END
