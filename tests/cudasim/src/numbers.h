// numbers.h -- bf16, f16, tf32, e4m3 and e5m2 as floats and back; no CUDA header is needed.
//
// All roundings are to nearest, ties to even. NaN becomes the format's canonical NaN as the
// hardware's conversions give it: 0x7fff for bf16 and f16.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

namespace cudasim
{

inline float float_of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

inline uint32_t bits_of_float(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

inline float float_of_bf16(uint16_t h)
{
    return float_of_bits(static_cast<uint32_t>(h) << 16);
}

inline uint16_t bf16_of_float(float f)
{
    const uint32_t u = bits_of_float(f);
    if ((u & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return static_cast<uint16_t>((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

inline float float_of_f16(uint16_t h)
{
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16, e = h >> 10 & 31, f = h & 1023;
    if (e == 31) return float_of_bits(sign | 0x7f800000 | f << 13);
    if (e == 0) {
        const float v = static_cast<float>(f) * 0x1p-24f;
        return sign != 0 ? -v : v;
    }
    return float_of_bits(sign | (e + 112) << 23 | f << 13);
}

inline uint16_t f16_of_float(float x)
{
    const uint32_t u = bits_of_float(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000) return 0x7fff;
    if (a >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00); // 65520 and above
    if (a < 0x38800000) { // below the smallest normal: units of 2^-24
        const float v = float_of_bits(a) * 0x1p24f;
        return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(v)));
    }
    const uint32_t r = a + 0xfff + (a >> 13 & 1);
    return static_cast<uint16_t>(sign | (r - 0x38000000) >> 13);
}

// The tensor core reads the upper 19 bits.
inline float float_of_tf32(uint32_t u)
{
    return float_of_bits(u & 0xffffe000);
}

inline float float_of_e5m2(uint8_t v)
{
    return float_of_f16(static_cast<uint16_t>(v << 8));
}

inline float float_of_e4m3(uint8_t v)
{
    const int e = v >> 3 & 15, f = v & 7;
    const float a = e == 15 && f == 7 ? float_of_bits(0x7fffffff)
                    : e != 0          ? std::ldexp(static_cast<float>(8 + f), e - 10)
                                      : std::ldexp(static_cast<float>(f), -9);
    return v & 128 ? -a : a;
}

} // namespace cudasim
