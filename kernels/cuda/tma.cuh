// tma.cuh -- tensor maps: how a host tells TMA what a tensor looks like.
//
// A TMA instruction (ptx.cuh) copies a box of a tensor between global and shared memory. Where the
// tensor lies, its sizes, strides and the box are in a CUtensorMap of 128 bytes, which the driver
// encodes and a kernel takes as a `const __grid_constant__` parameter. Elements outside the tensor
// are read as zero and never written.
//
// TMA takes only addresses and strides that are multiples of 16 bytes: ask tma_takes() first.
// The driver's function is looked up through the runtime: nothing links against libcuda.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include "engine/base/dtype.h"

enum { TMA_RANK_MAX = 5, TMA_ALIGN = 16 };

struct TmaTensor { // dimensions innermost first
    const void *base;
    DType dtype; // f32, bf16, f16; one-byte types go as bytes
    int rank;
    int64_t size[TMA_RANK_MAX];
    int64_t stride[TMA_RANK_MAX]; // elements; of dimension 0 it is 1
    int box[TMA_RANK_MAX];        // elements; the rows of the box lie one after the other
    CUtensorMapSwizzle swizzle;   // box[0] has at most so many bytes
};

// Can rows `pitch` elements apart be a tensor?
inline bool tma_takes(const void *base, int64_t pitch, DType dtype)
{
    return reinterpret_cast<uintptr_t>(base) % TMA_ALIGN == 0 &&
           pitch * (int64_t)dtype_bytes(dtype) % TMA_ALIGN == 0;
}

inline CUtensorMapDataType tma_type(DType dtype)
{
    switch (dtype) {
    case DTYPE_F32: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DTYPE_BF16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DTYPE_F16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    default: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    }
}

// cuTensorMapEncodeTiled, or NULL when the driver has none (then it is older than CUDA 12).
inline decltype(&cuTensorMapEncodeTiled) tma_encoder()
{
    void *entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    const cudaError_t e = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                                           cudaEnableDefault, &found);
    if (e != cudaSuccess || found != cudaDriverEntryPointSuccess) return nullptr;
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry);
}

// Returns a cudaError_t.
inline cudaError_t tma_encode(CUtensorMap *map, const TmaTensor &t)
{
    static const decltype(&cuTensorMapEncodeTiled) encode = tma_encoder();
    if (!encode) return cudaErrorNotSupported;
    cuuint64_t size[TMA_RANK_MAX], pitch[TMA_RANK_MAX];
    cuuint32_t box[TMA_RANK_MAX], step[TMA_RANK_MAX];
    for (int i = 0; i < t.rank; ++i) {
        size[i] = static_cast<cuuint64_t>(t.size[i]);
        box[i] = static_cast<cuuint32_t>(t.box[i]);
        step[i] = 1;
        if (i > 0) pitch[i - 1] = static_cast<cuuint64_t>(t.stride[i]) * dtype_bytes(t.dtype);
    }
    const CUresult r =
        encode(map, tma_type(t.dtype), static_cast<cuuint32_t>(t.rank), const_cast<void *>(t.base),
               size, pitch, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, t.swizzle,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return r == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}
