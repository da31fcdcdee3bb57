// matmul_hopper_fp8.cuh -- what the epilogue does for FP8: sums into the right unit, and a chunk of
// results into FP8, its transpose, the largest value, the counts, and sums of columns.
// The page is matmul_hopper.cuh; the meaning of it all is in kernels/ops/fp8.h.
//
// A chunk is 64 x 64 of the tile, 16 rows a warp. Of each group of 8 columns a thread has a word of
// FP8, 2 rows by 2 columns (lane = 4k + j):
//
//                     column 8i + 2j   8i + 2j + 1
//     row 16w + k         byte 0         byte 1
//     row 16w + k + 8     byte 2         byte 3
//
// Rows of q want 4 neighbours along the columns in a word, rows of its transpose 4 along the rows.
// Lanes j and j ^ 1 swap words for the one, lanes k .. k ^ 3 transpose 4 x 4 bytes for the other:
// 12 shuffles for 32 elements of a thread. Both then lie as 64 rows of 64 bytes in shared memory,
// with the swizzle for such rows, which also keeps the stores of a warp in 32 different banks, and
// leave by TMA.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cuda/matmul_hopper_loop.cuh"

namespace matmul_hopper
{

enum { WORDS = 8, FP8_BYTES = 64 * 64 }; // of FP8 of a thread, of a chunk

// ---- results beyond the edges -------------------------------------------------------------------

// Of a chunk at the edge: what is outside becomes 0, for it is neither counted nor added up, and
// qt has zeros there. row: of this thread. Pair 2i + r: see PAIRS.
template <int P> PTX_FN void clear_outside(uint32_t (&h)[P], const Params &p, int row, int n0)
{
#pragma unroll
    for (int i = 0; i < P; ++i) {
        const int r = row + 8 * (i % 2), left = p.N - (n0 + 8 * (i / 2) + 2 * (threadIdx.x % 4));
        if (r >= p.M || left < 1)
            h[i] = 0;
        else if (left == 1)
            h[i] &= 0xffff;
    }
}

// ---- to FP8 -------------------------------------------------------------------------------------

// What a thread has seen of a tile.
struct Seen {
    float largest; // finite |x|
    uint32_t nonfinite, saturated, flushed;
};

PTX_FN uint32_t not_zero(uint32_t x, uint32_t all_but_sign) // the sign bit of each element
{
    return ((x & all_but_sign) + all_but_sign) & ~all_but_sign;
}

// A chunk with something that is not finite or too large: one element after the other.
template <int P>
PTX_FN void look_closely(Seen &seen, const uint32_t (&h)[P], float scale, float most)
{
#pragma unroll
    for (int i = 0; i < 2 * P; ++i) {
        const float2 two = unpack_bf16(h[i / 2]);
        const float x = fabsf(i % 2 ? two.y : two.x);
        const bool finite = x < INFINITY;
        if (finite) seen.largest = fmaxf(seen.largest, x);
        seen.nonfinite += !finite;
        seen.saturated += finite && x * scale > most;
    }
}

// w: a chunk of bf16 in FP8.
template <DType E>
PTX_FN void quantize(uint32_t (&w)[WORDS], Seen &seen, const uint32_t (&h)[2 * WORDS], float scale,
                     float most)
{
    float top = 0;
    uint32_t of_x = 0, of_q = 0; // bits of what is not 0
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
        const float2 a = unpack_bf16(h[2 * i]), b = unpack_bf16(h[2 * i + 1]);
        top = max_nan(max_nan(top, fabsf(a.x)), fabsf(a.y));
        top = max_nan(max_nan(top, fabsf(b.x)), fabsf(b.y));
        if (E == DTYPE_E4M3)
            w[i] = pack_e4m3(a.x * scale, a.y * scale, b.x * scale, b.y * scale);
        else
            w[i] = pack_e5m2(a.x * scale, a.y * scale, b.x * scale, b.y * scale);
        of_q |= not_zero(w[i], 0x7f7f7f7f) >> i;
        of_x |= not_zero(h[2 * i], 0x7fff7fff) >> 2 * i;
        of_x |= not_zero(h[2 * i + 1], 0x7fff7fff) >> (2 * i + 1);
    }
    seen.flushed += __popc(of_x) - __popc(of_q);
    if (top * scale <= most)
        seen.largest = fmaxf(seen.largest, top);
    else // NaN comes here, too
        look_closely(seen, h, scale, most);
}

// What the warp has seen of a tile, to memory. Maxima and sums of integers: any order will do.
PTX_FN void publish(const Fp8Out &out, const Seen &seen)
{
    // The bits of floats that are not negative are in the order of their values; -1 is below all.
    const uint32_t all = 0xffffffffu, top = __reduce_max_sync(all, __float_as_uint(seen.largest));
    const uint32_t nonfinite = __reduce_add_sync(all, seen.nonfinite);
    const uint32_t saturated = __reduce_add_sync(all, seen.saturated);
    const uint32_t flushed = __reduce_add_sync(all, seen.flushed);
    if (threadIdx.x % 32 != 0) return;
    if (out.amax) atomicMax(reinterpret_cast<int *>(out.amax), (int)top);
    if (!out.count) return;
    if (nonfinite) atomicAdd(&out.count->nonfinite, nonfinite);
    if (saturated) atomicAdd(&out.count->saturated, saturated);
    if (flushed) atomicAdd(&out.count->flushed, flushed);
}

