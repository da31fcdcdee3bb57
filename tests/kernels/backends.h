// backends.h -- the op tables that the matrix test puts to the test: one a CPU instruction set today,
// one a GPU when there is a GPU backend. A new backend is one more row in a backends_*.c.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/device.h"
#include "kernels/ops.h"

typedef struct OpBackend {
    char   name[32];
    Device device;
    Ops    ops; // ref and what the backend adds
} OpBackend;

int  op_backend_count(void);
bool op_backend_open(int i, OpBackend *out, char why[512]);
