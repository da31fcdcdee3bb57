// ptx_float.h -- floating-point and conversion instructions of PTX as C++ functions.
//
// f32 and f64 in their default rounding are C++'s own operators. Values of f16 and bf16 are kept
// as their bits; they are computed with in double and rounded once (ptx_round.h). A NaN that
// arithmetic makes from NaNs keeps its payload where the hardware would give 0x7fffffff; min, max
// and the conversions give the hardware's NaN. Approximate instructions are exact to libm's last
// bit: the hardware's error of one or two bits is not modelled.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstdint>
#include <limits>
#include "tests/cudasim/ptx2c/ptx_int.h"
#include "tests/cudasim/ptx2c/ptx_round.h"
#include "tests/cudasim/src/numbers.h"

namespace cudasim
{
namespace ptx
{

// ---- f32 ----
inline float ftz(float x)
{
    const uint32_t u = as<uint32_t>(x);
    return (u & 0x7f800000) == 0 ? as<float>(u & 0x80000000) : x;
}

inline float sat(float x) // NaN becomes 0
{
    return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f;
}

inline double sat(double x)
{
    return x > 0 ? (x < 1 ? x : 1.0) : 0.0;
}

inline float neg(float x)
{
    return as<float>(as<uint32_t>(x) ^ 0x80000000);
}

inline double neg(double x)
{
    return -x;
}

inline float abs(float x)
{
    return as<float>(as<uint32_t>(x) & 0x7fffffff);
}

inline double abs(double x)
{
    return std::fabs(x);
}

template <class F> inline F canonical_nan();
template <> inline float canonical_nan<float>()
{
    return as<float>(0x7fffffffu);
}
template <> inline double canonical_nan<double>()
{
    return as<double>(0x7fffffffffffffffull);
}

// The other operand when one is NaN; +0 is larger than -0.
template <class F> inline F fmin(F a, F b)
{
    if (a < b) return a;
    if (b < a) return b;
    if (a == b) return std::signbit(a) ? a : b;
    return a == a ? a : b == b ? b : canonical_nan<F>();
}

template <class F> inline F fmax(F a, F b)
{
    if (a > b) return a;
    if (b > a) return b;
    if (a == b) return std::signbit(a) ? b : a;
    return a == a ? a : b == b ? b : canonical_nan<F>();
}

template <class F> inline F fmin_nan(F a, F b)
{
    return a != a || b != b ? canonical_nan<F>() : fmin(a, b);
}

template <class F> inline F fmax_nan(F a, F b)
{
    return a != a || b != b ? canonical_nan<F>() : fmax(a, b);
}

// .xorsign.abs: of the magnitudes, with the product of the signs.
inline float xorsign(float r, float a, float b)
{
    return as<float>((as<uint32_t>(r) & 0x7fffffff) |
                     ((as<uint32_t>(a) ^ as<uint32_t>(b)) & 0x80000000));
}

template <class F> inline F copysign(F sign, F magnitude)
{
    return std::copysign(magnitude, sign);
}

inline float add(float a, float b, Round r)
{
    const float s = a + b;
    if (r == RN || !std::isfinite(a) || !std::isfinite(b)) return s;
    if (static_cast<double>(a) + b == 0 && (a != 0 || b != 0)) return r == RM ? -0.0f : 0.0f;
    if (a == 0 && b == 0) return std::signbit(a) == std::signbit(b) ? a : r == RM ? -0.0f : 0.0f;
    return round_f32(add_odd(a, b), r);
}

inline float mul(float a, float b, Round r)
{
    if (r == RN) return a * b;
    return round_f32(static_cast<double>(a) * b, r);
}

inline float fma(float a, float b, float c, Round r)
{
    if (r == RN) return std::fma(a, b, c);
    const double p = static_cast<double>(a) * b;
    if (!std::isfinite(p) || !std::isfinite(c)) return std::fma(a, b, c);
    if (p == -static_cast<double>(c)) { // an exact zero has the sign of the direction
        if (p == 0 && std::signbit(p) == std::signbit(c)) return c;
        return r == RM ? -0.0f : 0.0f;
    }
    return round_f32(add_odd(p, c), r);
}

inline float div(float a, float b, Round r)
{
    return r == RN ? a / b : round_f32(div_odd(a, b), r);
}

inline float sqrt(float a, Round r)
{
    return r == RN ? std::sqrt(a) : round_f32(sqrt_odd(a), r);
}

inline float rsqrt(float a)
{
    return static_cast<float>(1 / std::sqrt(static_cast<double>(a)));
}

inline double add(double a, double b, Round)
{
    return a + b;
}
inline double mul(double a, double b, Round)
{
    return a * b;
}
inline double fma(double a, double b, double c, Round)
{
    return std::fma(a, b, c);
}
inline double div(double a, double b, Round)
{
    return a / b;
}
inline double sqrt(double a, Round)
{
    return std::sqrt(a);
}
inline double rsqrt(double a)
{
    return 1 / std::sqrt(a);
}

template <class F> inline bool testp(F x, int what)
{
    enum { FINITE, INFINITE, NUMBER, NOTANUMBER, NORMAL, SUBNORMAL };
    switch (what) {
    case FINITE: return std::isfinite(x);
    case INFINITE: return std::isinf(x);
    case NUMBER: return !std::isnan(x);
    case NOTANUMBER: return std::isnan(x);
    case NORMAL: return std::isnormal(x);
    default: return std::fpclassify(x) == FP_SUBNORMAL;
    }
}

// To a floating-point number without fraction.
template <class F> inline F to_integral(F x, Round r)
{
    switch (r) {
    case RZ: return std::trunc(x);
    case RM: return std::floor(x);
    case RP: return std::ceil(x);
    default: return std::nearbyint(x);
    }
}

// Saturates; what a NaN becomes depends on the types.
template <class I, class F> inline I to_int(F x, Round r)
{
    if (x != x) {
        const bool zero = sizeof(F) < 8 && sizeof(I) < 8;
        return zero ? I(0) : static_cast<I>(std::make_unsigned_t<I>(1) << (sizeof(I) * 8 - 1));
    }
    const F v = to_integral(x, r);
    const F lo = static_cast<F>(std::numeric_limits<I>::min());
    if (v <= lo) return std::numeric_limits<I>::min();
    if (v >= std::ldexp(F(1), std::numeric_limits<I>::digits)) return std::numeric_limits<I>::max();
    return static_cast<I>(v);
}

// ---- f16 and bf16, as bits ----
template <class F> inline double up(uint16_t v);
template <> inline double up<F16>(uint16_t v)
{
    return static_cast<double>(float_of_f16(v));
}
template <> inline double up<BF16>(uint16_t v)
{
    return static_cast<double>(float_of_bf16(v));
}

// Of a double that the format can hold (or an infinity or a NaN).
template <class F> inline uint16_t pack(double v);
template <> inline uint16_t pack<F16>(double v)
{
    return f16_of_float(static_cast<float>(v));
}
template <> inline uint16_t pack<BF16>(double v)
{
    return bf16_of_float(static_cast<float>(v));
}

enum Mod { PLAIN = 0, SAT = 1, RELU = 2, FTZ = 4 };

template <class F> inline bool is_nan16(uint16_t v)
{
    return (v & 0x7fff) > (((1 << (16 - F::P)) - 1) << (F::P - 1));
}

template <class F> inline double in16(uint16_t v, int mod)
{
    const bool subnormal = (v & 0x7fff) < (1 << (F::P - 1));
    return mod & FTZ && subnormal ? up<F>(v & 0x8000) : up<F>(v);
}

// Rounds an odd or exact double and applies .relu, .sat and .ftz.
template <class F> inline uint16_t out16(double odd, int mod, Round r = RN)
{
    if (odd != odd) return mod & SAT ? 0 : 0x7fff;
    if (mod & RELU && odd <= 0) odd = 0; // -0 becomes 0, too
    if (mod & SAT) odd = sat(odd);
    const uint16_t v = pack<F>(round_to<F>(odd, r));
    return mod & FTZ && (v & 0x7fff) < (1 << (F::P - 1)) ? v & 0x8000 : v;
}

template <class F> inline uint16_t add16(uint16_t a, uint16_t b, int mod)
{
    return out16<F>(add_odd(in16<F>(a, mod), in16<F>(b, mod)), mod);
}

template <class F> inline uint16_t sub16(uint16_t a, uint16_t b, int mod)
{
    return add16<F>(a, b ^ 0x8000, mod);
}

template <class F> inline uint16_t mul16(uint16_t a, uint16_t b, int mod)
{
    return out16<F>(in16<F>(a, mod) * in16<F>(b, mod), mod);
}

template <class F> inline uint16_t fma16(uint16_t a, uint16_t b, uint16_t c, int mod)
{
    return out16<F>(add_odd(in16<F>(a, mod) * in16<F>(b, mod), in16<F>(c, mod)), mod);
}

enum MinMax { MIN = 0, MAX = 1, NAN_WINS = 2, XORSIGN = 4 };
template <class F> inline uint16_t minmax16(uint16_t a, uint16_t b, int what, int mod)
{
    const uint16_t sign = (a ^ b) & 0x8000;
    if (is_nan16<F>(a) && is_nan16<F>(b)) return 0x7fff;
    if (is_nan16<F>(a) || is_nan16<F>(b)) {
        return what & NAN_WINS ? 0x7fff : is_nan16<F>(a) ? b : a;
    }
    if (what & XORSIGN) a &= 0x7fff, b &= 0x7fff;
    const double x = in16<F>(a, mod), y = in16<F>(b, mod);
    const uint16_t r = out16<F>(what & MAX ? fmax(x, y) : fmin(x, y), mod);
    return what & XORSIGN ? (r & 0x7fff) | sign : r;
}

inline uint16_t neg16(uint16_t a)
{
    return a ^ 0x8000;
}

inline uint16_t abs16(uint16_t a)
{
    return a & 0x7fff;
}

template <class F> inline uint16_t ex2_16(uint16_t a, int mod)
{
    return out16<F>(std::exp2(in16<F>(a, mod)), mod);
}

template <class F> inline uint16_t tanh_16(uint16_t a)
{
    return out16<F>(std::tanh(up<F>(a)), PLAIN);
}

// Two lanes.
template <class Op> inline uint32_t pair(uint32_t a, uint32_t b, uint32_t c, Op op)
{
    const auto lane = [&](unsigned s) {
        return static_cast<uint32_t>(op(static_cast<uint16_t>(a >> s),
                                        static_cast<uint16_t>(b >> s),
                                        static_cast<uint16_t>(c >> s)))
               << s;
    };
    return lane(0) | lane(16);
}

// ---- conversions ----
template <class F> inline uint16_t cvt16(float x, Round r, int mod)
{
    if (mod == PLAIN && r == RN) return pack<F>(x);
    return out16<F>(x, mod, r);
}

template <class F> inline uint32_t cvt16x2(float hi, float lo, Round r, int mod)
{
    return static_cast<uint32_t>(cvt16<F>(hi, r, mod)) << 16 | cvt16<F>(lo, r, mod);
}

inline float f32_of_f64(double x, Round r)
{
    return r == RN || x != x ? static_cast<float>(x) : round_f32(x, r);
}

inline uint32_t tf32_of(float x, Round r, bool relu_)
{
    if (x != x) return 0x7fffffff;
    if (relu_ && x <= 0) x = 0;
    return as<uint32_t>(static_cast<float>(round_to<TF32>(x, r)));
}

// Saturates to the largest finite number (.satfinite is the only way PTX has).
template <class F> inline uint8_t fp8_of(double x, bool relu_)
{
    const double max = F::P == 4 ? 448 : 57344;
    if (x != x) return 0x7f;
    if (relu_ && x <= 0) x = 0;
    double v = round_to<F>(x, RN);
    if (std::fabs(v) > max) v = std::copysign(max, v);
    const uint16_t h = f16_of_float(static_cast<float>(v)); // exact
    if (F::P == 3) return static_cast<uint8_t>(h >> 8);
    const uint8_t sign = static_cast<uint8_t>(h >> 8 & 0x80);
    const double a = std::fabs(v);
    if (a < 0x1p-6) return static_cast<uint8_t>(sign | static_cast<int>(a * 512));
    const int e = static_cast<int>(h >> 10 & 31) - 15;
    return static_cast<uint8_t>(sign | (e + 7) << 3 | (h >> 7 & 7));
}

template <class F> inline uint16_t fp8x2_of(double hi, double lo, bool relu_)
{
    return static_cast<uint16_t>(fp8_of<F>(hi, relu_) << 8 | fp8_of<F>(lo, relu_));
}

template <class F> inline uint16_t f16_of_fp8(uint8_t v)
{
    return F::P == 4           ? f16_of_float(float_of_e4m3(v))
           : (v & 0x7f) > 0x7c ? uint16_t(0x7fff)
                               : static_cast<uint16_t>(v << 8);
}

template <class F> inline uint32_t f16x2_of_fp8x2(uint16_t v, bool relu_)
{
    uint16_t hi = f16_of_fp8<F>(static_cast<uint8_t>(v >> 8));
    uint16_t lo = f16_of_fp8<F>(static_cast<uint8_t>(v));
    if (relu_) {
        hi = hi & 0x8000 ? 0 : hi;
        lo = lo & 0x8000 ? 0 : lo;
    }
    return static_cast<uint32_t>(hi) << 16 | lo;
}

} // namespace ptx
} // namespace cudasim
