// matmul.cu -- matrix product with epilogue, any GPU from sm_80 on.
// Contract: kernels/ops/matmul.h    Tiles: tile.cuh
//
// WHAT    C = epilogue(op(A) op(B)), in f32 on the CUDA cores, in bf16 and f16 on the tensor cores.
// TILING  A block of 256 threads owns 128 x 128 of C and walks along k in steps of 64 bytes:
//
//                        B  k |........|           one step = 128 x 16 (f32) or 128 x 32 (16 bits)
//                             |........|           of A and of B; while step t is multiplied, t + 1
//              k              n0     n0+128        is on its way into the other half of the buffer
//           A ......    m0    +--------+           (cp.async); one barrier a step
//             ......          |   C    |
//             ......  m0+128  +--------+
//
//         A tile lies in shared memory as it does in global memory; which index is contiguous is a
//         template parameter, for A and for B. The sums leave the registers through shared memory,
//         so that a warp stores neighbours and the epilogue is one loop over elements.
//         Few tiles and a long k (weight gradients): K is cut into parts, each part's sums go to
//         scratch memory, and a second kernel adds them in order. The cut depends on the shape and
//         the GPU alone.
//         Up to 8 rows times a transposed B (generation): one warp a column, no tiles (gemv).
// COST    2 M N K FLOP. Of global memory a tile reads 256 k elements for 32768 k FLOP: 64 FLOP a
//         byte in 16 bits, 32 in f32. gemv reads B once: bound by memory.
// ROUND   f32 sums (no TF32), k in order within a part; the value is rounded when it is stored.
// SHAPES  everything the contract allows; operands at multiples of 16 bytes are copied 16 bytes at
//         a time, others by element.
// REGISTERS  (sm_80; no spills) f32 116 to 168, bf16 and f16 107 to 124, gemv 63, parts 28; 40 KB
//         of shared memory. So an SM runs one block of f32, two of 16 bits.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matmul_finish.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/tile.cuh"

