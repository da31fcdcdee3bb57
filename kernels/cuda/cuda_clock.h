// cuda_clock.h -- how long queued work takes on a CUDA device, and what the device does at best.
//
// Times come from events on the device's stream: the host's own work does not count, unless the
// stream runs dry while the host queues. Limits are computed from what the driver tells (clocks,
// processors, memory bus), so they are those of the very device, at its highest clocks, which a
// device seldom holds under load.
//
// This header needs no CUDA; in a build without CUDA cuda_none.c says that there is no such device.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "engine/base/err.h"
#include "kernels/device.h"

typedef struct CudaLimits {
    int sm_count, cc;
    double clock_hz;         // of the SMs, highest
    double bytes_per_second; // of memory
    size_t l2_bytes;
    double flops_f32;  // a second: FMA units
    double flops_half; // a second: tensor cores, bf16 or f16 with f32 sums; 0: not known
} CudaLimits;

typedef struct CudaClock {
    struct CUevent_st *from, *to;
} CudaClock;

LT_C_BEGIN
bool cuda_limits(const Device *d, CudaLimits *out); // false: no CUDA device, or it does not tell
LT_MUST_CHECK Status cuda_clock_open(CudaClock *c, Device *d, Err *err);
// What is queued between the two counts. stop waits for it.
LT_MUST_CHECK Status cuda_clock_start(CudaClock *c, Device *d, Err *err);
LT_MUST_CHECK Status cuda_clock_stop(CudaClock *c, Device *d, double *seconds, Err *err);
void cuda_clock_close(CudaClock *c); // also of a zeroed one
LT_C_END
