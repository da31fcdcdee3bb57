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
    CpuChoice cpu;
} Backend;

LT_C_BEGIN
// device: auto, cpu (cuda, cuda:N: ERR_UNSUPPORTED in a build without it); isa: see cpu_open;
// threads <= 0: one for each CPU. Nothing to close.
LT_MUST_CHECK Status backend_open(Backend *b, const char *device, const char *isa, int threads,
                                  Err *err);
// The same from --device, --cpu.isa, --threads, with every --ops.NAME=IMPL in force.
LT_MUST_CHECK Status backend_of_options(Backend *b, const Options *o, Err *err);
LT_C_END
