// backends.h -- the op tables that the matrix test goes through: the reference, then one for each
// CPU instruction set. Another device is one more file of these two functions.
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
