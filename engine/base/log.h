// log.h -- lines for people: notes on stdout, warnings on stderr, and one live line on a terminal.
//
// A live line is overwritten by the next one; log_live_end keeps it. A write that fails (a closed
// pipe) is told once on stderr, else ignored: a lost progress line never stops a run.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include "engine/base/compiler.h"

LT_C_BEGIN
void log_note(const char *fmt, ...) LT_PRINTF(1, 2); // one line on stdout, flushed
void log_warn(const char *fmt, ...) LT_PRINTF(1, 2); // "lathe: warning: ..." on stderr
void log_live(const char *text);                     // replaces the live line (terminal only)
void log_live_end(void);                             // the next output starts on a new line
bool log_is_terminal(void);                          // is stdout one?
int log_columns(int fd); // width of the terminal behind fd, now: it may be resized; 80 when unknown
LT_C_END
