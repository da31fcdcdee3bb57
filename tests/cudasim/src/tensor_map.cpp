// tensor_map.cpp -- cuTensorMapEncodeTiled: the argument checks of the driver, and the encoding.
//
// Refused although the hardware knows them: im2col maps, interleaved layouts, element strides
// other than 1, packed 4- and 6-bit types. No kernel here uses them.
//
// SPDX-License-Identifier: MIT
#include <cstring>
#include "tests/cudasim/src/host.h"
#include "tests/cudasim/src/tensor_map.h"

namespace cudasim
{

namespace
{

enum { INVALID = 1, NOT_SUPPORTED = 801 }; // CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED

// u8 u16 u32 s32 u64 s64 f16 f32 f64 bf16 f32-ftz tf32 tf32-ftz
const uint8_t elem_bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
const bool is_float[] = {false, false, false, false, false, false, true,
                         true,  true,  true,  true,  true,  true};

} // namespace

int tensor_map_encode(void *map128, const TensorMapArgs &a)
{
    if (map128 == nullptr || reinterpret_cast<uintptr_t>(map128) % 64 != 0) return INVALID;
    if (a.rank < 1 || a.rank > 5 || a.data_type < 0) return INVALID;
    if (a.data_type >= static_cast<int>(sizeof elem_bytes)) return NOT_SUPPORTED;
    if (reinterpret_cast<uintptr_t>(a.address) % 16 != 0 || a.address == nullptr) return INVALID;
    if (a.interleave != 0) return NOT_SUPPORTED;
    if (a.swizzle < 0) return INVALID;
    if (a.swizzle > 3) return NOT_SUPPORTED;
    if (a.oob_fill != 0 && !is_float[a.data_type]) return INVALID;
    TensorMap t = {};
    t.base = reinterpret_cast<uint64_t>(a.address);
    t.rank = static_cast<uint8_t>(a.rank);
    t.elem_bytes = elem_bytes[a.data_type];
    t.swizzle = static_cast<uint8_t>(a.swizzle);
    t.data_type = static_cast<uint8_t>(a.data_type);
    t.nan_fill = a.oob_fill != 0;
    t.magic = TENSOR_MAP_MAGIC;
    for (uint32_t i = 0; i < a.rank; ++i) {
        if (a.dims[i] == 0 || a.dims[i] > 0x100000000ull) return INVALID;
        if (a.box[i] == 0 || a.box[i] > 256) return INVALID;
        if (a.element_strides[i] != 1) return a.element_strides[i] == 0 ? INVALID : NOT_SUPPORTED;
        t.dim[i] = static_cast<uint32_t>(a.dims[i] - 1); // one less: 2^32 fits
        t.box[i] = static_cast<uint16_t>(a.box[i]);
    }
    for (uint32_t i = 0; i + 1 < a.rank; ++i) {
        if (a.strides[i] % 16 != 0 || a.strides[i] >= 1ull << 40) return INVALID;
        t.stride[i] = a.strides[i];
    }
    const uint32_t inner = t.box[0] * t.elem_bytes;
    if (inner % 16 != 0) return INVALID;
    if (a.swizzle != 0 && inner > 16u << a.swizzle) return INVALID;
    memset(map128, 0, 128);
    memcpy(map128, &t, sizeof t);
    return 0;
}

} // namespace cudasim
