// cuda_clock.c -- see cuda_clock.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_clock.h"
#include "kernels/cuda/device_cuda.h"

#include <cuda_runtime_api.h>

// Products of 16-bit numbers that an SM's tensor cores add up a clock: 2 FLOP each. From the
// architectures' white papers; 0 where we know of none.
static int products_per_clock(int cc)
{
    switch (cc) {
    case 80: return 1024;
    case 86:
    case 89: return 512;
    case 90: return 2048;
    case 100:
    case 103: return 4096;
    case 120: return 512;
    default: return 0;
    }
}

// f32 FMA units of an SM.
static int fma_units(int cc)
{
    return cc == 80 ? 64 : 128;
}

static bool attribute(int *out, enum cudaDeviceAttr what, int index)
{
    const bool ok = cudaDeviceGetAttribute(out, what, index) == cudaSuccess && *out > 0;
    if (!ok) (void)cudaGetLastError();
    return ok;
}

bool cuda_limits(const Device *d, CudaLimits *out)
{
    *out = (CudaLimits){0};
    if (d->is_host) return false;
    const CudaDevice *c = device_cuda_of(d);
    int core_khz, memory_khz, bus_bits;
    if (!attribute(&core_khz, cudaDevAttrClockRate, c->index) ||
        !attribute(&memory_khz, cudaDevAttrMemoryClockRate, c->index) ||
        !attribute(&bus_bits, cudaDevAttrGlobalMemoryBusWidth, c->index))
        return false;
    out->sm_count = c->sm_count;
    out->cc = c->cc;
    out->l2_bytes = c->l2_bytes;
    out->clock_hz = core_khz * 1e3;
    out->bytes_per_second = 2.0 * memory_khz * 1e3 * bus_bits / 8; // two transfers a clock
    const double fma = out->clock_hz * c->sm_count;
    out->flops_f32 = 2 * fma * fma_units(c->cc);
    out->flops_half = 2 * fma * products_per_clock(c->cc);
    return true;
}

static Status clock_err(const Device *d, cudaError_t e, const char *doing, Err *err)
{
    (void)cudaGetLastError();
    return err_set(err, ERR_DEVICE, "%s: %s while %s", d->name, cudaGetErrorString(e), doing);
}

Status cuda_clock_open(CudaClock *c, Device *d, Err *err)
{
    *c = (CudaClock){0};
    cudaError_t e = cudaEventCreate(&c->from);
    if (e == cudaSuccess) e = cudaEventCreate(&c->to);
    if (e == cudaSuccess) return ERR_NONE;
    cuda_clock_close(c);
    return clock_err(d, e, "making events", err);
}

Status cuda_clock_start(CudaClock *c, Device *d, Err *err)
{
    const cudaError_t e = cudaEventRecord(c->from, device_cuda_of(d)->stream);
    return e == cudaSuccess ? ERR_NONE : clock_err(d, e, "starting the clock", err);
}

Status cuda_clock_stop(CudaClock *c, Device *d, double *seconds, Err *err)
{
    float ms = 0;
    cudaError_t e = cudaEventRecord(c->to, device_cuda_of(d)->stream);
    if (e != cudaSuccess) return clock_err(d, e, "stopping the clock", err);
    TRY(device_sync(d, err)); // errors of the queued work name its ops
    e = cudaEventElapsedTime(&ms, c->from, c->to);
    if (e != cudaSuccess) return clock_err(d, e, "reading the clock", err);
    *seconds = (double)ms * 1e-3;
    return ERR_NONE;
}

void cuda_clock_close(CudaClock *c)
{
    if (c->from) (void)cudaEventDestroy(c->from);
    if (c->to) (void)cudaEventDestroy(c->to);
    *c = (CudaClock){0};
}