namespace
{

enum {
    SIDE = 128,      // of a tile of C
    STEP_BYTES = 64, // of k, a row of a tile
    STAGE_BYTES = SIDE * (STEP_BYTES + 16),
    STORE_LD = SIDE + 4, // of the f32 sums in shared memory
    PART_MIN = 512,      // shortest part of K worth a block
    PARTS_MAX = 32,
    GEMV_M = 8,    // rows of A up to which a column is one warp's
    GEMV_ROWS = 4, // of A that a warp takes at once
    GEMV_WARPS = 8,
    GEMV_RUN = 8, // neighbours along k that a lane loads at once
};
static_assert(4 * STAGE_BYTES >= SIDE / 2 * STORE_LD * 4, "half of the sums fit");

struct MatmulPlan {
    bool vec_a, vec_b; // 16 bytes at a time
    int parts;         // of K; each writes its sums
    int64_t part_k;
    float *sums; // [parts,M,N]
};

__device__ __forceinline__ int at_most(int64_t left, int most)
{
    return (int)min(left, (int64_t)most);
}

// Where step k of A and B lies in shared memory, two stages of each.
__device__ __forceinline__ char *stage_x(char *smem, int stage)
{
    return smem + stage * 2 * STAGE_BYTES;
}
__device__ __forceinline__ char *stage_y(char *smem, int stage)
{
    return smem + (stage * 2 + 1) * STAGE_BYTES;
}

// Starts the copies of A[m0.., k..] and B[k.., n0..], k < end.
template <typename T, bool XT, bool YT>
__device__ __forceinline__ void load_step(char *smem, int stage, const MatmulArgs &a,
                                          const MatmulPlan &plan, int64_t m0, int64_t n0, int64_t k,
                                          int64_t end)
{
    constexpr int STEP = STEP_BYTES / (int)sizeof(T);
    const int rows = at_most(a.M - m0, SIDE), columns = at_most(a.N - n0, SIDE);
    const int depth = at_most(end - k, STEP);
    const T *A = static_cast<const T *>(a.A), *B = static_cast<const T *>(a.B);
    T *X = reinterpret_cast<T *>(stage_x(smem, stage));
    T *Y = reinterpret_cast<T *>(stage_y(smem, stage));
    if (XT)
        tile_load<STEP, SIDE>(X, A + k * a.lda + m0, a.lda, {0, depth}, rows, plan.vec_a);
    else
        tile_load<SIDE, STEP>(X, A + m0 * a.lda + k, a.lda, {0, rows}, depth, plan.vec_a);
    if (YT)
        tile_load<STEP, SIDE>(Y, B + k * a.ldb + n0, a.ldb, {0, depth}, columns, plan.vec_b);
    else
        tile_load<SIDE, STEP>(Y, B + n0 * a.ldb + k, a.ldb, {0, columns}, depth, plan.vec_b);
}

// XT: A is [K,M] in memory. YT: B is [K,N]. Block (tile of C, part of K).
template <typename T, bool XT, bool YT>
__global__ void __launch_bounds__(TILE_THREADS, sizeof(T) == 4 ? 1 : 2)
    matmul_kernel(const MatmulArgs a, const MatmulPlan plan)
{
    constexpr int STEP = STEP_BYTES / (int)sizeof(T), S = SIDE / TILE_SIDE;
    constexpr int LDX = tile_ld<T>(XT ? SIDE : STEP), LDY = tile_ld<T>(YT ? SIDE : STEP);
    __shared__ alignas(16) char smem[4 * STAGE_BYTES];
    const int64_t tiles_m = (a.M + SIDE - 1) / SIDE;
    const int64_t m0 = blockIdx.x % tiles_m * SIDE, n0 = blockIdx.x / tiles_m * SIDE;
    const int64_t begin = blockIdx.y * plan.part_k, end = min(begin + plan.part_k, a.K);

    TileSums<S> sum;
    tile_zero<S>(sum);
    if (begin < end) load_step<T, XT, YT>(smem, 0, a, plan, m0, n0, begin, end);
    int stage = 0;
    for (int64_t k = begin; k < end; k += STEP, stage ^= 1) {
        tile_wait<0>(); // step k is here, and nobody reads the other stage any more
        if (k + STEP < end) load_step<T, XT, YT>(smem, stage ^ 1, a, plan, m0, n0, k + STEP, end);
        tile_product<S, XT, YT>(sum, reinterpret_cast<const T *>(stage_x(smem, stage)), LDX,
                                reinterpret_cast<const T *>(stage_y(smem, stage)), LDY, STEP);
    }

    // Half of the rows at a time, which is what the buffer holds.
    float *out = reinterpret_cast<float *>(smem);
#pragma unroll 1
    for (int half = 0; half < 2; half++) {
        __syncthreads();
        if (tile_row<S, T>(0) / (SIDE / 2) == half)
            tile_store<S, T>(out - half * (SIDE / 2) * STORE_LD, STORE_LD, sum);
        __syncthreads();
#pragma unroll 1
        for (int i = threadIdx.x; i < SIDE / 2 * SIDE; i += TILE_THREADS) {
            const int r = i / SIDE, c = i % SIDE;
            const int64_t m = m0 + half * (SIDE / 2) + r, n = n0 + c;
            if (m >= a.M || n >= a.N) continue;
            const float s = out[r * STORE_LD + c];
            if (plan.parts == 1)
                finish(a, m, n, s);
            else
                plan.sums[(blockIdx.y * a.M + m) * a.N + n] = s;
        }
    }
}

// Adds the parts of K in order.
__global__ void matmul_parts_kernel(const MatmulArgs a, const MatmulPlan plan)
{
    const int64_t count = a.M * a.N;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * blockDim.x) {
        float s = 0.0f;
#pragma unroll 4
        for (int part = 0; part < plan.parts; part++) s += plan.sums[part * count + i];
        finish(a, i / a.N, i % a.N, s);
    }
}

// A [M,K] times B [N,K]: a warp owns column n of GEMV_ROWS rows of C; its lanes share out k.
__global__ void __launch_bounds__(GEMV_WARPS * WARP)
    matmul_gemv_kernel(const MatmulArgs a, const MatmulPlan plan)
{
    const int lane = threadIdx.x % WARP;
    const int64_t n = (int64_t)blockIdx.x * GEMV_WARPS + threadIdx.x / WARP;
    const int64_t m0 = (int64_t)blockIdx.y * GEMV_ROWS;
    if (n >= a.N) return;
    float sum[GEMV_ROWS] = {};
    for (int64_t k = lane * GEMV_RUN; k < a.K; k += WARP * GEMV_RUN) {
        float b[GEMV_RUN];
        load(b, a.B, a.ab_dtype, n * a.ldb + k, a.K - k, plan.vec_b);
#pragma unroll
        for (int r = 0; r < GEMV_ROWS; r++) {
            if (m0 + r >= a.M) break;
            float x[GEMV_RUN];
            load(x, a.A, a.ab_dtype, (m0 + r) * a.lda + k, a.K - k, plan.vec_a);
#pragma unroll
            for (int i = 0; i < GEMV_RUN; i++) sum[r] = fmaf(x[i], b[i], sum[r]);
        }
    }
    float mine = 0.0f;
#pragma unroll
    for (int r = 0; r < GEMV_ROWS; r++) {
        const float s = warp_sum(sum[r]);
        if (lane == r) mine = s;
    }
    if (lane < GEMV_ROWS && m0 + lane < a.M) finish(a, m0 + lane, n, mine);
}

