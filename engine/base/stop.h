// stop.h -- SIGINT and SIGTERM as a question the loop asks: "was I told to stop?"
//
// A second signal while the first is being served ends the program at once, by the signal's
// default action. A command that does not ask leaves both signals as they are: they end it.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/compiler.h"

LT_C_BEGIN
void stop_pipe(void);     // SIGPIPE is ignored: a closed pipe is an error of write() only
void stop_install(void);  // for what asks stop_requested
int stop_requested(void); // 0, or the number of the signal
LT_C_END
