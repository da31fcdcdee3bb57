// stop.h -- SIGINT and SIGTERM as a question the loop asks: "was I told to stop?"
//
// A second signal while the first is being served ends the program at once, by the signal's
// default action. SIGPIPE is ignored, so that a closed pipe is an error of write() only.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/compiler.h"

LT_C_BEGIN
void stop_install(void);  // once, in main
int stop_requested(void); // 0, or the number of the signal
LT_C_END
