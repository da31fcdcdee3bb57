// backend.c -- see backend.h.
//
// SPDX-License-Identifier: MIT
#include "engine/model/backend.h"
#include "engine/base/log.h"
#include "kernels/cuda/cuda_open.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Status open_cpu(Backend *b, const char *isa, int threads, Err *err)
{
    device_cpu_init(&b->device, threads);
    ops_init(&b->ops);
    return cpu_open(&b->ops, isa, &b->cpu, err);
}

// The host's own kernels are not chosen: nothing of a run depends on them.
static Status open_gpu(Backend *b, const CudaFound *f, int index, const char *isa, int threads,
                       Err *err)
{
    device_cpu_init(&b->device, threads); // counts the CPUs
    TRY(cuda_open(&b->device, &b->ops, f, index, err));
    snprintf(b->cpu.isa, sizeof b->cpu.isa, "%s", isa);
    return ERR_NONE;
}

static Status no_gpu(const CudaFound *f, Err *err)
{
    const Status s =
        err_set(err, f->built ? ERR_DEVICE : ERR_UNSUPPORTED, "device = cuda: %s", f->why);
    err_hint(err, "%s", f->hint[0] ? f->hint : "--device=cpu runs without a GPU");
    return s;
}

// auto, and no GPU serves: the CPU, and a line when that may surprise.
static Status open_cpu_instead(Backend *b, const CudaFound *f, const char *isa, int threads,
                               Err *err)
{
    if (f->built) snprintf(b->no_gpu, sizeof b->no_gpu, "%s", f->why);
    if (f->surprise) log_warn("running on the CPU: %s", f->why);
    return open_cpu(b, isa, threads, err);
}

// N of cuda:N, or -1.
static int gpu_index(const char *device)
{
    static const char prefix[] = "cuda:";
    const size_t n = sizeof prefix - 1;
    if (strncmp(device, prefix, n) != 0) return -1;
    const size_t digits = strspn(device + n, "0123456789");
    return digits >= 1 && digits <= 4 && !device[n + digits] ? atoi(device + n) : -1;
}

Status backend_open(Backend *b, const char *device, const char *isa, int threads, Err *err)
{
    *b = (Backend){0};
    if (strcmp(device, "cpu") == 0) return open_cpu(b, isa, threads, err);
    const int index = gpu_index(device);
    const bool best = strcmp(device, "auto") == 0;
    if (index < 0 && !best && strcmp(device, "cuda") != 0) {
        const Status st = err_set(err, ERR_USAGE, "device = %s: there is no such device", device);
        err_hint(err, "device = auto, cpu, cuda or cuda:N");
        return st;
    }
    CudaFound found;
    cuda_find(&found);
    if (index >= 0) return open_gpu(b, &found, index, isa, threads, err);
    if (found.first >= 0) return open_gpu(b, &found, found.first, isa, threads, err);
    return best ? open_cpu_instead(b, &found, isa, threads, err) : no_gpu(&found, err);
}

static Status force_ops(Backend *b, const Options *o, Err *err)
{
    for (int i = 0; i < o->n_ops; i++) TRY(ops_force(&b->ops, o->ops[i].name, o->ops[i].impl, err));
    return ERR_NONE;
}

Status backend_of_options(Backend *b, const Options *o, Err *err)
{
    TRY(backend_open(b, o->device, o->cpu_isa, (int)o->threads, err));
    if (strcmp(o->cpu_pin, "auto") == 0 && b->device.is_host) device_cpu_pin(&b->device);
    const Status s = force_ops(b, o, err);
    if (s != ERR_NONE) backend_close(b);
    return s;
}

void backend_close(Backend *b)
{
    cuda_close(&b->device);
    *b = (Backend){0};
}
