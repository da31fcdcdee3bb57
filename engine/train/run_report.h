// run_report.h -- what a run tells of a step and of an evaluation: on stdout and in metrics.jsonl.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/train/run_open.h"

LT_C_BEGIN
// took: seconds of this step; average: of the last ones.
void run_report_step(Run *r, const TrainStep *s, double took, double average);
// score: of a fine-tuning; else NULL.
void run_report_eval(Run *r, const TrainEval *e, const Score *score, double took, bool best);
// How the FP8 tensors fared since the last report. Due: is there one at this step?
bool run_report_fp8_due(const Run *r, int64_t step);
LT_MUST_CHECK Status run_report_fp8(Run *r, Err *err);
LT_C_END
