// matmul_hopper_epilogue.cuh -- from the sums of a tile to C: bias, activation, old values.
// The page is matmul_hopper.cuh; the meaning of an epilogue is in kernels/ops/matmul.h.
//
// A consumer takes its 64 rows a chunk of 128 bytes of columns at a time:
//
//     registers -> (+ bias, activation, ...) -> shared memory (swizzled) -> TMA store
//
// Two buffers alternate, so that the next chunk is computed while the last one is stored. What is
// decided at run time (bias or not, which activation) is the same for all threads and is asked once
// a chunk, not once an element.
//
// Activations, with ex2 and a division, both approximate (about 2 ulp), exact enough for 16 bits:
//     gelu_tanh(x) = x s,  s = 1 / (1 + exp(-2u)),  u = sqrt(2/pi) (x + 0.044715 x^3)
//                    since (1 + tanh u) / 2 = s
//     gelu_erf(x)  = x (1 - E/2) or x E/2,  E = erfc(|x| / sqrt 2) by formula 7.1.26 of Abramowitz
//                    and Stegun, absolute error below 1.5e-7
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cuda/matmul_hopper_fp8.cuh"

namespace matmul_hopper
{

// 16-bit chunk of a thread: columns 8i + 2 (lane % 4) + {0, 1} of rows lane / 4 + 8r make the pair
// 2i + r. Accumulators 4i + 2r + {0, 1} are the same elements.
enum { PAIRS = 16 };

template <DType E> PTX_FN uint32_t pack(float lo, float hi)
{
    if constexpr (E == DTYPE_BF16)
        return pack_bf16(lo, hi);
    else
        return pack_f16(lo, hi);
}

template <DType E> PTX_FN float2 unpack(uint32_t x)
{
    if constexpr (E == DTYPE_BF16)
        return unpack_bf16(x);
    else
        return unpack_f16(x);
}

// ---- activations --------------------------------------------------------------------------------

// exp(-2u) for the tanh form: 2^(x (K1 + K2 x^2)).
PTX_FN float gelu_tanh_exp(float x)
{
    return ex2(x * (-2.302208198f + -0.1029432396f * (x * x)));
}
PTX_FN float gelu_tanh(float x)
{
    return x * __fdividef(1.f, 1.f + gelu_tanh_exp(x));
}
PTX_FN float gelu_tanh_slope(float x)
{
    const float s = __fdividef(1.f, 1.f + gelu_tanh_exp(x)); // slope = s + x s (1 - s) d(2u)/dx
    const float slope = s + s * (1.f - s) * (x * (1.5957691216f + 0.2140644488f * (x * x)));
    return fabsf(x) > 10.f ? (x > 0 ? 1.f : 0.f) : slope; // beyond, x^3 may overflow
}

struct Gauss {
    float tail, density; // erfc(|x| / sqrt 2), exp(-x^2 / 2)
};
PTX_FN Gauss gauss(float x)
{
    const float t = __fdividef(1.f, 1.f + 0.23164189f * fabsf(x)); // 0.3275911 / sqrt 2
    const float p =
        t * (0.254829592f +
             t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    const float density = ex2(-0.7213475204f * (x * x));
    return {p * density, density};
}
PTX_FN float gelu_erf(float x)
{
    return fmaxf(x, 0.f) - 0.5f * fabsf(x) * gauss(x).tail;
}
PTX_FN float gelu_erf_slope(float x)
{
    const Gauss g = gauss(x);
    return (x > 0 ? 1.f - 0.5f * g.tail : 0.5f * g.tail) + x * 0.3989422804f * g.density;
}

PTX_FN float relu(float x)
{
    return x <= 0 ? 0.f : x;
} // NaN stays
PTX_FN float relu_slope(float x)
{
    return x > 0 ? 1.f : (x <= 0 ? 0.f : x);
}

template <DType E, Activation ACT> PTX_FN void activate_as(uint32_t (&h)[PAIRS])
{
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
        const float2 x = unpack<E>(h[i]);
        if (ACT == ACT_GELU_TANH) h[i] = pack<E>(gelu_tanh(x.x), gelu_tanh(x.y));
        if (ACT == ACT_GELU_ERF) h[i] = pack<E>(gelu_erf(x.x), gelu_erf(x.y));
        if (ACT == ACT_RELU) h[i] = pack<E>(relu(x.x), relu(x.y));
    }
}

// h = act(h): the contract takes the value that aux holds, already rounded.
template <DType E> PTX_FN void activate(uint32_t (&h)[PAIRS], Activation act)
{
    switch (act) {
    case ACT_GELU_TANH: activate_as<E, ACT_GELU_TANH>(h); break;
    case ACT_GELU_ERF: activate_as<E, ACT_GELU_ERF>(h); break;
    case ACT_RELU: activate_as<E, ACT_RELU>(h); break;
    }
}

template <DType E, Activation ACT> PTX_FN void times_slope_as(float *v, const uint32_t (&h)[PAIRS])
{
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
        const float2 x = unpack<E>(h[i]);
        if (ACT == ACT_GELU_TANH) {
            v[2 * i] *= gelu_tanh_slope(x.x);
            v[2 * i + 1] *= gelu_tanh_slope(x.y);
        }
        if (ACT == ACT_GELU_ERF) {
            v[2 * i] *= gelu_erf_slope(x.x);
            v[2 * i + 1] *= gelu_erf_slope(x.y);
        }
        if (ACT == ACT_RELU) {
            v[2 * i] *= relu_slope(x.x);
            v[2 * i + 1] *= relu_slope(x.y);
        }
    }
}

