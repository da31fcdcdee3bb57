// cuda_register.c -- see cuda_register.h. A row of the op table calls its launcher with the GPU of
// the context's device, and tells the device which op was queued.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_register.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cudnn_attention.h"
#include "kernels/cuda/device_cuda.h"

// The three functions of a row, on the op table's terms.
#define CALLS(fn, impl, op, Args)                                                                  \
    static size_t fn##_row_scratch(const Args *a, const OpCtx *cx)                                 \
    {                                                                                              \
        return fn##_scratch(device_cuda_of(cx->device), a);                                        \
    }                                                                                              \
    static Status fn##_row(const Args *a, OpCtx *cx, Err *err)                                     \
    {                                                                                              \
        const int code = fn(device_cuda_of(cx->device), a, cx->scratch);                           \
        return device_cuda_queued(cx->device, #op, impl, code, err);                               \
    }
#define ROW_CUDA(op, Args)                                                                         \
    static bool cuda_##op##_row_supports(const Args *a, const OpCtx *cx, const char **why)         \
    {                                                                                              \
        return cuda_##op##_supports(device_cuda_of(cx->device), a, why);                           \
    }                                                                                              \
    CALLS(cuda_##op, "cuda", op, Args)
#define ROW_HOPPER(op, Args)                                                                       \
    static bool hopper_##op##_row_supports(const Args *a, const OpCtx *cx, const char **why)       \
    {                                                                                              \
        const CudaDevice *d = device_cuda_of(cx->device);                                          \
        *why = "needs a Hopper GPU (compute capability 9.0)";                                      \
        return d->cc == 90 && hopper_##op##_supports(d, a, why);                                   \
    }                                                                                              \
    CALLS(hopper_##op, "cuda-hopper", op, Args)
#include "kernels/cuda/cuda_rows.def"
#undef ROW_CUDA
#undef ROW_HOPPER

#define ADD(fn, name, op)                                                                          \
    ops_add_##op(ops, (Impl_##op){.impl = name,                                                    \
                                  .supports = fn##_row_supports,                                   \
                                  .scratch = fn##_row_scratch,                                     \
                                  .run = fn##_row});

void cuda_register(Ops *ops)
{
    cudnn_attention_register(ops); // first: never preferred
#define ROW_CUDA(op, Args)   ADD(cuda_##op, "cuda", op)
#define ROW_HOPPER(op, Args) ADD(hopper_##op, "cuda-hopper", op)
#include "kernels/cuda/cuda_rows.def"
#undef ROW_CUDA
#undef ROW_HOPPER
    cublaslt_register(ops);
}
