// mem.c -- see mem.h.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void *mem_alloc(size_t bytes)
{
    return malloc(bytes ? bytes : 1);
}

void *mem_calloc(size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size) return NULL;
    return calloc(count ? count : 1, size ? size : 1);
}

void *mem_realloc(void *p, size_t bytes)
{
    return realloc(p, bytes ? bytes : 1);
}

void mem_free(void *p)
{
    free(p);
}

char *mem_strndup(const char *s, size_t n)
{
    char *d = mem_alloc(n + 1);
    if (!d) return NULL;
    memcpy(d, s, n);
    d[n] = 0;
    return d;
}

char *mem_strdup(const char *s)
{
    return mem_strndup(s, strlen(s));
}

void *mem_map(size_t bytes)
{
    if (!bytes) bytes = 1;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if (bytes >= (size_t)4 << 20) madvise(p, bytes, MADV_HUGEPAGE); // a wish; refusal costs nothing
    return p;
}

void mem_unmap(void *p, size_t bytes)
{
    if (p) munmap(p, bytes ? bytes : 1);
}

Status mem_err(Err *err, size_t bytes, const char *what)
{
    return err_set(err, ERR_NOMEM, "no memory for %s (%zu bytes)", what, bytes);
}
