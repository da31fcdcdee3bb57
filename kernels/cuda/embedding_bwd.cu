// embedding_bwd.cu -- gradient of the embedding tables, every sum in the order of the rows.
// Contract: kernels/ops/embedding_bwd.h
//
// WHAT    dtable[id] += the rows n of dout that have this id, in increasing n. A table whose ids
//         are given takes two kernels: the first lists the rows id by id, the second adds them up.
//         No list is needed when the ids are n % T (positions) or all 0 (one type: T = 1).
//
//             id      7 3 7 7 0 3        n = 0 .. 5
//             order   4 | 1 5 | 0 2 3    rows of id 0, 3, 7
//
// TILING  Kernel 1: block b owns a range of ids. It goes through all ids twice: once to count those
//         below its range (that is where its part of `order` begins) and each of its own, once to
//         list its own rows, in order. Then each warp takes ids of the range and picks their rows
//         out of that list. Counts and ballots keep the order; no sorting, no float atomics.
//         Kernel 2: a warp for 256 columns of the table's row. The warp of the first row of an id
//         in `order` adds up all rows of that id; the others leave. BATCH loads are on their way.
//
// COST    Kernel 1: 256 N id loads from L2. Kernel 2 reads N C elements of dout, reads and writes
//         C floats for each id that occurs: 2 N C + 8 C ids bytes in bf16. The rows of one id are
//         one chain of additions: an id with many rows takes about 100 ns a row, however wide the
//         GPU. That is the price of the contract's order, and is felt for type tables only.
// RULES   Bits are those of the reference. Integer atomics count, they order nothing.
// SHAPES  N below 2^31 - 256; any C and alignment; vectors when C is a multiple of 8.
// REGISTERS (sm_90, no spills)  32 the order; 95 the sums, 127 unaligned
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/types.cuh"

