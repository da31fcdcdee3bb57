// strip.h -- moving tensors between memory and files a strip at a time: conversion of the element
// type and transposition in bounded memory, whatever the size of the tensor.
//
// Transposing through strips (a strip is some rows of the output):
//
//     memory [rows, cols]           file [cols, rows]
//     +---+-------+                 +-----------+
//     | s |       |   gather in     |  strip s  |  <- written (or read) at once
//     | t |       |   tiles of 32   +-----------+
//     | r |       |  -------------> |           |
//     +---+-------+                 +-----------+
//
// Bytes in a file may lie at any alignment; they are copied to aligned memory before use.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"
#include "engine/base/file.h"

typedef struct Strip { // working memory: two blocks of STRIP_BYTES
    void *a, *b;
} Strip;

LT_C_BEGIN
LT_MUST_CHECK Status strip_init(Strip *s, Err *err);
void strip_free(Strip *s); // also of a zeroed one
// Write src [rows, cols] of type `from` as `to`; transposed: as [cols, rows]. Types that differ
// must be f32, bf16 or f16.
LT_MUST_CHECK Status strip_write(Strip *s, FileWriter *w, const void *src, DType from, DType to,
                                 int64_t rows, int64_t cols, bool transposed, Err *err);
LT_MUST_CHECK Status strip_write_zeros(Strip *s, FileWriter *w, uint64_t bytes, Err *err);
// Fill dst [rows, cols] of type `to` from bytes of a file; transposed: they are [cols, rows].
void strip_read(Strip *s, void *dst, DType to, const uint8_t *src, DType from, int64_t rows,
                int64_t cols, bool transposed);
// Are n elements the same numbers? Are they all zero? (f32, bf16, f16)
bool strip_equal(Strip *s, const uint8_t *x, DType xt, const uint8_t *y, DType yt, int64_t n);
bool strip_is_zero(Strip *s, const uint8_t *x, DType t, int64_t n);
LT_C_END
