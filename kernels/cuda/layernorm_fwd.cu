// layernorm_fwd.cu -- residual add with dropout, then layer normalisation, in one pass.
// Contract: kernels/ops/layernorm_fwd.h
//
// WHAT    r = x + drop(add), rounded as it is stored; mean and variance of r; the normalised row.
// MATH    The variance is taken around the mean, from r in registers: no cancellation.
//
// TILING  groups (grid.cuh): a row belongs to one warp up to 1,024 columns, to more warps beyond.
//         A thread keeps 4 units of 8 columns in registers through all three sweeps:
//
//             x, add -> [+] -> r -> resid_out          sweep 1, sum
//                             (r - mean)^2             sweep 2, sum
//                             (r - mean) rstd w + b    sweep 3 -> out
//
//         512 threads hold 16,384 columns, a panel. A longer row has several, and sweeps 2 and 3
//         read resid_out (or x) again, from L2 as a rule.
//
// FP8     With q a block has 32 rows (16 of long ones). Sweep 3 also makes FP8 of the rounded row:
//         q leaves from the registers, and for q^T the block's rows are gathered in shared memory:
//
//             32 rows x C bytes, each row as it is    ->    4 columns of 16 rows a thread
//                                                           (turn_bytes), 16 bytes a column
//
//         Two lanes make the 32 bytes of a column that are one sector of memory. Words of rows 16
//         to 31 lie at word ^ 16, so that the two lanes do not meet in a bank.
//         Rows too long for that, unaligned ones and E5M2 go through memory and fp8_quantize, which
//         gives the same bits.
//
// COST    reads 1-2 and writes 1-2 times N C elements: 8 bytes an element with everything in bf16.
//         q and q^T are 1 byte each: with them in place of a bf16 `out` the bytes are the same, and
//         the 4 bytes of a pass of fp8_quantize are saved.
//         weight and bias come from L1. With dropout about 350 instructions for 8 elements, where
//         132 processors at 3.35 TB/s issue 540 while memory moves them.
// RULES   A row's bits depend on C alone. resid_out may be x.
// SHAPES  any C and alignment; vectors when C is a multiple of 8.
// REGISTERS (sm_90, no spills)  118, 122 with FP8: two blocks of 256 threads a processor
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/fp8.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rng.cuh"
#include "kernels/cuda/types.cuh"

