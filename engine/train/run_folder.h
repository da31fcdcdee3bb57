// run_folder.h -- the folder of a run is one process's: taken at the start, and seen to be there at
// each save.
//
// The lock is held on RUN/lock and ends with the process, however that ends; the file stays. A
// folder that is removed or moved away under a run is made again by the next save, with config.ini
// and its lock, so that what is saved in it is a run. When another run has taken the name by then,
// the folder is left to it: saving is an error that says so.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include "engine/base/file.h"
#include "engine/config/options.h"

typedef struct RunFolder {
    const char *path; // borrowed from the options
    FileLock lock;
    bool made; // by us, and it holds no run yet
} RunFolder;

LT_C_BEGIN
// Make the folder if it is not there, and lock it. ERR_USAGE when another process holds it.
LT_MUST_CHECK Status run_folder_open(RunFolder *f, const char *path, Err *err);
// The options, as config.ini: from here on it holds a run.
LT_MUST_CHECK Status run_folder_config(RunFolder *f, const Options *o, Err *err);
// Is the folder still ours? *again: it is a new one; what was open in the old one must be opened
// again.
LT_MUST_CHECK Status run_folder_hold(RunFolder *f, const Options *o, bool *again, Err *err);
// Gives the lock back; a folder that was made for a run that was refused is removed. Also of a
// zeroed one with lock.fd -1.
void run_folder_close(RunFolder *f);
LT_C_END
