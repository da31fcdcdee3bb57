// byte_reader.h -- the bytes of an input, from a file, a pipe or standard input, gzip undone.
//
// Compressed data is told by its first two bytes (1f 8b), whatever the name; a name that ends in
// .gz without them is an error. Several gzip members after another are one input, as gzip has it.
// A truncated or damaged member and bytes behind the last one are errors, never a shorter text.
//
// Beside engine/base/file.c this is the one place that opens files: inputs may be pipes, which can
// be neither mapped nor measured.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"

typedef struct ByteReader ByteReader;

LT_C_BEGIN
// path "-" is standard input.
LT_MUST_CHECK Status byte_reader_open(ByteReader **out, const char *path, Err *err);
// Up to `cap` bytes; *got == 0 only at the end.
LT_MUST_CHECK Status byte_reader_read(ByteReader *r, void *dst, size_t cap, size_t *got, Err *err);
uint64_t             byte_reader_consumed(const ByteReader *r); // bytes taken from the file so far
void                 byte_reader_close(ByteReader *r);          // NULL is fine
LT_C_END
