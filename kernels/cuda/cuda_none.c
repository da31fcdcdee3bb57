// cuda_none.c -- cuda_open.h and cuda_clock.h in a build without CUDA.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_clock.h"
#include "kernels/cuda/cuda_open.h"

#include <stdio.h>

void cuda_find(CudaFound *out)
{
    *out = (CudaFound){.first = -1};
    snprintf(out->why, sizeof out->why, "this build of lathe has no CUDA kernels");
    snprintf(out->hint, sizeof out->hint, "configure it where nvcc is, with -DLATHE_CUDA=on");
}

Status cuda_open(Device *d, Ops *ops, const CudaFound *f, int index, Err *err)
{
    (void)d;
    (void)ops;
    const Status s = err_set(err, ERR_UNSUPPORTED, "cuda:%d: %s", index, f->why);
    err_hint(err, "%s", f->hint);
    return s;
}

void cuda_libraries(char *out, size_t size)
{
    if (size > 0) out[0] = '\0';
}

void cuda_close(Device *d)
{
    (void)d;
}

bool cuda_limits(const Device *d, CudaLimits *out)
{
    (void)d;
    *out = (CudaLimits){0};
    return false;
}

Status cuda_clock_open(CudaClock *c, Device *d, Err *err)
{
    *c = (CudaClock){0};
    return err_set(err, ERR_UNSUPPORTED, "%s: this build of lathe has no CUDA kernels", d->name);
}

Status cuda_clock_start(CudaClock *c, Device *d, Err *err)
{
    return cuda_clock_open(c, d, err);
}

Status cuda_clock_stop(CudaClock *c, Device *d, double *seconds, Err *err)
{
    *seconds = 0;
    return cuda_clock_open(c, d, err);
}

void cuda_clock_close(CudaClock *c)
{
    (void)c;
}