namespace
{

enum { W = GRID_VECTOR, UNITS = 4, GROUP_MAX = 512 };
enum { CELL = 16, ROWS_MAX = 2 * CELL, SMEM_OF_MANY_ROWS = 64 * 1024 };
constexpr DType FORMAT = DTYPE_E4M3; // of the fused path

// First column of unit k of this thread in a panel.
__device__ __forceinline__ int64_t column_of(int64_t panel, int k)
{
    return ((panel * UNITS + k) * blockDim.x + threadIdx.x) * W;
}

// Sweep 1: r of row n in v, and in resid_out. C = 0: there is no row.
template <bool ALIGNED>
__device__ __forceinline__ void residual(float (&v)[UNITS][W], const LayernormFwdArgs &a,
                                         const Dropout &drop, const DropKey &key, uint32_t rng_row,
                                         int64_t n, int64_t C, int64_t panel)
{
    Raw<W> x[UNITS] = {}, add[UNITS] = {};
#pragma unroll
    for (int k = 0; k < UNITS; k++) {
        const int64_t c = column_of(panel, k), left = ALIGNED ? W : C - c;
        if (c >= C) continue;
        x[k] = load_raw<W>(a.x, a.x_dtype, n * C + c, left, ALIGNED);
        if (a.add) add[k] = load_raw<W>(a.add, a.add_dtype, n * C + c, left, ALIGNED);
    }
#pragma unroll
    for (int k = 0; k < UNITS; k++) {
        const int64_t c = column_of(panel, k), left = ALIGNED ? W : C - c;
        unpack(v[k], x[k], a.x_dtype);
        if (c >= C || !a.resid_out) continue;
        if (a.add) {
            float y[W];
            unpack(y, add[k], a.add_dtype);
            if (drop.on) drop_vector(y, drop, key, rng_row, c);
#pragma unroll
            for (int i = 0; i < W; i++) v[k][i] += y[i];
        }
        const Raw<W> r = pack(v[k], a.x_dtype);
        store_raw(a.resid_out, a.x_dtype, n * C + c, left, ALIGNED, r);
        unpack(v[k], r, a.x_dtype);
    }
}

// Sweeps 2 and 3 of a row with several panels.
template <bool ALIGNED>
__device__ __forceinline__ void load_again(float (&v)[UNITS][W], const LayernormFwdArgs &a,
                                           int64_t n, int64_t C, int64_t panel)
{
    const void *r = a.resid_out ? a.resid_out : a.x;
#pragma unroll
    for (int k = 0; k < UNITS; k++) {
        const int64_t c = column_of(panel, k);
        if (c < C) load(v[k], r, a.x_dtype, n * C + c, ALIGNED ? W : C - c, ALIGNED);
    }
}

// Where a row's FP8 bytes go.
struct Bytes {
    uint32_t *words; // of shared memory, of the block's rows, or NULL: no q^T
    int64_t stride;  // words of a row, a multiple of 32
    float scale;
    Fp8Seen seen;
};

__device__ __forceinline__ uint32_t *word_of(const Bytes &b, int row, int64_t word)
{
    return b.words + row * b.stride + (word ^ (row & CELL));
}

__device__ __forceinline__ void put_eight(Bytes &b, int row, int64_t c, uint32_t low, uint32_t high)
{
    if (b.words) *reinterpret_cast<uint2 *>(word_of(b, row, c / 4)) = make_uint2(low, high);
}

// `row`: n within the block.
template <bool ALIGNED, bool QUANT>
__device__ __forceinline__ void normalise(const float (&v)[UNITS][W], const LayernormFwdArgs &a,
                                          float mean, float rstd, int64_t n, int64_t C,
                                          int64_t panel, Bytes &bytes, int row)
{
#pragma unroll
    for (int k = 0; k < UNITS; k++) {
        const int64_t c = column_of(panel, k), left = ALIGNED ? W : C - c;
        if (QUANT && C == 0 && c < a.C) put_eight(bytes, row, c, 0, 0); // behind the last row
        if (c >= C) continue;
        float w[W], b[W] = {}, y[W];
        load(w, a.weight, a.w_dtype, c, left, ALIGNED);
        if (a.bias) load(b, a.bias, a.w_dtype, c, left, ALIGNED);
#pragma unroll
        for (int i = 0; i < W; i++) y[i] = (v[k][i] - mean) * rstd * w[i] + b[i];
        const Raw<W> out = pack(y, a.out_dtype);
        if (!QUANT || a.out) store_raw(a.out, a.out_dtype, n * C + c, left, ALIGNED, out);
        if (!QUANT) continue;
        unpack(y, out, a.out_dtype);
        const uint32_t low = fp8_four<FORMAT>(bytes.seen, y, bytes.scale);
        const uint32_t high = fp8_four<FORMAT>(bytes.seen, y + 4, bytes.scale);
        if (a.q.q) fp8_store_eight(a.q, n, c, left, low, high);
        put_eight(bytes, row, c, low, high);
    }
}

// Row n of the tensor, or none: then the group goes through the barriers.
template <bool ALIGNED, bool QUANT>
__device__ __forceinline__ void one_row(const LayernormFwdArgs &a, const Dropout &drop, int64_t n,
                                        GroupScratch<float> (&scratch)[1], Bytes &bytes, int row)
{
    const int64_t width = static_cast<int64_t>(blockDim.x) * UNITS * W;
    const int64_t panels = QUANT ? 1 : (a.C + width - 1) / width;
    const int64_t C = n < a.N ? a.C : 0;
    DropKey key = {};
    uint32_t rng_row = 0;
    if (drop.on && C > 0) {
        const int64_t b = n / a.T;
        key = drop_key(drop, b, 0);
        rng_row = static_cast<uint32_t>(a.row0 + (n - b * a.T));
    }
    float v[UNITS][W], sum[1] = {0}, squares[1] = {0};
    for (int64_t p = 0; p < panels; p++) {
        residual<ALIGNED>(v, a, drop, key, rng_row, n, C, p);
#pragma unroll
        for (int k = 0; k < UNITS; k++)
#pragma unroll
            for (int i = 0; i < W; i++) sum[0] += v[k][i]; // 0 behind the row
    }
    group_sum(sum, scratch);
    const float mean = sum[0] / static_cast<float>(a.C);
    for (int64_t p = 0; p < panels; p++) {
        if (panels > 1) load_again<ALIGNED>(v, a, n, C, p);
#pragma unroll
        for (int k = 0; k < UNITS; k++) {
            const int64_t c = column_of(p, k);
#pragma unroll
            for (int i = 0; i < W; i++) {
                const float x = v[k][i] - mean;
                if (ALIGNED ? c < C : c + i < C) squares[0] += x * x;
            }
        }
    }
    group_sum(squares, scratch);
    const float rstd = 1.0f / sqrtf(squares[0] / static_cast<float>(a.C) + a.eps);
    for (int64_t p = 0; p < panels; p++) {
        if (panels > 1) load_again<ALIGNED>(v, a, n, C, p);
        normalise<ALIGNED, QUANT>(v, a, mean, rstd, n, C, p, bytes, row);
    }
    if (threadIdx.x == 0 && C > 0) {
        if (a.mean) a.mean[n] = mean;
        if (a.rstd) a.rstd[n] = rstd;
    }
}

template <bool ALIGNED>
__global__ void __launch_bounds__(GROUP_MAX) layernorm_fwd_kernel(LayernormFwdArgs a, Dropout drop)
{
    __shared__ GroupScratch<float> scratch[1];
    Bytes none = {};
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
    int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.y;
    for (; first < a.N; first += step)
        one_row<ALIGNED, false>(a, drop, first + threadIdx.y, scratch, none, 0);
}

// The block's rows to q^T, from row n0 on: a thread turns 4 columns of 16 rows.
__device__ __forceinline__ void store_turned(const Fp8Out &q, const Bytes &bytes, int rows,
                                             int64_t n0, int64_t C)
{
    const int cells = rows / CELL, threads = blockDim.x * blockDim.y;
    const int items = static_cast<int>((C / 4 + CELL - 1) / CELL) * CELL * cells;
    for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < items; i += threads) {
        const int word = i / (CELL * cells) * CELL + i % CELL, cell = i / CELL % cells;
        const int64_t n = n0 + cell * CELL;
        if (word >= C / 4 || n >= q.ld_qt) continue;
        uint32_t column[4][4];
#pragma unroll
        for (int g = 0; g < 4; g++) {
            uint32_t w[4];
#pragma unroll
            for (int k = 0; k < 4; k++) w[k] = *word_of(bytes, cell * CELL + 4 * g + k, word);
            turn_bytes(w);
#pragma unroll
            for (int k = 0; k < 4; k++) column[k][g] = w[k];
        }
#pragma unroll
        for (int k = 0; k < 4; k++)
            store_words<4>(static_cast<uint8_t *>(q.qt) + (4 * word + k) * q.ld_qt + n, column[k]);
    }
}

