// run.h -- a training run from its options to its last checkpoint.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/config/options.h"

LT_C_BEGIN
// Start or go on with the run in o->run. ERR_STOPPED after a signal or max_seconds (a checkpoint
// was saved, unless saving is off), ERR_DIVERGED when too many steps in a row were not finite.
LT_MUST_CHECK Status train_run(Options *o, Err *err);
LT_C_END
