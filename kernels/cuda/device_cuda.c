// device_cuda.c -- see device_cuda.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/device_cuda.h"
#include "engine/base/mem.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/cudnn_attention.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STAGE_BYTES = 4 << 20, // of each of the two pinned buffers
    QUEUED_MAX = 48,       // different (op, implementation) pairs
};

typedef struct Queued {
    const char *op, *impl;
    int64_t times;     // since the last wait
    int64_t marked[2]; // of these, before the mark
} Queued;

struct DeviceState {
    CudaDevice cuda;
    CudaLibraries libraries;
    bool sync_each; // LATHE_SYNC=1
    Queued queued[QUEUED_MAX];
    int n_queued;
    char *stage[2];      // pinned
    cudaEvent_t read[2]; // the GPU has read what was in it
    int side;            // the buffer being filled
    size_t filled;       // bytes of it
    cudaEvent_t mark[2]; // of device_mark
};

const CudaDevice *device_cuda_of(const Device *d)
{
    return &d->state->cuda;
}

CudaLibraries *device_cuda_libraries(Device *d)
{
    return &d->state->libraries;
}

// ---- errors -----------------------------------------------------------------------------------

// "matmul (cuda) x12, cast (cuda)": what may have gone wrong.
static void list_queued(const DeviceState *s, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < s->n_queued && used < size - 1; i++) {
        const Queued *q = &s->queued[i];
        char times[24] = "";
        if (q->times > 1) snprintf(times, sizeof times, " x%lld", (long long)q->times);
        const int n =
            snprintf(out + used, size - used, "%s%s (%s)%s", i ? ", " : "", q->op, q->impl, times);
        used += n > 0 ? (size_t)n : 0;
    }
}

// An error of the runtime while `doing` something; of queued work, if any is waiting.
static Status cuda_err(Device *d, cudaError_t e, const char *doing, Err *err)
{
    DeviceState *s = d->state;
    char ops[1024];
    (void)cudaGetLastError();
    list_queued(s, ops, sizeof ops);
    const Status st = err_set(err, ERR_DEVICE, "%s: %s (%s) while %s", d->name,
                              cudaGetErrorString(e), cudaGetErrorName(e), doing);
    if (s->n_queued == 0) return st;
    const bool one = s->n_queued == 1 && s->queued[0].times == 1;
    const Status told = err_add(err, st, "%s: %s", one ? "the op" : "one of the ops", ops);
    if (!one) err_hint(err, "LATHE_SYNC=1 in the environment waits for each op and names the one");
    return told;
}

static Status wait_for_all(Device *d, const char *doing, Err *err)
{
    const cudaError_t e = cudaStreamSynchronize(d->state->cuda.stream);
    if (e != cudaSuccess) return cuda_err(d, e, doing, err);
    d->state->n_queued = 0;
    d->state->filled = 0; // what was staged has been read
    return ERR_NONE;
}

Status device_cuda_queued(Device *d, const char *op, const char *impl, int code, Err *err)
{
    DeviceState *s = d->state;
    if (code != cudaSuccess) {
        char doing[128];
        snprintf(doing, sizeof doing, "starting %s (%s)", op, impl);
        return cuda_err(d, (cudaError_t)code, doing, err);
    }
    int i = 0;
    while (i < s->n_queued && (strcmp(s->queued[i].op, op) != 0 || s->queued[i].impl != impl)) i++;
    if (i == s->n_queued && i < QUEUED_MAX)
        s->queued[s->n_queued++] = (Queued){.op = op, .impl = impl};
    if (i < QUEUED_MAX) s->queued[i].times++;
    return s->sync_each ? wait_for_all(d, "running one op", err) : ERR_NONE;
}

// ---- the vtable -------------------------------------------------------------------------------

static Status cuda_zero(Device *d, void *dst, size_t bytes, Err *err)
{
    const cudaError_t e =
        bytes ? cudaMemsetAsync(dst, 0, bytes, d->state->cuda.stream) : cudaSuccess;
    return e == cudaSuccess ? ERR_NONE : cuda_err(d, e, "clearing memory", err);
}

static Status no_memory(Device *d, size_t bytes, Err *err)
{
    const double mb = 1.0 / (1 << 20);
    size_t free_bytes = 0, total = 0;
    (void)cudaGetLastError();
    if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess) free_bytes = total = 0;
    return err_set(err, ERR_NOMEM, "%s: no memory for %.0f MB of tensors; %.0f of %.0f MB are free",
                   d->name, (double)bytes * mb, (double)free_bytes * mb, (double)total * mb);
}

static Status cuda_alloc(Device *d, size_t bytes, void **out, Err *err)
{
    *out = NULL;
    const cudaError_t e = cudaMalloc(out, LT_MAX(bytes, 1));
    if (e == cudaErrorMemoryAllocation) return no_memory(d, bytes, err);
    if (e != cudaSuccess) return cuda_err(d, e, "taking memory", err);
    const Status s = cuda_zero(d, *out, bytes, err);
    if (s == ERR_NONE) return ERR_NONE;
    (void)cudaFree(*out);
    *out = NULL;
    return s;
}

