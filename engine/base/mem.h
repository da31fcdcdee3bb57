// mem.h -- the heap, in one place, so that accounting and fault injection have one door.
//
// For parsers and tables whose size is known only while they are read. Tensors and everything a
// training step touches live in arenas (arena.h). All calls return NULL when memory is out; the
// caller turns that into ERR_NOMEM with the size in the text (mem_err does it).
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stddef.h>
#include "engine/base/err.h"

LT_C_BEGIN
void *mem_alloc(size_t bytes);               // 0 bytes gives a unique pointer
void *mem_calloc(size_t count, size_t size); // zeroed; NULL when the product overflows
void *mem_realloc(void *p, size_t bytes);    // p keeps its value on failure
void mem_free(void *p);                      // NULL is fine
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n);
// Whole pages from the kernel, zero filled, huge pages asked for: the memory behind arenas.
void *mem_map(size_t bytes);
void mem_unmap(void *p, size_t bytes);
Status mem_err(Err *err, size_t bytes, const char *what); // ERR_NOMEM, "no memory for ..."
LT_C_END
