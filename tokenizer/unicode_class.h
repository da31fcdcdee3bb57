// unicode_class.h -- what a code point is to the scanners: letter, number, white space, other.
//
// Unicode 16.0: L and N are general categories, space is the property White_Space; the same three
// classes tiktoken's and Hugging Face's regular expressions mean by \p{L}, \p{N} and \s.
// utf8_decode is the one reader of UTF-8 in tokenizer/: strict (no overlong form, no surrogate,
// nothing above U+10FFFF). A byte that starts no valid sequence is a character of its own, of class
// UNI_OTHER; so any bytes at all have a well-defined segmentation.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/compiler.h"

typedef enum UniClass { UNI_OTHER = 0, UNI_LETTER = 1, UNI_NUMBER = 2, UNI_SPACE = 3 } UniClass;

extern const uint8_t unicode_class_index[0x1100];
extern const uint8_t unicode_class_block[][64];

LT_INLINE UniClass unicode_class(uint32_t cp)
{
    const uint8_t four = unicode_class_block[unicode_class_index[cp >> 8]][(cp & 255) >> 2];
    return (UniClass)(four >> (2 * (cp & 3)) & 3);
}

enum { UTF8_INVALID = 0x110000 }; // + the byte: what utf8_decode makes of a byte that is no UTF-8

// The code point at p (p < end) and its length in bytes; UTF8_INVALID + byte, length 1, when no
// valid sequence starts there.
LT_INLINE uint32_t utf8_decode(const uint8_t *p, const uint8_t *end, int *bytes)
{
    const uint32_t a = p[0];
    *bytes = 1;
    if (a < 0x80) return a;
    if (a >= 0xC2 && a < 0xE0) {
        if (end - p < 2 || (p[1] & 0xC0) != 0x80) return UTF8_INVALID + a;
        *bytes = 2;
        return (a & 31) << 6 | (p[1] & 63u);
    }
    if (a >= 0xE0 && a < 0xF0) {
        if (end - p < 3 || (p[1] & 0xC0) != 0x80 || (p[2] & 0xC0) != 0x80) return UTF8_INVALID + a;
        const uint32_t cp = (a & 15) << 12 | (p[1] & 63u) << 6 | (p[2] & 63u);
        if (cp < 0x800 || (cp >= 0xD800 && cp < 0xE000)) return UTF8_INVALID + a;
        *bytes = 3;
        return cp;
    }
    if (a >= 0xF0 && a < 0xF5) {
        if (end - p < 4 || (p[1] & 0xC0) != 0x80 || (p[2] & 0xC0) != 0x80 || (p[3] & 0xC0) != 0x80)
            return UTF8_INVALID + a;
        const uint32_t cp = (a & 7) << 18 | (p[1] & 63u) << 12 | (p[2] & 63u) << 6 | (p[3] & 63u);
        if (cp < 0x10000 || cp > 0x10FFFF) return UTF8_INVALID + a;
        *bytes = 4;
        return cp;
    }
    return UTF8_INVALID + a;
}

// Writes cp (a valid code point, or UTF8_INVALID + byte) to out; returns the number of bytes.
LT_INLINE int utf8_encode(uint32_t cp, uint8_t out[4])
{
    if (cp >= UTF8_INVALID) {
        out[0] = (uint8_t)(cp - UTF8_INVALID);
        return 1;
    }
    if (cp < 0x80) {
        out[0] = (uint8_t)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (uint8_t)(0xC0 | cp >> 6);
        out[1] = (uint8_t)(0x80 | (cp & 63));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (uint8_t)(0xE0 | cp >> 12);
        out[1] = (uint8_t)(0x80 | (cp >> 6 & 63));
        out[2] = (uint8_t)(0x80 | (cp & 63));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | cp >> 18);
    out[1] = (uint8_t)(0x80 | (cp >> 12 & 63));
    out[2] = (uint8_t)(0x80 | (cp >> 6 & 63));
    out[3] = (uint8_t)(0x80 | (cp & 63));
    return 4;
}
