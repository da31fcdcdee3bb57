// matmul_fp8.cu -- product of two FP8 matrices with epilogue, any GPU from sm_80 on.
// Contract: kernels/ops/matmul_fp8.h    Tiles: tile.cuh    Fast version: matmul_hopper.cuh
//
// WHAT    The plain one: to be read, to be compared with, and for GPUs and shapes that the Hopper
//         kernel does not serve. FP8 is expanded to bf16, which holds each of its numbers exactly,
//         on the way into shared memory; the tensor cores then multiply bf16 with f32 sums. So this
//         saves memory, no time.
// TILING  A block of 256 threads owns 64 x 64 of C and walks along k in steps of 64:
//
//             A 64 x 64 --expand--> X --+
//                                       +--> sums in registers --> out, 64 x 64 f32, shared
//             B 64 x 64 --expand--> Y --+
//
//         Then three passes over `out`: along rows (epilogue, C, q), along columns (the transpose),
//         and down each column (its sum, a line of partial sums; chunk_sums.cuh adds the lines).
// COST    2 M N K FLOP; a tile reads 128 k bytes for 8192 k FLOP: 64 FLOP a byte.
// ROUND   f32 sums, k in order; `fast` changes nothing.
// SHAPES  all that the contract allows.
// REGISTERS  (no spills) 67 (sm_80), 53 (sm_90); 36 KB of shared memory.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/chunk_sums.cuh"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/fp8.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matmul_finish.cuh"
#include "kernels/cuda/tile.cuh"