// ---- both layouts, to shared memory -------------------------------------------------------------

// 16 bytes `part` of row `row`, 64-byte swizzle.
PTX_FN uint32_t at_64(uint32_t buffer, int row, int part)
{
    return buffer + row * 64 + ((part ^ (row >> 1 & 3)) << 4);
}

// Rows of q. Even lanes take columns 8i .., odd lanes 8(i+1) .., of both rows.
PTX_FN void stage_rows(uint32_t buffer, const uint32_t (&w)[WORDS])
{
    const int lane = threadIdx.x % 32, j = lane % 4,
              row = threadIdx.x % WARPGROUP / 32 * 16 + lane / 4;
    const bool odd = j & 1;
    const uint32_t low = odd ? 0x1054 : 0x5410, high = odd ? 0x3276 : 0x7632; // left lane first
#pragma unroll
    for (int i = 0; i < WORDS; i += 2) {
        const uint32_t mine = odd ? w[i + 1] : w[i];
        const uint32_t other = __shfl_xor_sync(0xffffffffu, odd ? w[i] : w[i + 1], 1);
        const int word = 4 * (2 * (j & 1) + j / 2);
        st_shared(at_64(buffer, row, i / 2) + word, __byte_perm(mine, other, low));
        st_shared(at_64(buffer, row + 8, i / 2) + word, __byte_perm(mine, other, high));
    }
}

// Rows of the transpose: the byte (r, e) of lanes k & 4, .. + 3 is a word of row 8i + 2j + e, which
// lane k & 4 + 2r + e gets. First lanes k and k ^ 2 swap halves (r), then k and k ^ 1 bytes (e).
PTX_FN void stage_columns(uint32_t buffer, const uint32_t (&w)[WORDS])
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x % WARPGROUP / 32, j = lane % 4;
    const int e = lane >> 2 & 1, r = lane >> 3 & 1;
    const uint32_t give_r = r ? 0x5410 : 0x7632, give_e = e ? 0x6420 : 0x7531;
    const uint32_t r0 = r ? 0x3254 : 0x5410, r1 = r ? 0x3276 : 0x7610;
    const uint32_t e0 = e ? 0x3514 : 0x5240, e1 = e ? 0x3716 : 0x7260;
    const uint32_t row = 2 * j + e, at = at_64(buffer, row, warp) + 4 * (2 * r + lane / 16);
#pragma unroll
    for (int i = 0; i < WORDS; i += 2) { // the swizzle is the same in row + 8
        uint32_t x = w[i], y = w[i + 1];
        uint32_t got = __shfl_xor_sync(0xffffffffu, __byte_perm(x, y, give_r), 8);
        x = __byte_perm(x, got, r0);
        y = __byte_perm(y, got, r1);
        got = __shfl_xor_sync(0xffffffffu, __byte_perm(x, y, give_e), 4);
        st_shared(at + i * 8 * 64, __byte_perm(x, got, e0));
        st_shared(at + (i + 1) * 8 * 64, __byte_perm(y, got, e1));
    }
}

// ---- sums of columns ----------------------------------------------------------------------------

// Of 2 HALF sums keep half and add the other lane's.
template <int HALF, int P> PTX_FN void add_and_halve(float (&s)[P])
{
    const bool upper = threadIdx.x & 2 * HALF;
#pragma unroll
    for (int i = 0; i < HALF; ++i) {
        const float keep = upper ? s[i + HALF] : s[i], give = upper ? s[i] : s[i + HALF];
        s[i] = keep + __shfl_xor_sync(0xffffffffu, give, 2 * HALF);
    }
}

// The sums of a chunk's columns over its 64 rows, to a line of partial sums. Lanes that share
// columns add and halve what they keep, until lane L has columns 2L and 2L + 1; then the warps are
// added, first warp first. sums: 4 x 64 f32 of shared memory. The caller passes a barrier before it
// comes here again.
PTX_FN void sum_columns(const uint32_t (&h)[2 * WORDS], const Params &p, int m0, int n0,
                        uint32_t sums, uint32_t bar)
{
    const int t = threadIdx.x % WARPGROUP, lane = t % 32;
    float s[2 * WORDS];
#pragma unroll
    for (int i = 0; i < 2 * WORDS; i += 2) {
        const float2 a = unpack_bf16(h[i]), b = unpack_bf16(h[i + 1]);
        s[i] = a.x + b.x;
        s[i + 1] = a.y + b.y;
    }
    add_and_halve<8>(s);
    add_and_halve<4>(s);
    add_and_halve<2>(s);
    st_shared_v2(sums + t / 32 * 256 + 8 * lane, s[0], s[1]);
    bar_sync(bar, WARPGROUP);
    if (t >= 64 || n0 + t >= p.N) return;
    float total = 0;
#pragma unroll
    for (int w = 0; w < 4; ++w) total += __uint_as_float(ld_shared(sums + w * 256 + 4 * t));
    p.column_sums[(int64_t)(m0 / 64) * p.N + n0 + t] = total;
}

} // namespace matmul_hopper
