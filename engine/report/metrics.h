// metrics.h -- metrics.jsonl: what a run did, one JSON object a line, for plots and for tests.
//
//     {"kind":"step","step":10,"loss":4.1257143,"lr":0.00055,...}
//     {"kind":"eval","step":250,"split":"val","loss":1.9873462,"targets":15360,...}
//     {"kind":"note","step":250,"text":"resumed from step-00000250"}
//
// Every line is written at once; a crash can cost the last line, never an older one. Lines that
// cannot be written (a full disk) wait in memory, 1 MiB of them, are tried again with each line
// that comes, and are in the file in their order as soon as there is room: a warning tells of the
// trouble, training goes on.
// A run that goes on from a checkpoint first cuts the file behind the last line that belongs to it
// (what an interrupted run wrote beyond it, a half line at the end), so that the file reads as if
// the run had never stopped.
//
// Numbers have the digits that read back to the same f32 (the loss of an evaluation: f64). JSON has
// no NaN or infinity: such a value is null, and "nonfinite":["loss", ...] names it.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/base/file.h"

typedef struct Metrics {
    int fd; // -1: closed
    char path[PATH_CAP];
    char *wait; // lines that are not in the file yet; the first may be there by half
    size_t wait_bytes;
    int64_t dropped; // lines that found no room in `wait`
    bool failing;    // the last write failed
} Metrics;

typedef struct MetricsPoint { // where a run goes on; all 0: a new run, nothing is kept
    int64_t step;             // lines of later steps go
    int64_t last_eval;        // evaluations of later steps go, too: they are made again
    int64_t skipped;          // steps skipped so far: their lines stay
} MetricsPoint;

typedef struct MetricsPart { // of a loss that is a sum: "loss_mlm", "accuracy_mlm"
    const char *name;        // "mlm"; NULL: there is none
    double loss;
    double accuracy; // of evaluations
} MetricsPart;

typedef struct MetricsRow { // one optimizer step
    int64_t step;           // counted from 1: the step that this row closes
    double loss;            // token mean over the step
    double lr;
    double grad_norm; // before clipping
    double seconds;   // this step took
    double tokens_per_second;
    double mfu;        // 0..1; < 0: not known, left out
    int64_t tokens;    // in the step; padding is none
    int64_t targets;   // of these, counted in the loss
    double loss_scale; // of fp16; 0: none, left out
    int64_t skipped;   // steps skipped since the start because a number was not finite
    bool skip;         // this one was
    int64_t sequences; // in the step; 0: not counted, left out
    MetricsPart part[2];
} MetricsRow;

typedef struct MetricsEval {
    int64_t step;
    const char *split; // "val" or "train"
    double loss;
    int64_t targets; // counted in the loss
    double seconds;
    bool best;         // the lowest validation loss so far
    int64_t sequences; // seen in training so far; 0: not counted, left out
    MetricsPart part[2];
    const char *fields; // more of them as JSON text, "\"f1\":0.9"; NULL: none
} MetricsEval;

LT_C_BEGIN
// Open for append, created when absent; lines beyond `from` are cut off.
LT_MUST_CHECK Status metrics_open(Metrics *m, const char *path, MetricsPoint from, Err *err);
void metrics_step(Metrics *m, const MetricsRow *row);
void metrics_eval(Metrics *m, const MetricsEval *row);
// A line of its own kind with fields of its own: `fields` is JSON text, each with a comma in front.
void metrics_fields(Metrics *m, const char *kind, int64_t step, const char *fields);
// Anything worth keeping that is not a number: a resume, a skipped tensor, a stop.
void metrics_note(Metrics *m, int64_t step, const char *text);
void metrics_close(Metrics *m); // also of a closed or zeroed-with-fd--1 one
LT_C_END
