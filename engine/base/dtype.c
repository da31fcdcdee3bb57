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

float fp8_to_f32(uint8_t q, DType t)
{
    if (t == DTYPE_E5M2) return f16_to_f32((uint16_t)(q << 8));
    const uint32_t sign = (uint32_t)(q & 0x80u) << 24, a = q & 0x7fu;
    if (a == 0x7f) return dtype_float(sign | 0x7fc00000u);
    // The fields where f32 has its own; the biases 127 and 7 differ by 120. Subnormals, too.
    return dtype_float(sign | dtype_bits(dtype_float(a << 20) * 0x1p120f));
}

uint8_t fp8_from_f32(float f, DType t)
{
    const bool e4 = t == DTYPE_E4M3;
    const int drop = e4 ? 20 : 21; // bits of f32's mantissa that do not fit
    const uint32_t sign = dtype_bits(f) >> 24 & 0x80u, a = dtype_bits(f) & 0x7fffffffu;
    if (a > 0x7f800000u) return 0x7f;
    if (a >= dtype_bits(fp8_max(t))) return (uint8_t)(sign | (e4 ? 0x7eu : 0x7bu));
    if (a < dtype_bits(e4 ? 0x1p-6f : 0x1p-14f)) { // a multiple of 2^-9 or 2^-16, by an addition
        const float magic = e4 ? 0x1p14f : 0x1p7f; // whose last bit is worth that
        return (uint8_t)(sign | (dtype_bits(dtype_float(a) + magic) - dtype_bits(magic)));
    }
    const uint32_t half = (1u << (drop - 1)) - 1 + (a >> drop & 1u); // ties to even
    const uint32_t bias = (uint32_t)(e4 ? 127 - 7 : 127 - 15) << 23;
    return (uint8_t)(sign | (a - bias + half) >> drop);
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
