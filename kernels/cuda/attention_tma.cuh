// attention_tma.cuh -- TMA maps of the tensors of attention.
//
// A tensor [B,T,H,D] is the four dimensions (D, T, H, B); a box is 64 columns by some rows of one
// head, and lies in shared memory as [rows][64] with the 128-byte swizzle, the layout that wgmma
// reads. Columns from D on and rows from T on are zero-filled on load and left alone on store: that
// is all it takes to serve head sizes between the kernels' own, and any T.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <cuda.h>
#include <cuda_runtime.h>

// What TMA cannot address, or nullptr: 16-byte steps from row to row, head to head and sample to
// sample, where there is more than one of them.
inline const char *attention_map_refuses(const void *base, int64_t B, int64_t T, int64_t H,
                                         int64_t D, int64_t row, int64_t batch)
{
    const int64_t STRIDE_MAX = (int64_t)1 << 39; // elements of two bytes
    if ((uintptr_t)base % 16 != 0) return "tensors that do not start at a multiple of 16 bytes";
    if (H > 1 && D % 8 != 0) return "a head size that is no multiple of 8";
    if (T > 1 && row % 8 != 0) return "rows that do not start at a multiple of 16 bytes";
    if (B > 1 && batch % 8 != 0) return "samples that do not start at a multiple of 16 bytes";
    if (B > 1 && batch == 0) return "one sample for the whole batch";
    if (row >= STRIDE_MAX || batch >= STRIDE_MAX) return "strides of a terabyte";
    return nullptr;
}

// Boxes are `rows` x 64. Returns a cudaError_t.
inline int attention_map(CUtensorMap *map, CUtensorMapDataType type, const void *base, int64_t B,
                         int64_t T, int64_t H, int64_t D, int64_t row, int64_t batch, int rows)
{
    void *encode = nullptr; // a driver function, asked for so that nothing links with the driver
    cudaDriverEntryPointQueryResult found;
    const cudaError_t e = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000,
                                                           cudaEnableDefault, &found);
    if (e != cudaSuccess) return (int)e;
    if (!encode) return (int)cudaErrorNotSupported;
    const cuuint64_t dim[4] = {(cuuint64_t)D, (cuuint64_t)T, (cuuint64_t)H, (cuuint64_t)B};
    const cuuint64_t stride[3] = {T > 1 ? (cuuint64_t)row * 2 : 16, H > 1 ? (cuuint64_t)D * 2 : 16,
                                  B > 1 ? (cuuint64_t)batch * 2 : 16};
    const cuuint32_t box[4] = {64, (cuuint32_t)rows, 1, 1}, one[4] = {1, 1, 1, 1};
    const CUresult r = ((decltype(&cuTensorMapEncodeTiled))encode)(
        map, type, 4, const_cast<void *>(base), dim, stride, box, one, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return r == CUDA_SUCCESS ? 0 : (int)cudaErrorInvalidValue;
}
