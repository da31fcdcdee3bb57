// order.c -- see order.h.
//
// SPDX-License-Identifier: MIT
#include "engine/data/order.h"
#include "engine/base/assert.h"
#include "engine/base/rng.h"

#include <math.h>
#include <stdbool.h>

// What a Philox call is for; kept apart in the third counter word.
enum { USE_SUBKEY = 0, USE_ROUND_KEY, USE_SWAP_BIT, USE_PHASE };

static void draw(uint32_t out[4], uint64_t a, uint32_t b, uint32_t use, const uint32_t key[2])
{
    const uint32_t ctr[4] = {(uint32_t)a, (uint32_t)(a >> 32), RNG_SHUFFLE << 16 | use, b};
    rng_philox(out, ctr, key);
}

static uint64_t word64(const uint32_t w[4]) { return (uint64_t)w[0] << 32 | w[1]; }

void shuffle_init(Shuffle *s, uint64_t seed, uint64_t epoch, uint32_t source, uint64_t n)
{
    const uint32_t seed_key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t       w[4];
    draw(w, epoch, source, USE_SUBKEY, seed_key);
    s->n      = n;
    s->sub[0] = w[0];
    s->sub[1] = w[1];
    // 6 log2(n) rounds are the paper's figure for an order no test tells from random.
    int bits = 0;
    while (bits < 64 && (n >> bits) != 0) bits++;
    s->rounds = LT_MIN(6 * bits + 12, (int)ORDER_MAX_ROUNDS);
    for (int r = 0; r < s->rounds; r++) {
        draw(w, (uint64_t)r, 0, USE_ROUND_KEY, s->sub);
        s->key[r] = (uint64_t)(((unsigned __int128)word64(w) * n) >> 64);
    }
}

uint64_t shuffle_at(const Shuffle *s, uint64_t i)
{
    DASSERT(i < s->n, "shuffle_at: %llu of %llu", (unsigned long long)i, (unsigned long long)s->n);
    uint64_t x = i;
    for (int r = 0; r < s->rounds; r++) {
        const uint64_t key   = s->key[r];
        const uint64_t other = key >= x ? key - x : key + (s->n - x);
        uint32_t       w[4];
        draw(w, LT_MAX(x, other), (uint32_t)r, USE_SWAP_BIT, s->sub);
        if (w[0] & 1u) x = other;
    }
    return x;
}

void mixture_init(Mixture *m, const double *weights, int sources, uint64_t seed)
{
    ASSERT(sources >= 1 && sources <= ORDER_MAX_SOURCES, "mixture of %d sources", sources);
    const uint32_t seed_key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    m->sources                 = sources;
    double rest                = 0;
    for (int k = 0; k < sources; k++) rest += weights[k];
    for (int k = 0; k < sources; k++) {
        const double share = k == sources - 1 ? 1.0 : fmin(weights[k] / rest, 1.0);
        uint32_t     w[4];
        draw(w, (uint64_t)k, 0, USE_PHASE, seed_key);
        m->share[k] = share >= 1.0 ? UINT64_MAX : (uint64_t)(share * 0x1p64);
        m->phase[k] = word64(w);
        rest -= weights[k];
    }
}

MixtureAt mixture_at(const Mixture *m, uint64_t g)
{
    for (int k = 0; k < m->sources - 1; k++) {
        const unsigned __int128 at    = (unsigned __int128)m->share[k] * g + m->phase[k];
        const uint64_t          taken = (uint64_t)(at >> 64);
        if ((uint64_t)((at + m->share[k]) >> 64) > taken) return (MixtureAt){k, taken};
        g -= taken;
    }
    return (MixtureAt){m->sources - 1, g};
}

// How many samples have their place before sample j of source k.
static int64_t place_of(const int64_t *n, int sources, int k, int64_t j)
{
    int64_t before = j;
    for (int i = 0; i < sources; i++) {
        if (i == k) continue;
        // Sample m of source i comes first when (2m + 1) n[k] < (2j + 1) n[i], or <= for i < k.
        const unsigned __int128 mine = (unsigned __int128)(2 * j + 1) * (uint64_t)n[i] - (i > k);
        before += (int64_t)((mine + (uint64_t)n[k]) / (2 * (uint64_t)n[k]));
    }
    return before;
}

MixtureAt interleave_at(const int64_t *n, int sources, int64_t g)
{
    for (int k = 0; k < sources; k++) {
        int64_t lo = 0, hi = n[k]; // places rise with j: the first that is not before g
        while (lo < hi) {
            const int64_t mid = lo + (hi - lo) / 2;
            if (place_of(n, sources, k, mid) < g)
                lo = mid + 1;
            else
                hi = mid;
        }
        if (lo < n[k] && place_of(n, sources, k, lo) == g) return (MixtureAt){k, (uint64_t)lo};
    }
    ASSERT(false, "sample %lld is behind the last", (long long)g);
    return (MixtureAt){0, 0};
}
