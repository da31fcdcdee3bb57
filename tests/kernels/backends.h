// backends.h -- the op tables that the matrix test puts to the test: one a CPU instruction set today,
// one a GPU when there is a GPU backend. A new backend is one more row in a backends_*.c.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/device.h"
#include "kernels/ops.h"

typedef struct Backend {
    char   name[32];
    Device device;
    Ops    ops; // ref and what the backend adds
} Backend;

int  backend_count(void);
bool backend_open(int i, Backend *out, char why[512]);
