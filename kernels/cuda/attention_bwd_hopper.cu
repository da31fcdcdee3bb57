// attention_bwd_hopper.cu -- attention, backward, for Hopper: the launcher, and the small kernels
// before and after the main one, whose page (attention_bwd_hopper.cuh) is also theirs.
//
// REGISTERS prepare 40, finish 26 (D <= 64: 30), nothing spilled.
//
// SPDX-License-Identifier: MIT
#include <cuda_bf16.h>
#include "kernels/cuda/attention_bwd_hopper_params.cuh"
#include "kernels/cuda/attention_tma.cuh"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ptx.cuh"

namespace
{

constexpr float LOG2E = 1.4426950408889634f;
enum { PREPARE_THREADS = 128, FINISH_THREADS = 256 };

struct Rows { // a tensor [B,T,H,D]
    const __nv_bfloat16 *data;
    int64_t batch, row;
};

__device__ __forceinline__ const __nv_bfloat16 *at(const Rows &x, int sample, int row, int head,
                                                   int D)
{
    return x.data + sample * x.batch + row * x.row + (int64_t)head * D;
}

__device__ __forceinline__ float dot8(const uint4 &x, const uint4 &y, float sum)
{
    const uint32_t a[4] = {x.x, x.y, x.z, x.w}, b[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        sum = __fmaf_rn(__uint_as_float(a[i] << 16), __uint_as_float(b[i] << 16), sum);
        sum = __fmaf_rn(__uint_as_float(a[i] & 0xffff0000u), __uint_as_float(b[i] & 0xffff0000u),
                        sum);
    }
    return sum;
}

// ---- before: delta, lse to base 2, the spans of keys, and turns to 0 ----------------------------
// Block (query tile, head, sample). Rows from T on get -lse = -infinity: probability 0.
template <int HEAD>
__global__ void __launch_bounds__(PREPARE_THREADS)
    attention_bwd_prepare(BwdParams a, AttentionMaskParams mask, const float *lse, Rows dout,
                          Rows out)
{
    constexpr int BM = BWD_QUERIES<HEAD>, LANES = HEAD / 8; // of a row, 8 columns each
    const int tile = blockIdx.x, head = blockIdx.y, sample = blockIdx.z;
    const int64_t bh = (int64_t)sample * a.H + head;
    float *stats = a.stats + (bh * a.q_tiles + tile) * (2 * BM);
    const int lane = (int)threadIdx.x % LANES;
    for (int r = (int)threadIdx.x / LANES; r < BM; r += PREPARE_THREADS / LANES) {
        const int row = tile * BM + r;
        float sum = 0;
        if (row < a.T && lane * 8 < a.D)
            sum = dot8(*(const uint4 *)(at(dout, sample, row, head, a.D) + lane * 8),
                       *(const uint4 *)(at(out, sample, row, head, a.D) + lane * 8), 0);
#pragma unroll
        for (int i = LANES / 2; i > 0; i /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, i);
        if (lane > 0) continue;
        const float x = row < a.T ? lse[bh * a.T + row] : -INFINITY;
        stats[r] = x == -INFINITY ? -INFINITY : -x * LOG2E; // no key: probability 0, too
        stats[BM + r] = sum;
    }
    if (threadIdx.x < 2) a.turns[(bh * a.q_tiles + tile) * 2 + threadIdx.x] = 0;
    if (head > 0) return;

    __shared__ TileSpan warps[PREPARE_THREADS / 32];
    TileSpan all = tile_span_none();
    if (threadIdx.x < BM) {
        const int row = tile * BM + (int)threadIdx.x;
        KeySpan s = {0, 0};
        if (row < a.T) {
            s = key_span(mask, sample, row);
            all = tile_span_of(s);
        }
        a.spans[((int64_t)sample * a.q_tiles + tile) * BM + threadIdx.x] =
            make_int2(s.lo, max(s.hi - s.lo, 0));
    }
    all = tile_span_warp(all);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = all;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    all = tile_span_warp(warps[threadIdx.x % (PREPARE_THREADS / 32)]);
    if (threadIdx.x == 0) a.tiles[(int64_t)sample * a.q_tiles + tile] = all;
}

// ---- after: dq = scale * sum --------------------------------------------------------------------
// Block (dQ tile, head, sample); a thread has two rows of 8 columns, out of the registers of four
// neighbours.
template <int HEAD>
__global__ void __launch_bounds__(FINISH_THREADS) attention_bwd_finish(BwdParams a, Rows dq)
{
    constexpr int BM = BWD_QUERIES<HEAD>;
    const int tile = blockIdx.x / 2, part = blockIdx.x % 2, head = blockIdx.y, sample = blockIdx.z;
    const int64_t bh = (int64_t)sample * a.H + head;
    const int group = (int)threadIdx.x % 8, line = (int)threadIdx.x / 8; // line: warp, lane / 4
    const int row = tile * BM + (HEAD == 64 ? part * 64 : 0) + line / 8 * 16 + line % 8;
    const int column = (HEAD == 64 ? 0 : part * 64) + group * 8;
    if (row >= a.T || column >= a.D) return;
    const TileSpan seen = a.tiles[(int64_t)sample * a.q_tiles + tile];
    const float4 *sum =
        (const float4 *)(a.dq + ((bh * a.q_tiles + tile) * 2 + part) * BWD_DQ_TILE) + group * 128 +
        line * 4;
    uint32_t w[2][4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float4 x = seen.lo < seen.hi ? sum[i] : make_float4(0, 0, 0, 0);
        w[0][i] = ptx::pack_bf16(x.x * a.scale, x.y * a.scale);
        w[1][i] = ptx::pack_bf16(x.z * a.scale, x.w * a.scale);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        if (row + 8 * r >= a.T) break;
        *(uint4 *)(at(dq, sample, row + 8 * r, head, a.D) + column) =
            make_uint4(w[r][0], w[r][1], w[r][2], w[r][3]);
    }
}

// ---- the launcher -------------------------------------------------------------------------------

int queries_of(int64_t D)
{
    return bwd_head(D) == 64 ? BWD_QUERIES<64> : BWD_QUERIES<128>;
}

int64_t tiles_of(int64_t n, int64_t tile)
{
    return (n + tile - 1) / tile;
}

// Places in `scratch`, 256-byte aligned; returns the bytes in all.
size_t place_scratch(BwdParams *p, const AttentionBwdArgs *a, char *scratch)
{
    const size_t queries = (size_t)queries_of(a->D);
    const size_t rows = (size_t)tiles_of(a->T, (int64_t)queries);
    const size_t heads = (size_t)(a->B * a->H) * rows;
    size_t used = 0;
    const auto take = [&](size_t bytes) {
        char *const at = scratch + used;
        used += (bytes + 255) / 256 * 256;
        return at;
    };
    p->dq = (float *)take(heads * 2 * BWD_DQ_TILE * sizeof(float));
    p->stats = (float *)take(heads * 2 * queries * sizeof(float));
    p->turns = (uint32_t *)take(heads * 2 * sizeof(uint32_t));
    p->spans = (int2 *)take((size_t)a->B * rows * queries * sizeof(int2));
    p->tiles = (TileSpan *)take((size_t)a->B * rows * sizeof(TileSpan));
    return used;
}

struct Inputs {
    Rows out, dout;
    AttentionMaskParams mask;
    const float *lse;
};

template <int HEAD>
cudaError_t run(const BwdMaps &maps, const BwdParams &p, const Inputs &in, Rows dq, int64_t B,
                cudaStream_t stream)
{
    const dim3 rows((unsigned)p.q_tiles, (unsigned)p.H, (unsigned)B);
    cudaError_t e = launch({rows, dim3(PREPARE_THREADS)}, stream, attention_bwd_prepare<HEAD>, p,
                           in.mask, in.lse, in.dout, in.out);
    if (e != cudaSuccess) return e;
    const int64_t blocks = (int64_t)p.k_tiles * p.H * B;
    e = p.drop.on ? attention_bwd_main_dropout(maps, p, blocks, stream)
                  : attention_bwd_main(maps, p, blocks, stream);
    if (e != cudaSuccess) return e;
    return launch({dim3(rows.x * 2, rows.y, rows.z), dim3(FINISH_THREADS)}, stream,
                  attention_bwd_finish<HEAD>, p, dq);
}

} // namespace