// v *= act'(h)
template <DType E> PTX_FN void times_slope(float *v, const uint32_t (&h)[PAIRS], Activation act)
{
    switch (act) {
    case ACT_GELU_TANH: times_slope_as<E, ACT_GELU_TANH>(v, h); break;
    case ACT_GELU_ERF: times_slope_as<E, ACT_GELU_ERF>(v, h); break;
    case ACT_RELU: times_slope_as<E, ACT_RELU>(v, h); break;
    }
}

// ---- what the epilogue reads --------------------------------------------------------------------

PTX_FN float load_bias(const Params &p, int col)
{
    if (p.bias_dtype == DTYPE_F32) return static_cast<const float *>(p.bias)[col];
    const uint32_t x = static_cast<const uint16_t *>(p.bias)[col];
    return p.bias_dtype == DTYPE_BF16 ? unpack_bf16(x).x : unpack_f16(x).x;
}

// The tile's part of the bias, as f32, to shared memory. There is time for it while the first
// k-block is multiplied.
template <class C> PTX_FN void stage_bias(const Params &p, int n0, uint32_t dst)
{
#pragma unroll
    for (int c = threadIdx.x % WARPGROUP; c < C::BN; c += WARPGROUP)
        st_shared(dst + 4 * c, __float_as_uint(n0 + c < p.N ? load_bias(p, n0 + c) : 0.f));
}

// v += bias for COLS columns from shared memory.
template <int COLS> PTX_FN void add_bias(float *v, uint32_t bias)
{
#pragma unroll
    for (int i = 0; i < COLS / 8; ++i) {
        float2 b;
        ld_shared_v2(b.x, b.y, bias + 4 * (8 * i + 2 * (threadIdx.x % 4)));
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            v[4 * i + 2 * r] += b.x;
            v[4 * i + 2 * r + 1] += b.y;
        }
    }
}

template <DType E> PTX_FN void add_pairs(float *v, const uint32_t (&h)[PAIRS])
{
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
        const float2 x = unpack<E>(h[i]);
        v[2 * i] += x.x;
        v[2 * i + 1] += x.y;
    }
}

// A chunk of the side matrix; zero outside. row: of this thread.
PTX_FN void load_side(uint32_t (&h)[PAIRS], const Params &p, int row, int n0)
{
#pragma unroll
    for (int i = 0; i < PAIRS; ++i) {
        const int r = row + 8 * (i % 2), col = n0 + 8 * (i / 2) + 2 * (threadIdx.x % 4);
        const uint16_t *at = static_cast<const uint16_t *>(p.side) + r * p.ldc + col;
        h[i] = 0;
        if (r < p.M && col + 1 < p.N)
            h[i] = *reinterpret_cast<const uint32_t *>(at);
        else if (r < p.M && col < p.N)
            h[i] = *at;
    }
}

// ---- the way out --------------------------------------------------------------------------------

struct Out {
    uint32_t buffers; // of this consumer: 2 x CHUNK_BYTES
    uint32_t turn; // which one is next. They alternate across tiles, too: a tile may have one chunk
    uint32_t bar;  // named barrier of this consumer
};

