// run_mllog.h -- what a benchmark run tells, and when: MLPerf training 3.0, BERT.
//
//     init_start ... init_stop, run_start      the process began, kernels opened | the data touched
//     what the run is                          batch, optimizer, seed, samples
//     block_start ... block_stop               the steps between two evaluations
//     eval_start eval_accuracy eval_stop       epoch_num: sequences trained on so far
//     run_stop                                 success: the target accuracy was reached
//
// The clock starts before anything of the data is read, and never rests: memory, weights, kernels
// that are chosen in the first steps, and evaluations are in the time of the run.
//
// Without --mllog every call does nothing.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/train/run_open.h"

LT_C_BEGIN
LT_MUST_CHECK Status run_mllog_open(Run *r, Err *err); // everything up to the first step
void run_mllog_block(Run *r);                          // steps begin; nothing when they have
void run_mllog_eval_start(Run *r);
void run_mllog_eval_stop(Run *r, double accuracy);
void run_mllog_stop(Run *r, bool success);
LT_C_END