bool hopper_attention_bwd_supports(const CudaDevice *d, const AttentionBwdArgs *a, const char **why)
{
    const void *const qkv[6] = {a->dq, a->dk, a->dv, a->q, a->k, a->v};
    *why = nullptr;
    if (a->dtype != DTYPE_BF16) *why = "bf16 only";
    if (a->D > 128 || a->D % 8 != 0) *why = "head sizes up to 128, multiples of 8";
    if (d->smem_per_block < 227 * 1024) *why = "needs 227 KB of shared memory";
    if (a->T > 3584 * queries_of(a->D)) *why = "more query tiles than a block's list holds";
    if (a->B > 65535 || tiles_of(a->T, BWD_KEYS) * a->B * a->H > INT_MAX)
        *why = "more blocks than a grid holds";
    if (*why != nullptr || a->B == 0 || a->T == 0 || a->H == 0) return *why == nullptr;
    for (const void *x : qkv)
        if (*why == nullptr)
            *why = attention_map_refuses(x, a->B, a->T, a->H, a->D, a->qkv_row, a->qkv_batch);
    for (const void *x : {a->out, a->dout})
        if (*why == nullptr)
            *why = attention_map_refuses(x, a->B, a->T, a->H, a->D, a->out_row, a->out_batch);
    return *why == nullptr;
}

