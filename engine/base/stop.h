// stop.h -- being told to stop, as a question the loop asks: "was I?"
//
//     SIGINT    Ctrl-C                        SIGHUP    the terminal was closed
//     SIGTERM   kill, batch systems           SIGXCPU   the limit of CPU time is near
//
// Any of them asks for a save and an end; any number of them asks once (batch systems and `timeout`
// send theirs twice). Only Ctrl-C pressed again, half a second later or more, ends the program at
// once, by the signal's default action. A signal that was ignored when the program started stays
// ignored (nohup, a shell's background jobs). A command that does not ask leaves them all alone:
// they end it.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/compiler.h"

LT_C_BEGIN
void stop_install(void);           // for what asks stop_requested
int stop_requested(void);          // 0, or the number of the first signal
const char *stop_name(int number); // "SIGTERM"
void stop_ignore_file_limit(void); // SIGXFSZ: a file at its size limit is an error of write()
void stop_ignore_pipe(void);       // SIGPIPE: a closed pipe is an error of write()
LT_C_END