namespace
{

enum {
    SIDE = TILE_SIDE,  // of a tile of C
    STEP = 64,         // of k
    VECTOR = 16,       // bytes
    OUT_LD = SIDE + 4, // of the f32 sums in shared memory
};
constexpr int LD = tile_ld<__nv_bfloat16>(STEP);

struct Shared {
    __nv_bfloat16 X[SIDE * LD], Y[SIDE * LD];
    float out[SIDE * OUT_LD];
    Fp8Seen seen[GROUP_WARPS_MAX];
};

__device__ __nv_fp8_interpretation_t kind_of(DType t)
{
    return t == DTYPE_E4M3 ? __NV_E4M3 : __NV_E5M2;
}

__device__ __nv_bfloat16 expand(uint8_t q, DType t)
{
    return from_f32<__nv_bfloat16>(__half2float(__half(__nv_cvt_fp8_to_halfraw(q, kind_of(t)))));
}

// Rows r0 .. and k .. of an operand, as bf16; 0 outside. A thread takes 16 bytes of one row.
__device__ void load_tile(__nv_bfloat16 *dst, const void *src, DType t, int64_t ld, int64_t rows,
                          int64_t K, int64_t r0, int64_t k)
{
    static_assert(SIDE * STEP / VECTOR == TILE_THREADS, "one vector a thread");
    const int r = threadIdx.x / (STEP / VECTOR), c = threadIdx.x % (STEP / VECTOR) * VECTOR;
    const uint8_t *from = static_cast<const uint8_t *>(src) + (r0 + r) * ld + k + c;
    const int64_t left = r0 + r < rows ? K - (k + c) : 0;
    uint32_t word[VECTOR / 4] = {};
    if (left >= VECTOR) {
        load_words<VECTOR / 4>(word, from);
    } else {
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            if (i < left) word[i / 4] |= (uint32_t)from[i] << 8 * (i % 4);
    }
#pragma unroll
    for (int i = 0; i < VECTOR; i++)
        dst[r * LD + c + i] = expand((uint8_t)(word[i / 4] >> 8 * (i % 4)), t);
}

__device__ uint8_t to_fp8(const Fp8Out &out, float x)
{
    const float y = x * out.scale->scale;
    return (uint8_t)(out.dtype == DTYPE_E4M3 ? fp8_pair<DTYPE_E4M3>(y, y)
                                             : fp8_pair<DTYPE_E5M2>(y, y));
}

__device__ void see(const Fp8Out &out, Fp8Seen &seen, float x)
{
    const float y = x * out.scale->scale;
    if (out.dtype == DTYPE_E4M3)
        fp8_see<DTYPE_E4M3>(seen, x, y);
    else
        fp8_see<DTYPE_E5M2>(seen, x, y);
}

// The transpose of the tile's results, and, below the last tile, zeros up to the end of the row.
__device__ void store_columns(const MatmulFp8Args &a, const float *out, int64_t m0, int64_t n0)
{
    const int64_t end = m0 + SIDE < a.M ? m0 + SIDE : a.out.ld_qt;
    uint8_t *qt = static_cast<uint8_t *>(a.out.qt);
    for (int c = threadIdx.x / WARP; c < SIDE && n0 + c < a.N; c += TILE_THREADS / WARP)
        for (int64_t m = m0 + threadIdx.x % WARP; m < end; m += WARP)
            qt[(n0 + c) * a.out.ld_qt + m] =
                m < a.M ? to_fp8(a.out, out[(m - m0) * OUT_LD + c]) : 0;
}

__global__ void __launch_bounds__(TILE_THREADS)
    matmul_fp8_kernel(const MatmulFp8Args a, float *column_sums)
{
    __shared__ alignas(16) Shared sh;
    const int64_t tiles_m = (a.M + SIDE - 1) / SIDE, tile_m = blockIdx.x % tiles_m;
    const int64_t m0 = tile_m * SIDE, n0 = blockIdx.x / tiles_m * SIDE;
    TileSums<1> sum;
    tile_zero<1>(sum);
    for (int64_t k = 0; k < a.K; k += STEP) {
        load_tile(sh.X, a.A, a.a_dtype, a.lda, a.M, a.K, m0, k);
        load_tile(sh.Y, a.B, a.b_dtype, a.ldb, a.N, a.K, n0, k);
        __syncthreads();
        tile_product<1, false, false>(sum, sh.X, LD, sh.Y, LD, STEP);
        __syncthreads();
    }
    tile_store<1, __nv_bfloat16>(sh.out, OUT_LD, sum);
    __syncthreads();

    const float unit = *a.a_inv * *a.b_inv;
    Fp8Seen seen = {};
    for (int i = threadIdx.x; i < SIDE * SIDE; i += TILE_THREADS) {
        const int r = i / SIDE, c = i % SIDE;
        const int64_t m = m0 + r, n = n0 + c;
        float x = 0; // outside
        if (m < a.M && n < a.N) {
            x = finish(a, m, n, sh.out[r * OUT_LD + c] * unit);
            if (a.out.scale) {
                see(a.out, seen, x);
                if (a.out.q) static_cast<uint8_t *>(a.out.q)[m * a.out.ld_q + n] = to_fp8(a.out, x);
            }
        }
        sh.out[r * OUT_LD + c] = x;
    }
    if (a.out.scale) fp8_publish(a.out, seen, sh.seen);
    __syncthreads();
    if (a.out.scale && a.out.qt) store_columns(a, sh.out, m0, n0);
    const int c = threadIdx.x;
    if (!column_sums || c >= SIDE || n0 + c >= a.N) return;
    float total = 0;
    for (int r = 0; r < SIDE; r++) total += sh.out[r * OUT_LD + c];
    column_sums[tile_m * a.N + n0 + c] = total;
}

int64_t tiles_m(const MatmulFp8Args *a)
{
    return (a->M + SIDE - 1) / SIDE;
}

int64_t tiles(const MatmulFp8Args *a)
{
    return tiles_m(a) * ((a->N + SIDE - 1) / SIDE);
}

} // namespace

bool cuda_matmul_fp8_supports(const CudaDevice *, const MatmulFp8Args *a, const char **why)
{
    *why = "more than 2^31 tiles";
    return tiles(a) <= INT32_MAX;
}

size_t cuda_matmul_fp8_scratch(const CudaDevice *, const MatmulFp8Args *a)
{
    return a->dbias ? (size_t)(tiles_m(a) * a->N) * sizeof(float) : 0;
}

int cuda_matmul_fp8(const CudaDevice *d, const MatmulFp8Args *a, void *scratch)
{
    if (a->M == 0 || a->N == 0) return cudaSuccess;
    float *sums = a->dbias ? static_cast<float *>(scratch) : nullptr;
    const cudaError_t e = launch({dim3((unsigned)tiles(a)), dim3(TILE_THREADS)}, d->stream,
                                 matmul_fp8_kernel, *a, sums);
    if (e != cudaSuccess || !sums) return e;
    return chunk_sums(d->stream, a->dbias, nullptr, sums, tiles_m(a), a->N, a->dbias_accumulate);
}
