// clock.h -- time that only goes forward (for durations) and the date (for labels).
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/compiler.h"

LT_C_BEGIN
double clock_seconds(void);    // monotonic; only differences mean anything
void clock_date(char out[32]); // "2026-11-30T10:15:00Z"
LT_C_END