bool is_gemv(const MatmulArgs &a)
{
    return a.M <= GEMV_M && !a.trans_a && a.trans_b;
}

// Are all rows at multiples of 16 bytes?
bool rows_aligned(const void *p, int64_t ld, DType t)
{
    return is_aligned(p) && ld * (t == DTYPE_F32 ? 4 : 2) % 16 == 0;
}

int64_t tiles_of(const MatmulArgs &a)
{
    return ((a.M + SIDE - 1) / SIDE) * ((a.N + SIDE - 1) / SIDE);
}

// Cut K when the tiles leave most of the GPU idle.
MatmulPlan plan_of(const CudaDevice &d, const MatmulArgs &a, void *scratch)
{
    MatmulPlan p = {};
    p.vec_a = rows_aligned(a.A, a.lda, a.ab_dtype);
    p.vec_b = rows_aligned(a.B, a.ldb, a.ab_dtype);
    p.sums = static_cast<float *>(scratch);
    const int64_t tiles = tiles_of(a), idle = tiles > 0 ? 2 * d.sm_count / tiles : 1;
    int64_t parts = a.K / PART_MIN;
    if (parts > idle) parts = idle;
    if (parts > PARTS_MAX) parts = PARTS_MAX;
    if (parts < 1 || is_gemv(a)) parts = 1;
    const int64_t step = STEP_BYTES / 2; // a multiple of both types' steps
    p.part_k = ((a.K + parts - 1) / parts + step - 1) / step * step;
    p.parts = p.part_k > 0 ? (int)((a.K + p.part_k - 1) / p.part_k) : 1;
    return p;
}

template <typename T>
cudaError_t run_tiles(const CudaDevice &d, const MatmulArgs &a, const MatmulPlan &plan)
{
    void (*kernel)(const MatmulArgs, const MatmulPlan) =
        a.trans_a ? (a.trans_b ? matmul_kernel<T, true, false> : matmul_kernel<T, true, true>)
                  : (a.trans_b ? matmul_kernel<T, false, false> : matmul_kernel<T, false, true>);
    const dim3 grid((unsigned)tiles_of(a), (unsigned)plan.parts);
    const cudaError_t e = launch({grid, dim3(TILE_THREADS)}, d.stream, kernel, a, plan);
    if (e != cudaSuccess || plan.parts == 1) return e;
    const int64_t blocks = (a.M * a.N + TILE_THREADS - 1) / TILE_THREADS, most = 8 * d.sm_count;
    return launch({dim3((unsigned)(blocks < most ? blocks : most)), dim3(TILE_THREADS)}, d.stream,
                  matmul_parts_kernel, a, plan);
}

} // namespace

bool cuda_matmul_supports(const CudaDevice *d, const MatmulArgs *a, const char **why)
{
    (void)d;
    const bool ok = tiles_of(*a) <= INT32_MAX && a->N / GEMV_WARPS < INT32_MAX;
    if (!ok) *why = "more than 2^31 tiles";
    return ok;
}

size_t cuda_matmul_scratch(const CudaDevice *d, const MatmulArgs *a)
{
    const MatmulPlan p = plan_of(*d, *a, nullptr);
    return p.parts > 1 ? (size_t)p.parts * (size_t)(a->M * a->N) * sizeof(float) : 0;
}

int cuda_matmul(const CudaDevice *d, const MatmulArgs *a, void *scratch)
{
    if (a->M == 0 || a->N == 0) return cudaSuccess;
    const MatmulPlan plan = plan_of(*d, *a, scratch);
    if (is_gemv(*a)) {
        const dim3 grid((unsigned)((a->N + GEMV_WARPS - 1) / GEMV_WARPS),
                        (unsigned)((a->M + GEMV_ROWS - 1) / GEMV_ROWS));
        return launch({grid, dim3(GEMV_WARPS * WARP)}, d->stream, matmul_gemv_kernel, *a, plan);
    }
    if (a->ab_dtype == DTYPE_F32) return run_tiles<float>(*d, *a, plan);
    if (a->ab_dtype == DTYPE_BF16) return run_tiles<__nv_bfloat16>(*d, *a, plan);
    return run_tiles<__half>(*d, *a, plan);
}