// Wait until the next buffer is free.
PTX_FN uint32_t out_begin(Out &o)
{
    const uint32_t buffer = o.buffers + o.turn * CHUNK_BYTES;
    o.turn ^= 1;
    if (threadIdx.x % WARPGROUP == 0) bulk_wait_read<1>(); // the store before the last has read it
    bar_sync(o.bar, WARPGROUP);
    return buffer;
}

// All of the buffer is there; true for the thread that stores it.
PTX_FN bool out_staged(const Out &o)
{
    fence_async_proxy();
    bar_sync(o.bar, WARPGROUP);
    return threadIdx.x % WARPGROUP == 0;
}

PTX_FN void out_end(const Out &o, const CUtensorMap *map, uint32_t buffer, int n0, int m0, bool add)
{
    if (!out_staged(o)) return;
    if (add)
        tma_reduce_add_2d(map, buffer, n0, m0);
    else
        tma_store_2d(map, buffer, n0, m0);
    bulk_commit();
}

PTX_FN void out_16(Out &o, const CUtensorMap *map, const uint32_t (&h)[PAIRS], int n0, int m0)
{
    const uint32_t buffer = out_begin(o);
    const int lane = threadIdx.x % 32, warp = threadIdx.x % WARPGROUP / 32;
    const int row = 16 * warp + lane % 16;
#pragma unroll
    for (int i = 0; i < PAIRS / 4; ++i) { // 16 columns: four 8x8 matrices
        const int part = 2 * i + lane / 16;
        stmatrix_x4(buffer + row * 128 + ((part ^ (row & 7)) << 4), h[4 * i], h[4 * i + 1],
                    h[4 * i + 2], h[4 * i + 3]);
    }
    out_end(o, map, buffer, n0, m0, false);
}

PTX_FN void out_f32(Out &o, const CUtensorMap *map, const float *v, int n0, int m0, bool add)
{
    const uint32_t buffer = out_begin(o);
    const int lane = threadIdx.x % 32, warp = threadIdx.x % WARPGROUP / 32;
#pragma unroll
    for (int i = 0; i < 8; ++i) { // 8 columns, two rows: pair i % 2 of columns 8 (i / 2)
        const int row = 16 * warp + lane / 4 + 8 * (i % 2), part = 2 * (i / 2) + lane % 4 / 2;
        st_shared_v2(buffer + row * 128 + ((part ^ (row & 7)) << 4) + (lane & 1) * 8, v[2 * i],
                     v[2 * i + 1]);
    }
    out_end(o, map, buffer, n0, m0, add);
}

// A chunk in FP8: rows of q, then rows of its transpose.
PTX_FN void out_fp8(Out &o, const Maps &maps, const uint32_t (&w)[WORDS], const Fp8Out &out, int n0,
                    int m0)
{
    const uint32_t buffer = out_begin(o);
    if (out.q) stage_rows(buffer, w);
    if (out.qt) stage_columns(buffer + FP8_BYTES, w);
    if (!out_staged(o)) return;
    if (out.q) tma_store_2d(maps.q, buffer, n0, m0);
    if (out.qt) tma_store_2d(maps.qt, buffer + FP8_BYTES, m0, n0);
    bulk_commit();
}

// ---- a tile of one consumer ---------------------------------------------------------------------

// The first of this thread's two rows.
PTX_FN int row_of(const Work &w)
{
    return w.m0 + threadIdx.x % WARPGROUP / 32 * 16 + threadIdx.x % 32 / 4;
}

template <class C>
PTX_FN void store_f32(float (&acc)[C::REGS], const Params &p, const CUtensorMap *tc, const Work &w,
                      uint32_t bias, Out &o)
{
    constexpr int COLS = 32;
#pragma unroll
    for (int c = 0; c < C::BN / COLS; ++c) {
        const int n0 = w.n0 + c * COLS;
        if (n0 >= p.N) break;
        float *v = acc + c * (COLS / 2);
        if (p.bias) add_bias<COLS>(v, bias + 4 * c * COLS);
        out_f32(o, tc, v, n0, w.m0, p.add_f32);
    }
}

