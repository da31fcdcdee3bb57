// arena.c -- see arena.h.
//
// SPDX-License-Identifier: MIT
#include "engine/base/arena.h"
#include "engine/base/assert.h"

#include <string.h>

static char *const counting_base = (char *)(uintptr_t)ARENA_ALIGN; // not NULL, never followed

void arena_init_counting(Arena *a, const char *name)
{
    *a = (Arena){.name = name, .size = SIZE_MAX, .n_part = 1, .parts = {{.name = name}}};
}

void arena_init(Arena *a, const char *name, void *base, size_t size)
{
    ASSERT(base && ((uintptr_t)base & (ARENA_ALIGN - 1)) == 0, "arena %s: base %p", name, base);
    arena_init_counting(a, name);
    a->base = base;
    a->size = size;
}

void arena_part(Arena *a, const char *part)
{
    for (int i = 0; i < a->n_part; i++) {
        if (strcmp(a->parts[i].name, part) == 0) {
            a->part = i;
            return;
        }
    }
    ASSERT(a->n_part < ARENA_PARTS, "arena %s: too many parts", a->name);
    a->part = a->n_part++;
    a->parts[a->part].name = part;
    a->parts[a->part].bytes = 0;
}

void *arena_alloc(Arena *a, size_t bytes)
{
    ASSERT(!a->sealed, "arena %s: allocation of %zu bytes after it was sealed", a->name, bytes);
    ASSERT(bytes <= SIZE_MAX / 4, "arena %s: %zu bytes", a->name, bytes);
    const size_t rounded = LT_ROUND_UP(bytes, ARENA_ALIGN);
    ASSERT(rounded <= a->size - a->used, "arena %s: %zu bytes asked, %zu of %zu used", a->name,
           bytes, a->used, a->size);
    char *p = (a->base ? a->base : counting_base) + a->used;
    a->used += rounded;
    a->parts[a->part].bytes += rounded;
    if (a->used > a->peak) a->peak = a->used;
    return p;
}

size_t arena_mark(const Arena *a)
{
    return a->used;
}

void arena_release(Arena *a, size_t mark)
{
    ASSERT(mark <= a->used, "arena %s: release to %zu of %zu", a->name, mark, a->used);
    a->used = mark;
}

void arena_seal(Arena *a)
{
    a->sealed = true;
}

bool arena_is_counting(const Arena *a)
{
    return a->base == NULL;
}
