// clock.h -- time that only goes forward, for durations.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/compiler.h"

LT_C_BEGIN
double clock_seconds(void); // monotonic; only differences mean anything
LT_C_END
