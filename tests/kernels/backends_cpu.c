// backends_cpu.c -- the reference, then every instruction set that this machine can run.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/cpu.h"
#include "tests/kernels/backends.h"

#include <stdio.h>

int op_backend_count(void)
{
    const char *names[8];
    return 1 + cpu_list(names);
}

bool op_backend_open(int i, OpBackend *out, char why[512])
{
    const char *names[8] = {"ref"};
    device_cpu_init(&out->device, 2);
    ops_init(&out->ops);
    if (i == 0) {
        snprintf(out->name, sizeof out->name, "ref");
        return true;
    }
    const int n = cpu_list(names);
    Err       err;
    CpuChoice choice;
    if (i - 1 >= n) return false;
    snprintf(out->name, sizeof out->name, "%s", names[i - 1]);
    if (cpu_open(&out->ops, names[i - 1], &choice, &err) == ERR_NONE) return true;
    snprintf(why, 512, "%.500s", err.text);
    return false;
}
