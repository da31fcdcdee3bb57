// ptx_round.h -- rounding to any small floating-point format in any direction.
//
// The trick that all of it rests on: compute in double, rounded *to odd* -- when the double is not
// exact, its last bit is made 1, so that it can never look like a tie or an exact value of a format
// with at most 51 bits -- and round that once more to the format wanted. The result is the
// correctly rounded one, in each direction, without touching the processor's rounding mode.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

namespace cudasim
{
namespace ptx
{

template <class To, class From> inline To as(From v)
{
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To t;
    memcpy(&t, &v, sizeof t);
    return t;
}

enum Round { RN, RZ, RM, RP, RNA }; // nearest even, to 0, down, up, nearest with ties away

struct F16 {
    enum { P = 11, EMIN = -14, EMAX = 15 };
};
struct BF16 {
    enum { P = 8, EMIN = -126, EMAX = 127 };
};
struct F32 {
    enum { P = 24, EMIN = -126, EMAX = 127 };
};
struct TF32 {
    enum { P = 11, EMIN = -126, EMAX = 127 };
};
struct E4M3 {
    enum { P = 4, EMIN = -6, EMAX = 8 };
};
struct E5M2 {
    enum { P = 3, EMIN = -14, EMAX = 15 };
};

// `sum` is a rounded result and `rest` what is missing to the exact one.
inline double to_odd(double sum, double rest)
{
    if (rest == 0 || !std::isfinite(sum)) return sum;
    uint64_t u = as<uint64_t>(sum);
    if (u & 1) return sum;
    if (sum == 0) return as<double>((as<uint64_t>(rest) & (1ull << 63)) | 1);
    u = (rest > 0) == (sum > 0) ? u + 1 : u - 1;
    return as<double>(u);
}

inline double add_odd(double a, double b)
{
    const double s = a + b, t = s - a;
    return to_odd(s, (a - (s - t)) + (b - t));
}

inline double div_odd(double a, double b)
{
    const double q = a / b;
    if (!std::isfinite(q) || std::isinf(b) || a == 0) return q;
    const double r = -std::fma(q, b, -a); // a - q*b
    return to_odd(q, b > 0 ? r : -r);
}

inline double sqrt_odd(double a)
{
    const double q = std::sqrt(a);
    return std::isfinite(q) ? to_odd(q, -std::fma(q, q, -a)) : q;
}

inline double of_int_odd(int64_t v)
{
    const double d = static_cast<double>(v);
    if (d >= 0x1p63) return as<double>(as<uint64_t>(d) - 1); // v is just below 2^63
    const int64_t back = static_cast<int64_t>(d);
    return to_odd(d, static_cast<double>(v - back));
}

inline double of_int_odd(uint64_t v)
{
    const double d = static_cast<double>(v);
    if (d >= 0x1p64) return as<double>(as<uint64_t>(d) - 1);
    return to_odd(d, static_cast<double>(static_cast<int64_t>(v - static_cast<uint64_t>(d))));
}

// x, rounded to odd or exact, to format F; infinite where it overflows and the direction says so.
template <class F> double round_to(double x, Round r)
{
    const uint64_t u = as<uint64_t>(x);
    const int e = static_cast<int>(u >> 52 & 2047) - 1023;
    const bool neg = u >> 63;
    if (e == 1024 || x == 0) return x;
    const int quantum = (e < F::EMIN ? static_cast<int>(F::EMIN) : e) - (F::P - 1);
    const int drop = quantum - (e - 52);
    uint64_t m = (u & ((1ull << 52) - 1)) | (e > -1023 ? 1ull << 52 : 0), keep = 0;
    bool half = false, rest = false;
    if (drop < 54) {
        keep = m >> drop;
        half = m >> (drop - 1) & 1;
        rest = (m & ((1ull << (drop - 1)) - 1)) != 0;
    } else {
        rest = true;
    }
    bool up = false;
    switch (r) {
    case RN: up = half && (rest || (keep & 1)); break;
    case RNA: up = half; break;
    case RZ: break;
    case RM: up = neg && (half || rest); break;
    case RP: up = !neg && (half || rest); break;
    }
    const double v = std::ldexp(static_cast<double>(keep + up), quantum);
    const double max = std::ldexp(2 - std::ldexp(1, 1 - F::P), F::EMAX);
    const bool to_inf = r == RN || r == RNA || (r == RM && neg) || (r == RP && !neg);
    const double a = v <= max ? v : to_inf ? static_cast<double>(INFINITY) : max;
    return neg ? -a : a;
}

inline float round_f32(double odd, Round r)
{
    return static_cast<float>(round_to<F32>(odd, r));
}

} // namespace ptx
} // namespace cudasim