static void cuda_free(Device *d, void *p, size_t bytes)
{
    (void)d;
    (void)bytes;
    (void)cudaFree(p);
}

// The next buffer, once the GPU has read what it held.
static cudaError_t turn_stage(DeviceState *s)
{
    cudaError_t e = cudaEventRecord(s->read[s->side], s->cuda.stream);
    s->side = 1 - s->side;
    s->filled = 0;
    if (e == cudaSuccess) e = cudaEventSynchronize(s->read[s->side]);
    return e;
}

static Status cuda_upload(Device *d, void *dst, const void *src, size_t bytes, Err *err)
{
    DeviceState *s = d->state;
    cudaError_t e = cudaSuccess;
    for (size_t done = 0; done < bytes && e == cudaSuccess;) {
        if (s->filled == STAGE_BYTES) e = turn_stage(s);
        if (e != cudaSuccess) break;
        const size_t n = LT_MIN(bytes - done, STAGE_BYTES - s->filled);
        char *at = s->stage[s->side] + s->filled;
        memcpy(at, (const char *)src + done, n);
        e = cudaMemcpyAsync((char *)dst + done, at, n, cudaMemcpyHostToDevice, s->cuda.stream);
        s->filled += n;
        done += n;
    }
    return e == cudaSuccess ? ERR_NONE : cuda_err(d, e, "sending data to the GPU", err);
}

static Status cuda_download_later(Device *d, void *dst, const void *src, size_t bytes, Err *err)
{
    if (bytes == 0) return ERR_NONE;
    const cudaError_t e =
        cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, d->state->cuda.stream);
    return e == cudaSuccess ? ERR_NONE : cuda_err(d, e, "reading data from the GPU", err);
}

static Status cuda_download(Device *d, void *dst, const void *src, size_t bytes, Err *err)
{
    if (bytes == 0) return ERR_NONE;
    TRY(cuda_download_later(d, dst, src, bytes, err));
    return wait_for_all(d, "reading data from the GPU", err);
}

static Status cuda_copy(Device *d, void *dst, const void *src, size_t bytes, Err *err)
{
    if (bytes == 0) return ERR_NONE;
    const cudaError_t e =
        cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, d->state->cuda.stream);
    return e == cudaSuccess ? ERR_NONE : cuda_err(d, e, "copying on the GPU", err);
}

static Status cuda_sync(Device *d, Err *err)
{
    return wait_for_all(d, "waiting for the GPU", err);
}

static Status cuda_mark(Device *d, int which, Err *err)
{
    DeviceState *s = d->state;
    for (int i = 0; i < s->n_queued; i++) s->queued[i].marked[which] = s->queued[i].times;
    const cudaError_t e = cudaEventRecord(s->mark[which], s->cuda.stream);
    return e == cudaSuccess ? ERR_NONE : cuda_err(d, e, "marking a point of its queue", err);
}

// What was queued before the mark has gone well.
static void forget_marked(DeviceState *s, int which)
{
    int left = 0;
    for (int i = 0; i < s->n_queued; i++) {
        Queued q = s->queued[i];
        const int64_t done = q.marked[which];
        q.times -= done;
        for (int k = 0; k < 2; k++) q.marked[k] = LT_MAX(0, q.marked[k] - done);
        if (q.times > 0) s->queued[left++] = q;
    }
    s->n_queued = left;
}

static Status cuda_wait(Device *d, int which, Err *err)
{
    const cudaError_t e = cudaEventSynchronize(d->state->mark[which]);
    if (e != cudaSuccess) return cuda_err(d, e, "waiting for the GPU", err);
    forget_marked(d->state, which);
    return ERR_NONE;
}

// ---- graphs -----------------------------------------------------------------------------------

static Status no_graph(Device *d, cudaError_t e, Err *err)
{
    const Status st = cuda_err(d, e, "recording a step", err);
    err_hint(err, "without --cuda.graph=on nothing is recorded");
    return st;
}

static Status cuda_record(Device *d, Err *err)
{
    DeviceState *s = d->state;
    if (s->sync_each)
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: LATHE_SYNC=1 waits for each op, a recorded one is not run", d->name);
    const cudaError_t e = cudaStreamBeginCapture(s->cuda.stream, cudaStreamCaptureModeThreadLocal);
    return e == cudaSuccess ? ERR_NONE : no_graph(d, e, err);
}