// A block has `rows` rows, of the tensor or, where there are more, of q^T.
__global__ void __launch_bounds__(GROUP_MAX)
    layernorm_fwd_fp8_kernel(LayernormFwdArgs a, Dropout drop, int rows)
{
    extern __shared__ uint4 memory[];
    __shared__ GroupScratch<float> scratch[1];
    __shared__ Fp8Seen of_warp[GROUP_WARPS_MAX];
    uint32_t *words = a.q.qt ? reinterpret_cast<uint32_t *>(memory) : nullptr;
    Bytes bytes = {words, (a.C + 127) / 128 * 32, a.q.scale->scale, {}};
    const int64_t n0 = static_cast<int64_t>(blockIdx.x) * rows;
    for (int row = threadIdx.y; row < rows; row += blockDim.y)
        one_row<true, true>(a, drop, n0 + row, scratch, bytes, row);
    if (words) {
        __syncthreads();
        store_turned(a.q, bytes, rows, n0, a.C);
    }
    fp8_publish(a.q, bytes.seen, of_warp);
}

bool aligned(const LayernormFwdArgs *a)
{
    return a->C % W == 0 && is_aligned(a->out) && is_aligned(a->resid_out) && is_aligned(a->x) &&
           is_aligned(a->add) && is_aligned(a->weight) && is_aligned(a->bias);
}

