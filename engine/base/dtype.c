// dtype.c -- see dtype.h.
//
// SPDX-License-Identifier: MIT
#include "engine/base/dtype.h"
#include "engine/base/assert.h"

// Every file format here is little-endian, and arrays are read and written as they lie in memory.
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "lathe needs a little-endian processor");

static const struct {
    const char *name;
    size_t bytes;
} types[DTYPE_COUNT] = {
    [DTYPE_F32] = {"f32", 4},   [DTYPE_BF16] = {"bf16", 2}, [DTYPE_F16] = {"f16", 2},
    [DTYPE_E4M3] = {"e4m3", 1}, [DTYPE_E5M2] = {"e5m2", 1}, [DTYPE_U8] = {"u8", 1},
    [DTYPE_U16] = {"u16", 2},   [DTYPE_I32] = {"i32", 4},   [DTYPE_I64] = {"i64", 8},
};

size_t dtype_bytes(DType t)
{
    ASSERT((unsigned)t < DTYPE_COUNT, "dtype %d", (int)t);
    return types[t].bytes;
}

const char *dtype_name(DType t)
{
    return (unsigned)t < DTYPE_COUNT ? types[t].name : "?";
}

bool dtype_from_name(const char *name, DType *t)
{
    for (int i = 0; i < DTYPE_COUNT; i++) {
        if (strcmp(name, types[i].name) == 0) {
            *t = (DType)i;
            return true;
        }
    }
    return false;
}

float f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t exp = (h >> 10) & 0x1fu;
    uint32_t man = h & 0x3ffu;
    if (exp == 0x1f) return dtype_float(sign | 0x7f800000u | (man << 13) | (man ? 0x400000u : 0));
    if (exp) return dtype_float(sign | ((exp + 112) << 23) | (man << 13));
    if (!man) return dtype_float(sign);
    int e = -14; // subnormal: value is man * 2^-24
    while (!(man & 0x400u)) {
        man <<= 1;
        e--;
    }
    return dtype_float(sign | (uint32_t)(e + 127) << 23 | (man & 0x3ffu) << 13);
}

uint16_t f16_from_f32(float f)
{
    const uint32_t u = dtype_bits(f), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (a >> 13 & 0x3ffu));
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); // 65520 and above round to infinity
    if (a < 0x33000000u) return (uint16_t)sign;              // below half the smallest subnormal
    const int e = (int)(a >> 23) - 127;
    const uint32_t m = (a & 0x7fffffu) | 0x800000u;
    const int shift = e < -14 ? 13 + (-14 - e) : 13; // bits of m that fall off
    uint32_t h = e < -14 ? m >> shift : ((uint32_t)(e + 15) << 10) + ((m >> 13) & 0x3ffu);
    const uint32_t rest = m & ((1u << shift) - 1), half = 1u << (shift - 1);
    if (rest > half || (rest == half && (h & 1))) h++;
    return (uint16_t)(sign | h);
}

void dtype_convert(void *dst, DType to, const void *src, DType from, int64_t n)
{
    ASSERT(to <= DTYPE_F16 && from <= DTYPE_F16, "%s to %s", dtype_name(from), dtype_name(to));
    if (to == from) {
        memcpy(dst, src, (size_t)n * dtype_bytes(to));
        return;
    }
    for (int64_t i = 0; i < n; i++) dtype_store(dst, to, i, dtype_load(src, from, i));
}
