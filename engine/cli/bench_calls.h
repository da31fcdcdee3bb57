// bench_calls.h -- tensors and times of `lathe bench`, on the CPU or on a GPU.
//
// Tensors. The host fills an image of the memory that the calls will use; on a GPU the image is
// then sent there, and the calls get addresses at the same places of the device's memory.
//
// Times. On the CPU each call is timed by the clock. On a GPU events on the stream time batches of
// calls, long enough that the clock's own step and the queueing of the first call do not show.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stddef.h>
#include "engine/base/err.h"
#include "engine/cli/op_call.h"
#include "kernels/device.h"

typedef struct BenchMemory {
    Device *device, host;
    char *memory; // the device's
    char *image;  // the host's; the same as memory where the host can write that
    size_t bytes;
} BenchMemory;

typedef struct BenchTime {
    int times;            // calls or batches that were timed
    double seconds, best; // of one call: median, fastest
} BenchTime;

LT_C_BEGIN
// At least `bytes`, as numbers: small, positive, with all mantissas, in bf16 and in f32.
LT_MUST_CHECK Status bench_memory_fill(BenchMemory *m, size_t bytes, Err *err);
LT_MUST_CHECK Status bench_memory_send(BenchMemory *m, size_t bytes, Err *err); // image to device
void bench_memory_free(BenchMemory *m);
LT_MUST_CHECK Status bench_time(OpId id, OpCtx *cx, const OpArgs *a, BenchTime *out, Err *err);
LT_C_END