namespace
{

enum { W = GRID_VECTOR, BATCH = 8, RANGES = 256, RANGE_MAX = 8192, WARPS = GRID_THREADS / WARP };

__device__ __forceinline__ unsigned lanes_below()
{
    return (1u << threadIdx.x % WARP) - 1;
}

// Rows whose ids are in [low, low + range), in order, to list. All threads of the block take part.
__device__ __forceinline__ void list_range(int32_t *list, const int32_t *id, int32_t N, int64_t low,
                                           int32_t range)
{
    __shared__ int of_warp[WARPS];
    const int warp = threadIdx.x / WARP;
    for (int32_t n0 = 0; n0 < N; n0 += GRID_THREADS) {
        const int32_t n = n0 + static_cast<int32_t>(threadIdx.x);
        const bool mine = n < N && id[n] >= low && id[n] < low + range;
        const unsigned mask = __ballot_sync(ALL_LANES, mine);
        if (threadIdx.x % WARP == 0) of_warp[warp] = __popc(mask);
        __syncthreads();
        int before = 0, all = 0;
        for (int w = 0; w < WARPS; w++) {
            if (w < warp) before += of_warp[w];
            all += of_warp[w];
        }
        if (mine) list[before + __popc(mask & lanes_below())] = n;
        list += all;
        __syncthreads();
    }
}

// order: all rows, those with the smallest id first. list: as long, to work with.
__global__ void __launch_bounds__(GRID_THREADS)
    order_rows_kernel(int32_t *order, int32_t *list, const int32_t *id, int32_t N, int32_t range)
{
    extern __shared__ int count[]; // of each id of the range
    __shared__ GroupScratch<int> scratch[1];
    const int64_t low = static_cast<int64_t>(blockIdx.x) * range;
    for (int i = threadIdx.x; i < range; i += GRID_THREADS) count[i] = 0;
    __syncthreads();
    int below[1] = {0};
    for (int32_t n = threadIdx.x; n < N; n += GRID_THREADS) {
        const int64_t at = id[n] - low;
        below[0] += at < 0;
        if (at >= 0 && at < range) atomicAdd(&count[at], 1);
    }
    group_sum(below, scratch); // its barriers also complete the counts
    order += below[0];
    list += below[0];
    list_range(range == 1 ? order : list, id, N, low, range);
    if (range == 1) return;
    __syncthreads();
    const int lane = threadIdx.x % WARP;
    int rows = 0;
    for (int i = lane; i < range; i += WARP) rows += count[i];
    rows = warp_sum(rows);
    for (int i = threadIdx.x / WARP; i < range; i += WARPS) {
        if (count[i] == 0) continue;
        int start = 0;
        for (int k = lane; k < i; k += WARP) start += count[k];
        int32_t *to = order + warp_sum(start);
        for (int j0 = 0; j0 < rows; j0 += WARP) {
            const int32_t n = j0 + lane < rows ? list[j0 + lane] : -1;
            const bool hit = n >= 0 && id[n] == low + i;
            const unsigned mask = __ballot_sync(ALL_LANES, hit);
            if (hit) to[__popc(mask & lanes_below())] = n;
            to += __popc(mask);
        }
    }
}

struct Table {
    float *grad;          // [.., C]
    const int32_t *id;    // NULL: row n has id n % T
    const int32_t *order; // when id is given
    int64_t T;
};

// The j-th row that list i has, or -1. i: where the list begins in `order`, or the id.
__device__ __forceinline__ int64_t row_of(const Table &t, int64_t N, int64_t i, int32_t id,
                                          int64_t j)
{
    if (!t.id) return i + j * t.T < N ? i + j * t.T : -1;
    if (i + j >= N) return -1;
    const int32_t n = t.order[i + j];
    return t.id[n] == id ? n : -1;
}

template <bool ALIGNED>
__global__ void __launch_bounds__(GRID_THREADS)
    add_rows_kernel(Table t, const void *dout, DType dtype, int64_t N, int64_t C)
{
    const PanelStart at = panel_start();
    const int64_t lists = t.id || t.T > N ? N : t.T;
    for (int64_t i = at.row; i < lists; i += at.row_step) {
        const int32_t id = t.id ? t.id[t.order[i]] : static_cast<int32_t>(i);
        if (t.id && i > 0 && t.id[t.order[i - 1]] == id) continue; // not the first of its id
        for (int64_t c = at.column; c < C; c += at.column_step) {
            const int64_t left = ALIGNED ? W : C - c;
            float sum[W];
            load(sum, t.grad, DTYPE_F32, id * C + c, left, ALIGNED);
            bool more = true;
            for (int64_t j = 0; more; j += BATCH) {
                int64_t n[BATCH];
                Raw<W> x[BATCH] = {};
#pragma unroll
                for (int b = 0; b < BATCH; b++) n[b] = row_of(t, N, i, id, j + b);
#pragma unroll
                for (int b = 0; b < BATCH; b++)
                    if (n[b] >= 0) x[b] = load_raw<W>(dout, dtype, n[b] * C + c, left, ALIGNED);
#pragma unroll
                for (int b = 0; b < BATCH; b++) {
                    float v[W];
                    unpack(v, x[b], dtype);
#pragma unroll
                    for (int k = 0; k < W; k++)
                        if (n[b] >= 0) sum[k] += v[k];
                }
                more = n[BATCH - 1] >= 0;
            }
            store(t.grad, DTYPE_F32, id * C + c, left, ALIGNED, sum);
        }
    }
}

// One table. id NULL: ids are n % T. scratch: 2 N integers when ids are given.
cudaError_t add_table(const CudaDevice *d, const EmbeddingBwdArgs *a, float *grad,
                      const int32_t *id, int64_t rows, int64_t T, int32_t *scratch)
{
    const Table t = {grad, id, scratch, T};
    if (id) {
        int64_t range = (rows + RANGES - 1) / RANGES;
        if (range > RANGE_MAX) range = RANGE_MAX;
        const cudaError_t e =
            launch({.grid = dim3(grid_blocks(rows, range, INT32_MAX)),
                    .block = dim3(GRID_THREADS),
                    .smem = static_cast<size_t>(range) * sizeof(int)},
                   d->stream, order_rows_kernel, scratch, scratch + a->N, id, a->N, range);
        if (e != cudaSuccess) return e;
    }
    const bool aligned = a->C % W == 0 && is_aligned(grad) && is_aligned(a->dout);
    const int64_t lists = id || T > a->N ? a->N : T;
    return launch({.grid = panel_grid(lists, a->C), .block = panel_block()}, d->stream,
                  aligned ? add_rows_kernel<true> : add_rows_kernel<false>, t, a->dout,
                  a->dout_dtype, a->N, a->C);
}

} // namespace

bool cuda_embedding_bwd_supports(const CudaDevice *, const EmbeddingBwdArgs *a, const char **why)
{
    *why = "2^31 rows or more";
    return a->N <= INT32_MAX - GRID_THREADS; // indices of rows are int32, also one block further
}

size_t cuda_embedding_bwd_scratch(const CudaDevice *, const EmbeddingBwdArgs *a)
{
    const bool lists = a->dwte || (a->dwpe && a->position) || (a->dwtt && a->type);
    return lists ? 2 * static_cast<size_t>(a->N) * sizeof(int32_t) : 0;
}

int cuda_embedding_bwd(const CudaDevice *d, const EmbeddingBwdArgs *a, void *scratch)
{
    int32_t *order = static_cast<int32_t *>(scratch);
    cudaError_t e = cudaSuccess;
    if (a->N == 0) return e;
    if (a->dwte) e = add_table(d, a, a->dwte, a->token, a->V, 1, order);
    if (e == cudaSuccess && a->dwpe) e = add_table(d, a, a->dwpe, a->position, a->P, a->T, order);
    if (e == cudaSuccess && a->dwtt) e = add_table(d, a, a->dwtt, a->type, a->S, 1, order);
    return e;
}
