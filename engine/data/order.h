// order.h -- in which order samples are seen: two pure functions, nothing stored.
//
// Shuffle: a keyed permutation of [0, n), one for each (seed, epoch, source). It is the
// "swap-or-not" shuffle (Hoang, Morris, Rogaway: "An enciphering scheme based on a card shuffle",
// CRYPTO 2012): round r pairs x with key[r] - x (mod n) and swaps the pair when a random bit of the
// pair says so. Each round is its own inverse, so the whole is a bijection for any n, with no
// power-of-two domain to walk out of. Random bits are Philox (rng.h).
//
// Mixture: which source serves global index g, and how many indices before g it served. Source 0 is
// split off the rest, then source 1 off what remains, and so on; each split is a line drawn through
// the grid (Bresenham), in 64-bit fixed point:
//
//     taken(g) = floor(share * g + phase)      what the split source served of the first g
//     index g is its own  <=>  taken(g + 1) > taken(g);   the rest counts g - taken(g)
//
// so any index costs O(sources), counts never go back, and after g samples each source is within a
// few samples of its share. The phase comes from the seed.
//
// Interleave: all samples of all sources once, each source in order and spread evenly over the
// whole, so that the first few (an evaluation) stand for all. Sample j of source k has its place at
// (j + 1/2) / n[k]; places are sorted, a tie goes to the earlier source.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/compiler.h"

enum { ORDER_MAX_ROUNDS = 384, ORDER_MAX_SOURCES = 64 };

typedef struct Shuffle { // a permutation; fill it with shuffle_init
    uint64_t n;
    uint32_t sub[2]; // Philox key of (seed, epoch, source)
    int      rounds;
    uint64_t key[ORDER_MAX_ROUNDS];
} Shuffle;

typedef struct Mixture {
    int      sources;
    uint64_t share[ORDER_MAX_SOURCES]; // of what the sources before it left, times 2^64
    uint64_t phase[ORDER_MAX_SOURCES];
} Mixture;

typedef struct MixtureAt {
    int      source;
    uint64_t count; // samples this source served before
} MixtureAt;

LT_C_BEGIN
void     shuffle_init(Shuffle *s, uint64_t seed, uint64_t epoch, uint32_t source, uint64_t n);
uint64_t shuffle_at(const Shuffle *s, uint64_t i); // i < n

// weights: positive, any sum; 1 <= sources <= ORDER_MAX_SOURCES.
void      mixture_init(Mixture *m, const double *weights, int sources, uint64_t seed);
MixtureAt mixture_at(const Mixture *m, uint64_t g);

// n[k] > 0: samples of source k; 0 <= g < their sum.
MixtureAt interleave_at(const int64_t *n, int sources, int64_t g);
LT_C_END