static Status cuda_record_end(Device *d, DeviceGraph **out, Err *err)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    cudaError_t e = cudaStreamEndCapture(d->state->cuda.stream, &graph);
    if (e == cudaSuccess) e = cudaGraphInstantiate(&exec, graph, 0);
    if (graph) (void)cudaGraphDestroy(graph);
    *out = (DeviceGraph *)exec;
    return e == cudaSuccess ? ERR_NONE : no_graph(d, e, err);
}

static Status cuda_replay(Device *d, DeviceGraph *g, Err *err)
{
    const cudaError_t e = cudaGraphLaunch((cudaGraphExec_t)g, d->state->cuda.stream);
    return device_cuda_queued(d, "recorded step", "graph", (int)e, err);
}

static void cuda_graph_free(Device *d, DeviceGraph *g)
{
    (void)d;
    (void)cudaGraphExecDestroy((cudaGraphExec_t)g);
}

// ---- memory of the host -----------------------------------------------------------------------

static Status cuda_host_alloc(Device *d, size_t bytes, void **out, Err *err)
{
    *out = NULL;
    const cudaError_t e = cudaMallocHost(out, LT_MAX(bytes, 1));
    if (e != cudaSuccess) return cuda_err(d, e, "taking pinned memory of the host", err);
    memset(*out, 0, bytes);
    return ERR_NONE;
}

static void cuda_host_free(Device *d, void *p, size_t bytes)
{
    (void)bytes;
    (void)cudaStreamSynchronize(d->state->cuda.stream); // a copy may be on its way
    (void)cudaFreeHost(p);
}

// ---- open, close ------------------------------------------------------------------------------

static cudaError_t describe(CudaDevice *c, char name[128])
{
    struct cudaDeviceProp p;
    const cudaError_t e = cudaGetDeviceProperties(&p, c->index);
    if (e != cudaSuccess) return e;
    c->cc = 10 * p.major + p.minor;
    c->sm_count = p.multiProcessorCount;
    c->smem_per_block = (int)p.sharedMemPerBlockOptin;
    c->l2_bytes = (size_t)p.l2CacheSize;
    snprintf(name, 128, "cuda:%d (%.90s)", c->index, p.name);
    return cudaSuccess;
}

static cudaError_t acquire(DeviceState *s, char name[128])
{
    cudaError_t e = cudaSetDevice(s->cuda.index);
    if (e == cudaSuccess) e = describe(&s->cuda, name);
    if (e == cudaSuccess) e = cudaStreamCreateWithFlags(&s->cuda.stream, cudaStreamNonBlocking);
    for (int i = 0; i < 2; i++) {
        if (e == cudaSuccess) e = cudaMallocHost((void **)&s->stage[i], STAGE_BYTES);
        if (e == cudaSuccess) e = cudaEventCreateWithFlags(&s->read[i], cudaEventDisableTiming);
        if (e == cudaSuccess) e = cudaEventCreateWithFlags(&s->mark[i], cudaEventDisableTiming);
    }
    return e;
}

Status device_cuda_open(Device *d, int index, Err *err)
{
    static const DeviceVtable cuda = {.alloc = cuda_alloc,
                                      .free = cuda_free,
                                      .upload = cuda_upload,
                                      .download = cuda_download,
                                      .copy = cuda_copy,
                                      .zero = cuda_zero,
                                      .sync = cuda_sync,
                                      .download_later = cuda_download_later,
                                      .host_alloc = cuda_host_alloc,
                                      .host_free = cuda_host_free,
                                      .mark = cuda_mark,
                                      .wait = cuda_wait,
                                      .record = cuda_record,
                                      .record_end = cuda_record_end,
                                      .replay = cuda_replay,
                                      .graph_free = cuda_graph_free};
    *d = (Device){.v = &cuda, .index = index, .threads = d->threads};
    d->state = mem_calloc(1, sizeof *d->state);
    if (!d->state) return mem_err(err, sizeof *d->state, "the device");
    snprintf(d->name, sizeof d->name, "cuda:%d", index);
    const char *each = getenv("LATHE_SYNC");
    d->state->sync_each = each && strcmp(each, "1") == 0;
    d->state->cuda.index = index;
    const cudaError_t e = acquire(d->state, d->name);
    if (e == cudaSuccess) return ERR_NONE;
    const Status s = cuda_err(d, e, "opening it", err);
    device_cuda_close(d);
    return s;
}

void device_cuda_close(Device *d)
{
    DeviceState *s = d->state;
    if (!s) return;
    cublaslt_close(s->libraries.cublaslt);
    cudnn_attention_close(s->libraries.cudnn);
    for (int i = 0; i < 2; i++) {
        if (s->read[i]) (void)cudaEventDestroy(s->read[i]);
        if (s->mark[i]) (void)cudaEventDestroy(s->mark[i]);
        if (s->stage[i]) (void)cudaFreeHost(s->stage[i]);
    }
    if (s->cuda.stream) (void)cudaStreamDestroy(s->cuda.stream);
    mem_free(s);
    d->state = NULL;
}