size_t hopper_attention_bwd_scratch(const CudaDevice *, const AttentionBwdArgs *a)
{
    BwdParams p;
    return place_scratch(&p, a, nullptr);
}

int hopper_attention_bwd(const CudaDevice *d, const AttentionBwdArgs *a, void *scratch)
{
    if (a->B == 0 || a->H == 0 || a->T == 0) return 0;
    const int head = bwd_head(a->D), queries = queries_of(a->D);
    BwdParams p = {};
    place_scratch(&p, a, (char *)scratch);
    p.T = (int)a->T;
    p.H = (int)a->H;
    p.D = (int)a->D;
    p.q_tiles = (int)tiles_of(a->T, queries);
    p.k_tiles = (int)tiles_of(a->T, BWD_KEYS);
    p.scale = a->scale;
    p.scale_log2 = a->scale * LOG2E;
    p.drop = dropout_of(a->drop);
    BwdMaps maps;
    const struct {
        CUtensorMap *map;
        const void *data;
        int64_t row, batch;
        int rows;
    } all[6] = {{&maps.q, a->q, a->qkv_row, a->qkv_batch, queries},
                {&maps.k, a->k, a->qkv_row, a->qkv_batch, BWD_KEYS},
                {&maps.v, a->v, a->qkv_row, a->qkv_batch, BWD_KEYS},
                {&maps.dout, a->dout, a->out_row, a->out_batch, queries},
                {&maps.dk, a->dk, a->qkv_row, a->qkv_batch, 64},
                {&maps.dv, a->dv, a->qkv_row, a->qkv_batch, 64}};
    for (const auto &m : all) {
        const int e =
            attention_map(m.map, a->dtype, m.data, a->B, a->T, a->H, a->D, m.row, m.batch, m.rows);
        if (e != 0) return e;
    }
    const Inputs in = {{(const __nv_bfloat16 *)a->out, a->out_batch, a->out_row},
                       {(const __nv_bfloat16 *)a->dout, a->out_batch, a->out_row},
                       attention_mask_params(a->mask, a->T, a->T, 0),
                       a->lse};
    const Rows dq = {(const __nv_bfloat16 *)a->dq, a->qkv_batch, a->qkv_row};
    return (int)(head == 64 ? run<64>(maps, p, in, dq, a->B, d->stream)
                            : run<128>(maps, p, in, dq, a->B, d->stream));
}
