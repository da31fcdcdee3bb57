// backend.h -- a device and the kernels that run on it, from the words a user gives.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/config/options.h"
#include "kernels/cpu/cpu.h"
#include "kernels/device.h"
#include "kernels/ops.h"

typedef struct Backend {
    Device device;
    Ops ops;
    CpuChoice cpu;    // on a GPU as well: what the host would run
    char no_gpu[256]; // device = auto took the CPU: why, if this build could have used a GPU
} Backend;

LT_C_BEGIN
// device: auto (the first GPU that serves, else the CPU), cpu, cuda (the first GPU), cuda:N;
// isa: see cpu_open; threads <= 0: one for each CPU. The caller closes it.
LT_MUST_CHECK Status backend_open(Backend *b, const char *device, const char *isa, int threads,
                                  Err *err);
// The same from --device, --cpu.isa, --threads, with every --ops.NAME=IMPL in force.
LT_MUST_CHECK Status backend_of_options(Backend *b, const Options *o, Err *err);
void backend_close(Backend *b); // also of a zeroed one
LT_C_END
