// device_cpu.c -- see device.h. Every call finishes before it returns.
//
// SPDX-License-Identifier: MIT
#include "kernels/device.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>

static Status cpu_alloc(Device *d, size_t bytes, void **out, Err *err)
{
    (void)d;
    *out = mem_map(bytes);
    return *out ? ERR_NONE : mem_err(err, bytes, "tensors");
}

static void cpu_free(Device *d, void *p, size_t bytes)
{
    (void)d;
    mem_unmap(p, bytes);
}

static Status cpu_copy_in(Device *d, void *dst, const void *src, size_t bytes, Err *err)
{
    (void)d;
    (void)err;
    if (bytes) memmove(dst, src, bytes);
    return ERR_NONE;
}

static Status cpu_zero(Device *d, void *dst, size_t bytes, Err *err)
{
    (void)d;
    (void)err;
    if (bytes) memset(dst, 0, bytes);
    return ERR_NONE;
}

static Status cpu_sync(Device *d, Err *err)
{
    (void)d;
    (void)err;
    return ERR_NONE;
}

static Status cpu_mark(Device *d, int which, Err *err)
{
    (void)d;
    (void)which;
    (void)err;
    return ERR_NONE;
}

void device_cpu_init(Device *d, int threads)
{
    static const DeviceVtable cpu = {.alloc = cpu_alloc,
                                     .free = cpu_free,
                                     .upload = cpu_copy_in,
                                     .download = cpu_copy_in,
                                     .copy = cpu_copy_in,
                                     .zero = cpu_zero,
                                     .sync = cpu_sync,
                                     .download_later = cpu_copy_in,
                                     .host_alloc = cpu_alloc,
                                     .host_free = cpu_free,
                                     .mark = cpu_mark,
                                     .wait = cpu_mark};
    *d = (Device){.v = &cpu, .is_host = true, .index = -1};
    // The runtime looked before it bound this thread, if the user told it to.
    d->threads = threads > 0 ? threads : omp_get_num_procs();
    snprintf(d->name, sizeof d->name, "cpu");
}

void device_cpu_pin(const Device *d)
{
    if (d->threads != thread_cpus()) return;
#pragma omp parallel num_threads(d->threads)
    if (omp_get_thread_num() > 0) thread_pin(omp_get_thread_num());
}
