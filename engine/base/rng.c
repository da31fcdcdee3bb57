// rng.c -- see rng.h.
//
// SPDX-License-Identifier: MIT
#include "engine/base/rng.h"
#include "engine/base/assert.h"

#include <math.h>

double rng_uniform53(uint32_t hi, uint32_t lo)
{
    return (double)((((uint64_t)hi << 32) | lo) >> 11) * 0x1p-53;
}

void rng_normal2(double out[2], uint32_t u, uint32_t v)
{
    const double radius = sqrt(-2.0 * log((u + 0.5) * 0x1p-32)); // never log(0)
    const double angle = 6.283185307179586476925286766559 * (v * 0x1p-32);
    out[0] = radius * cos(angle);
    out[1] = radius * sin(angle);
}

uint64_t rng_below(uint64_t seed, uint64_t sample, uint64_t draw, uint64_t n)
{
    ASSERT(n > 0, "rng_below: empty range");
    // Lemire's unbiased method on 64 bits: multiply, reject the short tail.
    const uint64_t reject = (0 - n) % n;
    const RngCoord at = {.seed = seed, .sample = sample, .site = RNG_SHUFFLE};
    for (uint32_t attempt = 0;; attempt++) {
        uint32_t w[4];
        RngCoord c = at;
        c.layer = attempt & 0xfff;
        c.head = (uint32_t)(draw >> 48) & 0xffff;
        rng_block(w, &c, (uint32_t)(draw >> 32), (uint32_t)draw);
        const uint64_t r = (uint64_t)w[0] << 32 | w[1];
        const unsigned __int128 m = (unsigned __int128)r * n;
        if ((uint64_t)m >= reject) return (uint64_t)(m >> 64);
    }
}

void rng_fill_normal(float *dst, int64_t n, uint64_t seed, uint32_t tensor, double std)
{
    for (int64_t i = 0; i < n; i += 4) {
        uint32_t w[4];
        const uint64_t block = (uint64_t)i / 4;
        const uint32_t ctr[4] = {(uint32_t)block, (uint32_t)(block >> 32), RNG_INIT << 16, tensor};
        const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
        rng_philox(w, ctr, key);
        double z[4];
        rng_normal2(z, w[0], w[1]);
        rng_normal2(z + 2, w[2], w[3]);
        for (int64_t k = 0; k < 4 && i + k < n; k++) dst[i + k] = (float)(z[k] * std);
    }
}
