// rng.h -- random numbers as a function of coordinates, with no state.
//
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011) turns a 128-bit counter and a 64-bit key into four independent 32-bit words. lathe
// fills the counter with *where* the number is used, so that a mask is the same whatever the
// blocking, the number of ranks or the micro-batch:
//
//     key      seed (64 bits), its upper half xor the upper half of the sample index
//     ctr[0]   column / 4           one call serves four neighbouring columns
//     ctr[1]   row
//     ctr[2]   layer << 20 | site << 16 | head      (layer < 4096, site < 16, head < 65536)
//     ctr[3]   lower half of the global sample index
//
// The global sample index counts over all epochs, so masks differ between epochs.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/compiler.h"

typedef enum RngSite {
    RNG_INIT = 0,       // parameter initialisation: layer = tensor, row, column of the tensor
    RNG_SHUFFLE,        // order of samples
    RNG_DROP_EMBED,     // dropout on the embeddings: row = time, column = channel
    RNG_DROP_ATTENTION, // on the probabilities: row = query, column = key
    RNG_DROP_PROJ,      // on the attention output, before the residual
    RNG_DROP_MLP,       // on the MLP output, before the residual
    RNG_SAMPLE,         // generation
    RNG_MASK,           // masked language modelling
    RNG_DROP_HEAD,      // in front of a classifier: row = of the sample's rows that it reads
} RngSite;

typedef struct RngCoord {
    uint64_t seed;
    uint64_t sample; // global sample index
    uint32_t layer;
    uint32_t site; // RngSite
    uint32_t head;
} RngCoord;

LT_INLINE void rng_philox(uint32_t out[4], const uint32_t ctr[4], const uint32_t key[2])
{
    uint32_t c0 = ctr[0], c1 = ctr[1], c2 = ctr[2], c3 = ctr[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

// The four words for columns 4*col4 .. 4*col4+3 of `row`.
LT_INLINE void rng_block(uint32_t out[4], const RngCoord *at, uint32_t row, uint32_t col4)
{
    const uint32_t ctr[4] = {col4, row, at->layer << 20 | at->site << 16 | at->head,
                             (uint32_t)at->sample};
    const uint32_t key[2] = {(uint32_t)at->seed,
                             (uint32_t)(at->seed >> 32) ^ (uint32_t)(at->sample >> 32)};
    rng_philox(out, ctr, key);
}

// Dropout with probability p keeps an element when its word is >= this threshold. p in [0, 1).
LT_INLINE uint32_t rng_threshold(double p)
{
    return (uint32_t)(p * 4294967296.0);
}

LT_C_BEGIN
double rng_uniform53(uint32_t hi, uint32_t lo);          // [0, 1), 53 bits
void rng_normal2(double out[2], uint32_t u, uint32_t v); // two N(0,1) (Box, Muller 1958)
uint64_t rng_below(uint64_t seed, uint64_t sample, uint64_t draw, uint64_t n); // uniform in [0, n)
// n values N(0, std) in dst; value i depends on (seed, tensor, i) alone, not on n or on threads.
void rng_fill_normal(float *dst, int64_t n, uint64_t seed, uint32_t tensor, double std);
LT_C_END
