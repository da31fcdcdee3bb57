// std_streams.h -- standard input, output and error are never somebody else's file.
//
// A program may be started with one of them closed (`lathe train ... >&-`). The next file it opens
// would then get that number, and a line meant for the terminal would be written into a checkpoint.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/compiler.h"

LT_C_BEGIN
// First thing in main: a closed one becomes a file that can be neither read (input) nor written
// (output), so that using it is the error it was.
void std_streams_hold(void);
LT_C_END
