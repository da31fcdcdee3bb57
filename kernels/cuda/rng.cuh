// rng.cuh -- Philox4x32-10 and dropout on the GPU: the numbers of engine/base/rng.h, bit for bit.
//
//     launcher:   const Dropout drop = dropout_of(a->drop);      p, seed, layer, site
//     kernel:     const DropKey key = drop_key(drop, b, head);   once for a sample and head
//                 drop_words(w, key, row, column / 4);           four neighbouring columns
//                 y[k] = drop_apply(drop, w[k], x[k]);           0 or x / (1 - p)
//
// Which elements are dropped is the same on every device. A kept one is multiplied by 1/(1-p).
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <cuda_runtime.h>
#include "kernels/ops/dropout.h"

struct Dropout { // a DropoutSpec as a kernel takes it
    const int64_t *sample;
    uint32_t seed_low, seed_high;
    uint32_t place;     // layer << 20 | site << 16
    uint32_t threshold; // words below it are dropped
    float scale;        // 1 / (1 - p)
    bool on;            // p > 0; nothing else is set when it is off
};

struct DropKey { // of one sample and head
    uint32_t key0, key1, ctr2, ctr3;
};

inline Dropout dropout_of(const DropoutSpec &d)
{
    Dropout drop = {};
    if (!(d.p > 0)) return drop;
    drop.sample = d.sample;
    drop.seed_low = static_cast<uint32_t>(d.seed);
    drop.seed_high = static_cast<uint32_t>(d.seed >> 32);
    drop.place = d.layer << 20 | static_cast<uint32_t>(d.site) << 16;
    drop.threshold = rng_threshold(static_cast<double>(d.p));
    drop.scale = static_cast<float>(1.0 / (1.0 - static_cast<double>(d.p)));
    drop.on = true;
    return drop;
}

__device__ __forceinline__ DropKey drop_key(const Dropout &d, int64_t b, uint32_t head)
{
    const uint64_t sample = static_cast<uint64_t>(d.sample[b]);
    DropKey key;
    key.key0 = d.seed_low;
    key.key1 = d.seed_high ^ static_cast<uint32_t>(sample >> 32);
    key.ctr2 = d.place | head;
    key.ctr3 = static_cast<uint32_t>(sample);
    return key;
}

// The words of columns 4*col4 .. 4*col4+3 of `row`.
__device__ __forceinline__ void drop_words(uint32_t (&w)[4], const DropKey &key, uint32_t row,
                                           uint32_t col4)
{
    uint32_t c0 = col4, c1 = row, c2 = key.ctr2, c3 = key.ctr3, k0 = key.key0, k1 = key.key1;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * c0;
        const uint64_t p1 = static_cast<uint64_t>(0xCD9E8D57u) * c2;
        c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
        c1 = static_cast<uint32_t>(p1);
        c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
        c3 = static_cast<uint32_t>(p0);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    w[0] = c0, w[1] = c1, w[2] = c2, w[3] = c3;
}

// A dropped element is 0 even where x is NaN.
__device__ __forceinline__ float drop_apply(const Dropout &d, uint32_t word, float x)
{
    return word >= d.threshold ? x * d.scale : 0.0f;
}

// Columns c .. c+W-1 of `row`, c a multiple of 4.
template <int W>
__device__ __forceinline__ void drop_vector(float (&v)[W], const Dropout &d, const DropKey &key,
                                            uint32_t row, int64_t c)
{
#pragma unroll
    for (int k = 0; k < W; k += 4) {
        uint32_t w[4];
        drop_words(w, key, row, static_cast<uint32_t>((c + k) / 4));
#pragma unroll
        for (int i = 0; i < 4; i++) v[k + i] = drop_apply(d, w[i], v[k + i]);
    }
}
