// attention_tma.cuh -- TMA maps of the tensors of attention.
//
// A tensor [B,T,H,D] is the four dimensions (D, T, H, B); a box is 64 columns by some rows of one
// head, and lies in shared memory as [rows][64] with the 128-byte swizzle, the layout that wgmma
// reads. Columns from D on and rows from T on are zero-filled on load and left alone on store: that
// is all it takes to serve head sizes between the kernels' own, and any T.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cuda/tma.cuh"

// What TMA cannot address, or nullptr: 16-byte steps from row to row, head to head and sample to
// sample, where there is more than one of them. Elements of two bytes.
inline const char *attention_map_refuses(const void *base, int64_t B, int64_t T, int64_t H,
                                         int64_t D, int64_t row, int64_t batch)
{
    const int64_t STRIDE_MAX = (int64_t)1 << 39;
    if ((uintptr_t)base % TMA_ALIGN != 0) return "a tensor does not start at 16 bytes";
    if (H > 1 && D % 8 != 0) return "the head size is no multiple of 8";
    if (T > 1 && row % 8 != 0) return "rows do not start at multiples of 16 bytes";
    if (B > 1 && batch % 8 != 0) return "samples do not start at multiples of 16 bytes";
    if (B > 1 && batch == 0) return "all samples are the same one";
    if (row >= STRIDE_MAX || batch >= STRIDE_MAX) return "strides beyond a terabyte";
    return nullptr;
}

// Boxes are `rows` x 64. A stride that is never taken must still be one that TMA accepts.
inline cudaError_t attention_map(CUtensorMap *map, DType dtype, const void *base, int64_t B,
                                 int64_t T, int64_t H, int64_t D, int64_t row, int64_t batch,
                                 int rows)
{
    const TmaTensor t = {base,
                         dtype,
                         4,
                         {D, T, H, B},
                         {1, T > 1 ? row : 8, H > 1 ? D : 8, B > 1 ? batch : 8},
                         {64, rows, 1, 1},
                         CU_TENSOR_MAP_SWIZZLE_128B};
    return tma_encode(map, t);
}
