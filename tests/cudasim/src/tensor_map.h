// tensor_map.h -- our own encoding of the 128 opaque bytes of a CUtensorMap.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

namespace cudasim
{

struct TensorMap {
    uint64_t base;
    uint64_t stride[4]; // bytes, of dimensions 1..4
    uint32_t dim[5];
    uint16_t box[5];
    uint8_t rank, elem_bytes, swizzle, data_type; // as CUtensorMapSwizzle, CUtensorMapDataType
    bool nan_fill;
    uint32_t magic;
};
static_assert(sizeof(TensorMap) <= 128, "a CUtensorMap has 128 bytes");

enum : uint32_t { TENSOR_MAP_MAGIC = 0xc0da5eed };

// XOR of the 16-byte chunk's number in its 128-byte line with the line's number: mode 1 is the
// 32-byte, 2 the 64-byte, 3 the 128-byte swizzle (CUtensorMapSwizzle), 0 none.
inline uint32_t swizzle_addr(uint32_t a, int mode)
{
    const uint32_t bits = (1u << mode) - 1;
    return a ^ ((a >> 7 & bits) << 4);
}

} // namespace cudasim
