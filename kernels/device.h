// device.h -- where tensors live: memory, copies, and the end of asynchronous work.
//
// The CPU device does everything at once and device_sync returns immediately. A GPU device queues
// copies and kernels in order on one stream; errors of queued work come out of device_sync and
// device_download. When device_upload returns, the host may change what it gave; when
// device_download returns, the bytes are there. device_download_later only queues, into memory from
// device_host_alloc, and the bytes are there after the next device_sync. To wait for a part of the
// queue only, device_mark remembers the point that it has reached, and device_wait waits until the
// device has passed it, while what was queued since goes on.
//
// What is queued between device_record and device_record_end is not run but becomes a graph, which
// device_replay queues as a whole: a GPU starts its kernels faster than the host could. Uploads and
// downloads do not belong into one. A device without graphs has no `record`.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "engine/base/err.h"

typedef struct Device Device;
typedef struct DeviceState DeviceState; // of the implementation
typedef struct DeviceGraph DeviceGraph; // of the implementation

typedef struct DeviceVtable {
    Status (*alloc)(Device *d, size_t bytes, void **out, Err *err); // zero filled, 128-byte aligned
    void (*free)(Device *d, void *p, size_t bytes);
    Status (*upload)(Device *d, void *dst, const void *host_src, size_t bytes, Err *err);
    Status (*download)(Device *d, void *host_dst, const void *src, size_t bytes, Err *err);
    Status (*copy)(Device *d, void *dst, const void *src, size_t bytes, Err *err);
    Status (*zero)(Device *d, void *dst, size_t bytes, Err *err);
    Status (*sync)(Device *d, Err *err);
    Status (*download_later)(Device *d, void *host_dst, const void *src, size_t bytes, Err *err);
    Status (*host_alloc)(Device *d, size_t bytes, void **out, Err *err); // zero filled, as alloc
    void (*host_free)(Device *d, void *p, size_t bytes);
    Status (*mark)(Device *d, int which, Err *err); // 0 or 1: there are two marks
    Status (*wait)(Device *d, int which, Err *err); // at once for one that was never set
    Status (*record)(Device *d, Err *err);          // NULL: no graphs
    Status (*record_end)(Device *d, DeviceGraph **out, Err *err);
    Status (*replay)(Device *d, DeviceGraph *g, Err *err);
    void (*graph_free)(Device *d, DeviceGraph *g);
} DeviceVtable;

struct Device {
    const DeviceVtable *v;
    bool is_host; // its memory can be read and written by plain loads and stores
    int index;    // cuda:index
    int threads;  // worker threads of the CPU device, and of what the host does for another one
    DeviceState *state; // of the implementation, shared by copies of this struct; NULL: none
    char name[128];
};

LT_C_BEGIN
void device_cpu_init(Device *d, int threads); // threads <= 0: one for each CPU we may run on
// Each worker thread stays on a CPU of its own, if there are as many threads as CPUs we may run on:
// with fewer, another program that does the same would take the same ones. The calling thread is
// not bound, for what it starts later (loaders, writers) would be too.
void device_cpu_pin(const Device *d);
LT_C_END

#define device_alloc(d, bytes, out, err)       ((d)->v->alloc((d), (bytes), (out), (err)))
#define device_free(d, p, bytes)               ((d)->v->free((d), (p), (bytes)))
#define device_upload(d, dst, src, bytes, err) ((d)->v->upload((d), (dst), (src), (bytes), (err)))
#define device_download(d, dst, src, bytes, err)                                                   \
    ((d)->v->download((d), (dst), (src), (bytes), (err)))
#define device_copy(d, dst, src, bytes, err) ((d)->v->copy((d), (dst), (src), (bytes), (err)))
#define device_zero(d, dst, bytes, err)      ((d)->v->zero((d), (dst), (bytes), (err)))
#define device_sync(d, err)                  ((d)->v->sync((d), (err)))
#define device_download_later(d, dst, src, bytes, err)                                             \
    ((d)->v->download_later((d), (dst), (src), (bytes), (err)))
#define device_host_alloc(d, bytes, out, err) ((d)->v->host_alloc((d), (bytes), (out), (err)))
#define device_host_free(d, p, bytes)         ((d)->v->host_free((d), (p), (bytes)))
#define device_mark(d, which, err)            ((d)->v->mark((d), (which), (err)))
#define device_wait(d, which, err)            ((d)->v->wait((d), (which), (err)))
#define device_record(d, err)                 ((d)->v->record((d), (err)))
#define device_record_end(d, out, err)        ((d)->v->record_end((d), (out), (err)))
#define device_replay(d, g, err)              ((d)->v->replay((d), (g), (err)))
#define device_graph_free(d, g)               ((d)->v->graph_free((d), (g)))
