// cuda_none.c -- cuda_open.h in a build without CUDA.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_open.h"

#include <stdio.h>

void cuda_find(CudaFound *out)
{
    *out = (CudaFound){.first = -1};
    snprintf(out->why, sizeof out->why, "this build of lathe has no CUDA kernels");
    snprintf(out->hint, sizeof out->hint, "configure it where nvcc is, with -DLATHE_CUDA=on");
}

Status cuda_open(Device *d, Ops *ops, int index, Err *err)
{
    CudaFound found;
    (void)d;
    (void)ops;
    cuda_find(&found);
    const Status s = err_set(err, ERR_UNSUPPORTED, "cuda:%d: %s", index, found.why);
    err_hint(err, "%s", found.hint);
    return s;
}

void cuda_close(Device *d)
{
    (void)d;
}
