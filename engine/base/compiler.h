// compiler.h -- the few words that hide a compiler's spelling. Nothing else tests for a compiler.
//
// SPDX-License-Identifier: MIT
#pragma once

#ifdef __cplusplus
#define LT_C_BEGIN extern "C" {
#define LT_C_END   }
#else
#define LT_C_BEGIN
#define LT_C_END
#endif

#define LT_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define LT_MUST_CHECK         __attribute__((warn_unused_result))
#define LT_NORETURN           __attribute__((noreturn))
#define LT_INLINE             static inline __attribute__((always_inline, unused))
#define LT_UNUSED             __attribute__((unused))
#define LT_COUNT(array)       (sizeof(array) / sizeof((array)[0]))
#define LT_MIN(a, b)          ((a) < (b) ? (a) : (b))
#define LT_MAX(a, b)          ((a) > (b) ? (a) : (b))
#define LT_ROUND_UP(n, unit)  (((n) + (unit) - 1) / (unit) * (unit)) // to a multiple of unit
