// fuzz_memory.c -- counts the heap: malloc and its family with a book beside them.
//
// The linker sends every call of our code here (--wrap=malloc, ...); jansson is told to call
// mem_alloc. Only what libraries of the system take for themselves is not seen.
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz.h"

#include <malloc.h>
#include <stdatomic.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t bytes);
void __real_free(void *p);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t bytes);
void __wrap_free(void *p);

static atomic_llong in_use, peak; // the book; libFuzzer's own threads allocate, too

static void book(int64_t bytes)
{
    const long long now = atomic_fetch_add(&in_use, bytes) + bytes;
    long long most = atomic_load(&peak);
    while (now > most && !atomic_compare_exchange_weak(&peak, &most, now)) continue;
}

void *__wrap_malloc(size_t bytes)
{
    void *p = __real_malloc(bytes);
    book((int64_t)malloc_usable_size(p));
    return p;
}

void *__wrap_calloc(size_t count, size_t size)
{
    void *p = __real_calloc(count, size);
    book((int64_t)malloc_usable_size(p));
    return p;
}

// Old and new block may be in use together, while the bytes move.
void *__wrap_realloc(void *p, size_t bytes)
{
    const int64_t old = (int64_t)malloc_usable_size(p);
    void *q = __real_realloc(p, bytes);
    if (!q) return NULL;
    book((int64_t)malloc_usable_size(q));
    book(-old);
    return q;
}

void __wrap_free(void *p)
{
    book(-(int64_t)malloc_usable_size(p));
    __real_free(p);
}

int64_t fuzz_memory_begin(void)
{
    const long long now = atomic_load(&in_use);
    atomic_store(&peak, now);
    return now;
}

int64_t fuzz_memory_peak(void)
{
    return atomic_load(&peak);
}
