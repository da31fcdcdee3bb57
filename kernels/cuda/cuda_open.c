// cuda_open.c -- see cuda_open.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_open.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/cuda_register.h"
#include "kernels/cuda/cudnn_attention.h"
#include "kernels/cuda/device_cuda.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

static void describe(CudaGpu *g, int index)
{
    struct cudaDeviceProp p;
    if (cudaGetDeviceProperties(&p, index) != cudaSuccess) {
        snprintf(g->name, sizeof g->name, "a GPU that does not answer");
        return;
    }
    snprintf(g->name, sizeof g->name, "%.90s", p.name);
    g->cc = 10 * p.major + p.minor;
    g->sm_count = p.multiProcessorCount;
    g->bytes = p.totalGlobalMem;
    g->supported = g->cc >= CUDA_CC_MIN;
}

static void version(int v, char out[16])
{
    snprintf(out, 16, "%d.%d", v / 1000, v % 1000 / 10);
}

// No GPU can be asked for: because of the driver, or because there is none.
static void say_why_none(CudaFound *f, cudaError_t e)
{
    int driver = 0, runtime = 0;
    char has[16], needs[16];
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    version(driver, has);
    version(runtime, needs);
    if (e == cudaErrorNoDevice || e == cudaSuccess) {
        snprintf(f->why, sizeof f->why, "there is no GPU that CUDA can see");
        snprintf(f->hint, sizeof f->hint, "is CUDA_VISIBLE_DEVICES set? `nvidia-smi` lists GPUs");
    } else if (driver == 0) {
        snprintf(f->why, sizeof f->why, "there is no NVIDIA driver");
        snprintf(f->hint, sizeof f->hint, "install the driver, version for CUDA %s or later",
                 needs);
    } else if (driver < runtime) {
        f->surprise = true;
        snprintf(f->why, sizeof f->why,
                 "the NVIDIA driver is too old: it serves CUDA %s, this lathe needs %s", has,
                 needs);
        snprintf(f->hint, sizeof f->hint, "a newer driver, or a lathe built with CUDA %s", has);
    } else {
        f->surprise = true;
        snprintf(f->why, sizeof f->why, "CUDA does not start: %s", cudaGetErrorString(e));
    }
}

static void say_too_old(char *to, size_t size, const CudaGpu *g)
{
    snprintf(to, size, "%s has compute capability %d.%d, the kernels need %d.%d or more", g->name,
             g->cc / 10, g->cc % 10, CUDA_CC_MIN / 10, CUDA_CC_MIN % 10);
}

void cuda_find(CudaFound *out)
{
    *out = (CudaFound){.first = -1, .built = true};
    int n = 0;
    const cudaError_t e = cudaGetDeviceCount(&n);
    version(CUDART_VERSION, out->toolkit);
    if (e != cudaSuccess || n == 0) {
        (void)cudaGetLastError(); // it was told, and is no one else's
        say_why_none(out, e);
        return;
    }
    out->n = LT_MIN(n, CUDA_GPUS_MAX);
    for (int i = 0; i < out->n; i++) {
        describe(&out->gpu[i], i);
        if (out->first < 0 && out->gpu[i].supported) out->first = i;
    }
    if (out->first >= 0) return;
    out->surprise = true;
    say_too_old(out->why, sizeof out->why, &out->gpu[0]);
}

Status cuda_open(Device *d, Ops *ops, const CudaFound *f, int index, Err *err)
{
    if (f->n == 0) {
        const Status s = err_set(err, ERR_DEVICE, "cuda:%d: %s", index, f->why);
        err_hint(err, "%s", f->hint[0] ? f->hint : "--device=cpu runs without a GPU");
        return s;
    }
    if (index < 0 || index >= f->n) {
        const Status s =
            err_set(err, ERR_USAGE, "cuda:%d: this machine has %d GPU%s, counted from 0", index,
                    f->n, f->n == 1 ? "" : "s");
        err_hint(err, "`lathe --version` lists them");
        return s;
    }
    if (!f->gpu[index].supported) {
        char why[sizeof f->why];
        say_too_old(why, sizeof why, &f->gpu[index]);
        const Status s = err_set(err, ERR_DEVICE, "cuda:%d: %s", index, why);
        err_hint(err, "--device=cpu runs without a GPU");
        return s;
    }
    TRY(device_cuda_open(d, index, err));
    memset(ops, 0, sizeof *ops);
    cuda_register(ops);
    return ERR_NONE;
}

void cuda_libraries(char *out, size_t size)
{
    char cublaslt[300], cudnn[300];
    cublaslt_describe(cublaslt, sizeof cublaslt);
    cudnn_attention_describe(cudnn, sizeof cudnn);
    snprintf(out, size, "%s, %s", cublaslt, cudnn);
}

void cuda_close(Device *d)
{
    if (d->v && !d->is_host) device_cuda_close(d);
}
