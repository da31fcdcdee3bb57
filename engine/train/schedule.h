// schedule.h -- the learning rate as a function of the step.
//
// With s = 0, 1, ... counting optimizer steps, w = warmup, e = the step at which the end is
// reached:
//
//     s < w       peak (s + 1) / (w + 1)              linear warm-up; s == w has the peak
//     cosine      end + (peak - end) (1 + cos(pi u)) / 2,   u = (s - w) / (e - 1 - w)
//     linear      peak + (end - peak) u
//     poly        end + (peak - end) (1 - u)^power;    power 1 is linear
//     constant    peak
//     wsd         peak until step e - d, then linear to end over the last d steps
//                 (warm-up, stable, decay: Hu et al. 2024)
//
// Step e - 1, the last one, has exactly `end` (constant: the peak), and so has every later one.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/err.h"

typedef enum ScheduleKind {
    SCHEDULE_COSINE = 0,
    SCHEDULE_LINEAR,
    SCHEDULE_CONSTANT,
    SCHEDULE_WSD,
    SCHEDULE_POLY
} ScheduleKind;

typedef struct Schedule {
    ScheduleKind kind;
    double peak, end;
    int64_t warmup, end_step; // w, e
    int64_t decay;            // d, wsd only
    double power;             // poly only; schedule_init makes it 1
} Schedule;

LT_C_BEGIN
// decay_steps: as the option says; 0 chooses.
LT_MUST_CHECK Status schedule_init(Schedule *s, const char *kind, double peak, double end,
                                   int64_t warmup, int64_t max_steps, int64_t decay_steps,
                                   Err *err);
double schedule_at(const Schedule *s, int64_t step);
LT_C_END