template <class C>
PTX_FN void store_16(float (&acc)[C::REGS], const Params &p, const CUtensorMap *tc, const Work &w,
                     uint32_t bias, Out &o)
{
    constexpr DType E = C::SIDE;
    constexpr int COLS = 64;
    const int row = row_of(w);
    uint32_t h[PAIRS], next[PAIRS];
    if (p.side) load_side(next, p, row, w.n0);
#pragma unroll
    for (int c = 0; c < C::BN / COLS; ++c) {
        const int n0 = w.n0 + c * COLS;
        if (n0 >= p.N) break;
        float *v = acc + c * (COLS / 2);
        if (p.bias) add_bias<COLS>(v, bias + 4 * c * COLS);
        if (p.side) {
#pragma unroll
            for (int i = 0; i < PAIRS; ++i) h[i] = next[i];
            if (c + 1 < C::BN / COLS) load_side(next, p, row, n0 + COLS); // a chunk ahead
            add_pairs<E>(v, h);
        }
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) h[i] = pack<E>(v[2 * i], v[2 * i + 1]);
        out_16(o, tc, h, n0, w.m0);
    }
}

// With an activation or its slope. Their code is long: it is there once and not once a chunk, for
// the chunk in turn is always in the first registers.
template <class C>
PTX_FN void store_act(float (&acc)[C::REGS], const Params &p, const Maps &maps, const Work &w,
                      uint32_t bias, Out &o)
{
    constexpr DType E = C::SIDE;
    constexpr int COLS = 64;
    const int row = row_of(w), end = min(w.n0 + C::BN, p.N);
    uint32_t h[PAIRS], aux[PAIRS];
    Seen seen = {};
    float scale = 0, most = 0;
    if (C::FP8 && p.out.scale) scale = p.out.scale->scale, most = p.out.scale->max;
    if (C::KIND == Kind::DGELU) load_side(aux, p, row, w.n0);
#pragma unroll 1
    for (int n0 = w.n0; n0 < end; n0 += COLS) {
        if (C::USES_BIAS && p.bias) add_bias<COLS>(acc, bias + 4 * (n0 - w.n0));
        if (C::KIND == Kind::DGELU) {
            times_slope<E>(acc, aux, p.act);
            if (n0 + COLS < end) load_side(aux, p, row, n0 + COLS); // a chunk ahead
        }
#pragma unroll
        for (int i = 0; i < PAIRS; ++i) h[i] = pack<E>(acc[2 * i], acc[2 * i + 1]);
        if (C::KIND == Kind::GELU) {
            if (p.store_aux) out_16(o, maps.aux, h, n0, w.m0);
            activate<E>(h, p.act);
        }
        if constexpr (C::FP8) {
            if (w.m0 + 64 > p.M || n0 + COLS > p.N) clear_outside(h, p, row, n0);
            if (C::KIND == Kind::DGELU && p.column_sums) sum_columns(h, p, w.m0, n0, bias, o.bar);
            if (p.out.scale) {
                uint32_t fp8[WORDS];
                quantize<C::ELEM>(fp8, seen, h, scale, most);
                out_fp8(o, maps, fp8, p.out, n0, w.m0);
            }
        }
        if (!C::FP8 || p.store_c) out_16(o, maps.c, h, n0, w.m0);
#pragma unroll
        for (int i = 0; i + 2 * PAIRS < C::REGS; ++i) acc[i] = acc[i + 2 * PAIRS];
    }
    if (C::FP8 && p.out.scale) publish(p.out, seen);
}

// w.m0 is this consumer's first row. unit: of the sums. bias: where stage_bias() put it.
template <class C>
PTX_FN void store_tile(float (&acc)[C::REGS], const Params &p, const Maps &maps, const Work &w,
                       float unit, uint32_t bias, Out &o)
{
    if (w.m0 >= p.M) return;
    if constexpr (C::FP8) {
#pragma unroll
        for (int i = 0; i < C::REGS; ++i) acc[i] *= unit;
    }
    if (C::USES_BIAS && p.bias) bar_sync(o.bar, WARPGROUP); // all of it is there
    if constexpr (C::KIND == Kind::PLAIN_F32)
        store_f32<C>(acc, p, maps.c, w, bias, o);
    else if constexpr (C::KIND == Kind::PLAIN)
        store_16<C>(acc, p, maps.c, w, bias, o);
    else
        store_act<C>(acc, p, maps, w, bias, o);
}

} // namespace matmul_hopper
