// bench_calls.c -- see bench_calls.h.
//
// SPDX-License-Identifier: MIT
#include "engine/cli/bench_calls.h"
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "kernels/cuda/cuda_clock.h"

#include <stdlib.h>

enum { TIMES_MIN = 5, TIMES_MAX = 2000 };
static const double SECONDS = 0.1;         // of one row, at least
static const double BATCH_SECONDS = 0.001; // of one batch on a GPU, at least

// ---- memory ----

void bench_memory_free(BenchMemory *m)
{
    if (m->image && m->image != m->memory) device_free(&m->host, m->image, m->bytes);
    if (m->memory) device_free(m->device, m->memory, m->bytes);
    *m = (BenchMemory){.device = m->device};
}

static Status grow(BenchMemory *m, size_t bytes, Err *err)
{
    if (bytes <= m->bytes) return ERR_NONE;
    bench_memory_free(m);
    void *p;
    TRY(device_alloc(m->device, bytes, &p, err));
    m->memory = m->image = p;
    m->bytes = bytes;
    if (m->device->is_host) return ERR_NONE;
    m->image = NULL;
    device_cpu_init(&m->host, m->device->threads);
    TRY(device_alloc(&m->host, bytes, &p, err));
    m->image = p;
    return ERR_NONE;
}

Status bench_memory_fill(BenchMemory *m, size_t bytes, Err *err)
{
    TRY(grow(m, bytes, err));
    uint16_t *x = (uint16_t *)(void *)m->image;
    const int64_t n = (int64_t)(bytes / 2);
#pragma omp parallel for num_threads(m->device->threads) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const uint32_t h = (uint32_t)i * 2654435761u;
        x[i] = (uint16_t)(0x3c00 | ((h >> 16) & 0xff)); // 2^-7 to 2^-5
    }
    return ERR_NONE;
}

Status bench_memory_send(BenchMemory *m, size_t bytes, Err *err)
{
    return m->image == m->memory ? ERR_NONE
                                 : device_upload(m->device, m->memory, m->image, bytes, err);
}

// ---- times ----

typedef struct Clock {
    CudaClock gpu;
    bool events;
    double start;
} Clock;

static Status clock_start(Clock *c, Device *d, Err *err)
{
    if (c->events) return cuda_clock_start(&c->gpu, d, err);
    c->start = clock_seconds();
    return ERR_NONE;
}

static Status clock_stop(Clock *c, Device *d, double *seconds, Err *err)
{
    if (c->events) return cuda_clock_stop(&c->gpu, d, seconds, err);
    *seconds = clock_seconds() - c->start;
    return ERR_NONE;
}

static Status batch(OpId id, OpCtx *cx, const OpArgs *a, Clock *c, int calls, double *seconds,
                    Err *err)
{
    TRY(clock_start(c, cx->device, err));
    for (int i = 0; i < calls; i++) TRY(op_call_run(id, cx, a, err));
    TRY(clock_stop(c, cx->device, seconds, err));
    return ERR_NONE;
}

// How many calls make a batch.
static Status batch_size(OpId id, OpCtx *cx, const OpArgs *a, Clock *c, int *calls, Err *err)
{
    *calls = 1;
    for (double seconds = 0; c->events && *calls < 1024; *calls *= 2) {
        TRY(batch(id, cx, a, c, *calls, &seconds, err));
        if (seconds >= BATCH_SECONDS) return ERR_NONE;
    }
    return ERR_NONE;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static Status time_batches(OpId id, OpCtx *cx, const OpArgs *a, Clock *c, double *times,
                           BenchTime *out, Err *err)
{
    int calls, n = 0;
    double all = 0, seconds;
    TRY(op_call_run(id, cx, a, err)); // wakes the threads, fills the caches
    TRY(device_sync(cx->device, err));
    TRY(batch_size(id, cx, a, c, &calls, err));
    while (n < TIMES_MIN || (n < TIMES_MAX && all < SECONDS)) {
        TRY(batch(id, cx, a, c, calls, &seconds, err));
        all += seconds;
        times[n++] = seconds / calls;
    }
    qsort(times, (size_t)n, sizeof times[0], by_size);
    out->times = n;
    out->seconds = n % 2 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
    out->best = times[0];
    return ERR_NONE;
}

Status bench_time(OpId id, OpCtx *cx, const OpArgs *a, BenchTime *out, Err *err)
{
    Clock c = {.events = !cx->device->is_host};
    double *times = mem_alloc(TIMES_MAX * sizeof *times);
    if (!times) return mem_err(err, TIMES_MAX * sizeof *times, "the times");
    Status s = c.events ? cuda_clock_open(&c.gpu, cx->device, err) : ERR_NONE;
    if (s == ERR_NONE) s = time_batches(id, cx, a, &c, times, out, err);
    if (c.events) cuda_clock_close(&c.gpu);
    mem_free(times);
    return s;
}
