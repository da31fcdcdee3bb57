// run_open.h -- what a run holds open, and opening it: folder, lock, data, model, memory, weights.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/model/backend.h"
#include "engine/report/metrics.h"
#include "engine/report/mllog.h"
#include "engine/train/finetune.h"
#include "engine/train/run_folder.h"
#include "engine/train/run_state.h"
#include "engine/train/train_setup.h"

typedef struct RunSave { // a save that was started
    int64_t step;        // -1: none
    bool best;
    double loss, score; // of that best
} RunSave;

typedef struct Run {
    Options *o; // borrowed
    RunFolder folder;
    Backend backend;
    Stream *train, *val; // val NULL: no evaluation
    StreamInfo info;     // of the training split
    Finetune finetune;   // zeroed: the run is none
    TrainSetup setup;
    Trainer trainer;
    RunState state;
    RunSaver saver;
    RunSave pending;    // its outcome is not known yet
    RunSave kept;       // the best step that is saved
    RunSave lost;       // the best step whose save failed last
    int64_t saved_step; // the newest that is saved, -1: none
    double retry_at;    // clock at which a lost save is tried again, 0: none was lost
    Metrics metrics;
    bool metrics_stale;          // its file is in a folder that is gone
    char resumed_from[PATH_CAP]; // "" for a run that starts
    char init_dir[PATH_CAP];     // the model folder that init_from names; "" for none
    double opened;               // clock at the start of the process's work, for max_seconds
    double peak;                 // FLOP/s: the MFU's denominator
    int64_t step_sequences;      // BERT: of a step, on average
    int64_t eval_sequences;      // evaluation is due each time so many were seen; 0: by steps
    const char *part[2];         // names of the losses of rows and of sequences; NULL: none
    MlLog mllog;                 // of a benchmark run; closed without
    int64_t init_ms, start_ms;   // when this process began, and when it touched the data
    bool in_block;               // mllog: steps between two evaluations are told of
    int64_t block_sequences;     // mllog: sequences at its start
} Run;

LT_C_BEGIN
LT_MUST_CHECK Status run_open(Run *r, Options *o, Err *err); // closes what it opened on failure
void run_close(Run *r);
// Lines of steps that the state does not have are cut. On failure the file that was open stays.
LT_MUST_CHECK Status run_open_metrics(Run *r, Err *err);
LT_C_END