size_t smem_of(const LayernormFwdArgs *a, int rows)
{
    return static_cast<size_t>(rows) * static_cast<size_t>((a->C + 127) / 128 * 128);
}

// Rows of a block that writes FP8 itself; 0: it does not.
int fused_rows(const CudaDevice *d, const LayernormFwdArgs *a)
{
    const size_t most = static_cast<size_t>(d->smem_per_block) - 1024; // what is static fits
    if (!a->q.scale || a->q.dtype != FORMAT || !aligned(a) || a->C > GROUP_MAX * UNITS * W)
        return 0;
    if (smem_of(a, ROWS_MAX) <= SMEM_OF_MANY_ROWS) return ROWS_MAX;
    return smem_of(a, CELL) <= most ? CELL : 0;
}

cudaError_t start_fused(const CudaDevice *d, const LayernormFwdArgs *a, const Dropout &drop,
                        int rows)
{
    const int64_t total = a->q.qt && a->q.ld_qt > a->N ? a->q.ld_qt : a->N;
    return launch({.grid = dim3(grid_blocks(total, rows, INT32_MAX)),
                   .block = group_block(a->C, UNITS, GROUP_MAX),
                   .smem = a->q.qt ? smem_of(a, rows) : 0},
                  d->stream, layernorm_fwd_fp8_kernel, *a, drop, rows);
}

cudaError_t start_plain(const CudaDevice *d, const LayernormFwdArgs *a, const Dropout &drop)
{
    const dim3 block = group_block(a->C, UNITS, GROUP_MAX);
    return launch({.grid = dim3(grid_blocks(a->N, block.y, INT32_MAX)), .block = block}, d->stream,
                  aligned(a) ? layernorm_fwd_kernel<true> : layernorm_fwd_kernel<false>, *a, drop);
}

} // namespace

bool cuda_layernorm_fwd_supports(const CudaDevice *, const LayernormFwdArgs *, const char **)
{
    return true;
}

// `out`, where it goes through memory and nobody else wants it.
size_t cuda_layernorm_fwd_scratch(const CudaDevice *d, const LayernormFwdArgs *a)
{
    if (!a->q.scale || a->out || fused_rows(d, a) > 0) return 0;
    return static_cast<size_t>(a->N * a->C) * dtype_bytes(a->out_dtype);
}

int cuda_layernorm_fwd(const CudaDevice *d, const LayernormFwdArgs *a, void *scratch)
{
    Dropout drop = {};
    if (a->add) drop = dropout_of(a->drop);
    const int rows = fused_rows(d, a);
    if (a->N == 0) return cudaSuccess;
    if (rows > 0) return start_fused(d, a, drop, rows);
    LayernormFwdArgs plain = *a;
    if (!a->out) plain.out = scratch;
    const cudaError_t e = start_plain(d, &plain, drop);
    if (e != cudaSuccess || !a->q.scale) return e;
    Fp8QuantizeArgs quantize = {};
    quantize.out = a->q;
    quantize.src = plain.out;
    quantize.R = a->N;
    quantize.C = quantize.ld = a->C;
    quantize.src_dtype = a->out_dtype;
    return cuda_fp8_quantize(d, &quantize, nullptr); // needs no scratch for this
}
