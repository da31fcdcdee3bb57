// arena.h -- memory with a lifetime: measured first, then carved from one block.
//
//   pass 1  the builder runs against a counting arena: nothing is touched, sizes add up
//   pass 2  one block of exactly that size; the same builder runs again and gets addresses
//
// so `lathe plan` and `lathe train` cannot disagree: they are the same code. The memory itself
// comes from a device (kernels/device.h) or from mem_map; the arena only does arithmetic.
//
// Three lifetimes: run (parameters, gradients, optimizer), step (activations; mark and release),
// scratch (inside one op call). A function that allocates takes an `Arena *`.
//
// Invariants
//   (1) Every block is aligned to ARENA_ALIGN bytes.
//   (2) A counting arena hands out addresses that must not be followed.
//   (3) After arena_seal, arena_alloc is a wrong call (nothing is allocated after step 0).
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"

enum { ARENA_ALIGN = 128, ARENA_PARTS = 24 };

typedef struct ArenaPart {
    const char *name; // "weights", "gradients", ...; a string constant
    size_t bytes;
} ArenaPart;

typedef struct Arena {
    const char *name;
    char *base;  // NULL: counting
    size_t size; // of the block at base; SIZE_MAX when counting
    size_t used;
    size_t peak;
    bool sealed;
    int part; // index of the part that new blocks are booked on
    int n_part;
    ArenaPart parts[ARENA_PARTS];
} Arena;

LT_C_BEGIN
void arena_init_counting(Arena *a, const char *name);
void arena_init(Arena *a, const char *name, void *base, size_t size); // keeps base
// Book what follows under this name (a string constant).
void arena_part(Arena *a, const char *part);
// Never fails: the size was measured. Asking for more than was measured is a wrong call.
void *arena_alloc(Arena *a, size_t bytes);
size_t arena_mark(const Arena *a);
void arena_release(Arena *a, size_t mark); // everything since the mark is free again
void arena_seal(Arena *a);
bool arena_is_counting(const Arena *a);
LT_C_END
