// backends_ref.c -- no backend but the reference itself.
//
// SPDX-License-Identifier: MIT
#include "tests/kernels/backends.h"

#include <stdio.h>

int backend_count(void) { return 1; }

bool backend_open(int i, Backend *out, char why[512])
{
    (void)i;
    (void)why;
    snprintf(out->name, sizeof out->name, "ref");
    device_cpu_init(&out->device, 1);
    ops_init(&out->ops);
    return true;
}
