// ptx_int.h -- integer, bit and comparison instructions of PTX as C++ functions.
//
// Only what C++ has no operator for, or where C++ leaves undefined what PTX defines (shifts by the
// width and more, INT_MIN / -1, overflow).
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <limits>
#include <type_traits>

namespace cudasim
{
namespace ptx
{

template <class T> inline T shl(T a, uint32_t n)
{
    return n >= sizeof(T) * 8 ? T(0) : static_cast<T>(a << n);
}

template <class T> inline T shr(T a, uint32_t n)
{
    const uint32_t last = sizeof(T) * 8 - 1;
    if (n <= last) return static_cast<T>(a >> n);
    return std::is_signed<T>::value ? static_cast<T>(a >> last) : T(0);
}

// PTX leaves division by 0 unspecified; the hardware gives all ones.
template <class T> inline T div(T a, T b)
{
    if (b == 0) return static_cast<T>(-1);
    if (std::is_signed<T>::value && b == static_cast<T>(-1)) {
        return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
    }
    return static_cast<T>(a / b);
}

template <class T> inline T rem(T a, T b)
{
    if (b == 0) return a;
    if (std::is_signed<T>::value && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
}

template <class T> inline T min(T a, T b)
{
    return a < b ? a : b;
}

template <class T> inline T max(T a, T b)
{
    return a > b ? a : b;
}

template <class T> inline T relu(T a)
{
    return a < 0 ? T(0) : a;
}

template <class T> inline T abs(T a)
{
    return a < 0 ? static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a)) : a;
}

template <class T> inline T neg(T a)
{
    return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
}

template <class T> inline T mul_hi(T a, T b)
{
    using Wide = std::conditional_t<std::is_signed<T>::value, __int128, unsigned __int128>;
    return static_cast<T>((static_cast<Wide>(a) * static_cast<Wide>(b)) >> (sizeof(T) * 8));
}

// Bits 47..16 of the product of two 24-bit numbers; of its low 32 bits for mul24.lo.
inline int32_t low24(int32_t a)
{
    return static_cast<int32_t>(static_cast<uint32_t>(a) << 8) >> 8;
}

inline uint32_t low24(uint32_t a)
{
    return a & 0xffffff;
}

template <class T> inline T mul24_lo(T a, T b)
{
    return static_cast<T>(static_cast<int64_t>(low24(a)) * low24(b));
}

template <class T> inline T mul24_hi(T a, T b)
{
    return static_cast<T>((static_cast<int64_t>(low24(a)) * low24(b)) >> 16);
}

template <class T> inline T sat_to(__int128 v)
{
    constexpr __int128 lo = std::numeric_limits<T>::min(), hi = std::numeric_limits<T>::max();
    return static_cast<T>(v < lo ? lo : v > hi ? hi : v);
}

template <class T> inline std::make_unsigned_t<T> sad(T a, T b, std::make_unsigned_t<T> c)
{
    using U = std::make_unsigned_t<T>;
    return static_cast<U>(c + (a < b ? static_cast<U>(b) - static_cast<U>(a)
                                     : static_cast<U>(a) - static_cast<U>(b)));
}

inline uint32_t popc(uint64_t a)
{
    return static_cast<uint32_t>(__builtin_popcountll(a));
}

inline uint32_t clz(uint32_t a)
{
    return a == 0 ? 32 : static_cast<uint32_t>(__builtin_clz(a));
}

inline uint32_t clz(uint64_t a)
{
    return a == 0 ? 64 : static_cast<uint32_t>(__builtin_clzll(a));
}

// Position of the highest bit that differs from the sign; 0xffffffff: none.
template <class T> inline uint32_t bfind(T a)
{
    using U = std::make_unsigned_t<T>;
    const U v = static_cast<U>(std::is_signed<T>::value && a < 0 ? ~a : a);
    return v == 0 ? 0xffffffffu : static_cast<uint32_t>(sizeof(T) * 8 - 1 - clz(v));
}

// The same as a distance from the top.
template <class T> inline uint32_t bfind_shift(T a)
{
    const uint32_t at = bfind(a);
    return at == 0xffffffffu ? at : static_cast<uint32_t>(sizeof(T) * 8 - 1 - at);
}

template <class T> inline T brev(T a)
{
    T r = 0;
    for (unsigned i = 0; i < sizeof(T) * 8; ++i) r = static_cast<T>(r << 1 | (a >> i & 1));
    return r;
}

// Position and length are taken modulo 256.
template <class T> inline T bfe(T a, uint32_t pos, uint32_t len)
{
    using U = std::make_unsigned_t<T>;
    const uint32_t width = sizeof(T) * 8;
    pos &= 255;
    len &= 255;
    const U sign_at = static_cast<U>(pos + len - 1 < width - 1 ? pos + len - 1 : width - 1);
    const bool sign = std::is_signed<T>::value && len != 0 && (static_cast<U>(a) >> sign_at & 1);
    U v = pos >= width ? U(0) : static_cast<U>(static_cast<U>(a) >> pos);
    const uint32_t have = pos >= width ? 0 : width - pos;
    const uint32_t take = len < have ? len : have;
    const U mask = take >= width ? static_cast<U>(-1) : static_cast<U>((U(1) << take) - 1);
    v &= mask;
    return static_cast<T>(sign ? static_cast<U>(v | ~mask) : v);
}

template <class T> inline T bfi(T a, T b, uint32_t pos, uint32_t len)
{
    const uint32_t width = sizeof(T) * 8;
    pos &= 255;
    len &= 255;
    if (pos >= width || len == 0) return b;
    const T ones = len >= width ? static_cast<T>(-1) : static_cast<T>((T(1) << len) - 1);
    const T mask = static_cast<T>(ones << pos);
    return static_cast<T>((b & ~mask) | ((a << pos) & mask));
}

inline uint32_t bmsk(uint32_t pos, uint32_t len, bool wrap)
{
    if (wrap) {
        pos &= 31;
        len &= 31;
    }
    if (pos >= 32 || len == 0) return 0;
    const uint32_t ones = len >= 32 ? ~0u : (1u << len) - 1;
    return ones << pos;
}

// Sign- or zero-extends the lowest n bits.
template <class T> inline T szext(T a, uint32_t n, bool wrap)
{
    n = wrap ? n & 31 : n;
    if (n == 0) return 0;
    if (n >= 32) return a;
    return static_cast<T>(static_cast<T>(static_cast<uint32_t>(a) << (32 - n)) >> (32 - n));
}

inline uint32_t shf_l(uint32_t lo, uint32_t hi, uint32_t n, bool wrap)
{
    n = wrap ? n & 31 : n < 32 ? n : 32;
    const uint64_t v = static_cast<uint64_t>(hi) << 32 | lo;
    return static_cast<uint32_t>(v << n >> 32);
}

inline uint32_t shf_r(uint32_t lo, uint32_t hi, uint32_t n, bool wrap)
{
    n = wrap ? n & 31 : n < 32 ? n : 32;
    return static_cast<uint32_t>((static_cast<uint64_t>(hi) << 32 | lo) >> n);
}

inline uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, unsigned table)
{
    uint32_t r = 0;
    for (unsigned i = 0; i < 8; ++i) {
        if (table >> i & 1) r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    }
    return r;
}

// Byte i of the result is byte (sel >> 4i & 7) of b:a; bit 3 of a selector repeats its sign.
inline uint32_t prmt(uint32_t a, uint32_t b, uint32_t sel)
{
    const uint64_t v = static_cast<uint64_t>(b) << 32 | a;
    uint32_t r = 0;
    for (unsigned i = 0; i < 4; ++i) {
        const uint32_t s = sel >> 4 * i & 15;
        uint32_t x = static_cast<uint32_t>(v >> 8 * (s & 7)) & 255;
        if (s & 8) x = x & 128 ? 255 : 0;
        r |= x << 8 * i;
    }
    return r;
}

// The selector that a prmt mode stands for, given the last two bits of c.
enum PrmtMode { F4E, B4E, RC8, ECL, ECR, RC16 };
inline uint32_t prmt_selector(PrmtMode mode, uint32_t c)
{
    static const uint16_t table[6][4] = {
        {0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
        {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
        {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
    return table[mode][c & 3];
}

template <class A, class B> inline int32_t dp4a(uint32_t a, uint32_t b, int32_t c)
{
    uint32_t sum = static_cast<uint32_t>(c);
    for (unsigned i = 0; i < 4; ++i) {
        sum += static_cast<uint32_t>(static_cast<A>(a >> 8 * i) * static_cast<B>(b >> 8 * i));
    }
    return static_cast<int32_t>(sum);
}

template <class A, class B> inline int32_t dp2a(uint32_t a, uint32_t b, int32_t c, bool hi)
{
    const uint32_t bytes = hi ? b >> 16 : b;
    uint32_t sum = static_cast<uint32_t>(c);
    for (unsigned i = 0; i < 2; ++i) {
        sum += static_cast<uint32_t>(static_cast<A>(a >> 16 * i) * static_cast<B>(bytes >> 8 * i));
    }
    return static_cast<int32_t>(sum);
}

// a + b + carry; the carry out.
template <class T> inline T add_carry(T a, T b, bool in, bool *out)
{
    const unsigned __int128 s = static_cast<unsigned __int128>(a) + b + in;
    *out = (s >> (sizeof(T) * 8) & 1) != 0;
    return static_cast<T>(s);
}

// a - b - borrow; the borrow out.
template <class T> inline T sub_borrow(T a, T b, bool in, bool *out)
{
    const unsigned __int128 d = static_cast<unsigned __int128>(a) - b - in;
    *out = (d >> (sizeof(T) * 8) & 1) != 0;
    return static_cast<T>(d);
}

// Two 16-bit lanes at once.
template <class T, class Op> inline uint32_t lanes16(uint32_t a, uint32_t b, Op op)
{
    const auto lane = [&](unsigned s) {
        const T x = static_cast<T>(a >> s), y = static_cast<T>(b >> s);
        return static_cast<uint32_t>(static_cast<uint16_t>(op(x, y))) << s;
    };
    return lane(0) | lane(16);
}

} // namespace ptx
} // namespace cudasim
