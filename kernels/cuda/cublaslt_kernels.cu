// cublaslt_kernels.cu -- what cuBLASLt does not do for us: an epilogue of our own, and a look at
// whether two results have the same bits.
// Contract: kernels/ops/matmul.h (the epilogue)
//
// WHAT    finish       C = epilogue(S + bias), S in f32. A thread finishes 8 columns of a row.
//         fingerprint  sum over elements of hash(position, bits) mod 2^64. Integers add up to the
//                      same in any order, so an atomic add keeps it repeatable. Two matrices that
//                      differ have equal sums with probability 2^-64.
// COST    finish reads S (4 bytes) and what the epilogue needs and writes C once: memory bound.
//         fingerprint reads the matrix once; it runs only while an algorithm is being chosen.
// RULES   No float atomics. Sizes may pass 2^31.
// SHAPES  everything the contract allows; 16 bytes at a time where rows allow it.
// REGISTERS  finish 40, fingerprint 34 (sm_90).
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/act.cuh"
#include "kernels/cuda/cublaslt_kernels.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/types.cuh"

namespace
{

enum { W = GRID_VECTOR };

__device__ __forceinline__ void round_all(float (&v)[W], DType t)
{
    const Raw<W> r = pack(v, t);
    unpack(v, r, t);
}

__global__ void __launch_bounds__(GRID_THREADS)
    finish_kernel(MatmulArgs a, const float *sums, int64_t ld, bool aligned, bool bias_aligned)
{
    const PanelStart at = panel_start();
    for (int64_t row = at.row; row < a.M; row += at.row_step) {
        for (int64_t column = at.column; column < a.N; column += at.column_step) {
            const int64_t left = a.N - column, c = row * a.ldc + column;
            float s[W] = {}, other[W];
            if (sums) load(s, sums, DTYPE_F32, row * ld + column, left, true);
            if (a.bias) {
                load(other, a.bias, a.bias_dtype, column, left, bias_aligned);
                for (int k = 0; k < W; k++) s[k] += other[k];
            }
            if (a.epilogue == MATMUL_GELU) {
                round_all(s, a.c_dtype);
                if (a.aux) store(a.aux, a.c_dtype, c, left, aligned, s);
                for (int k = 0; k < W; k++) s[k] = act_value_f32(a.act, s[k]);
            } else if (a.epilogue == MATMUL_DGELU) {
                load(other, a.aux, a.c_dtype, c, left, aligned);
                for (int k = 0; k < W; k++) s[k] *= act_slope_f32(a.act, other[k]);
            } else if (a.accumulate) {
                load(other, a.C, a.c_dtype, c, left, aligned);
                for (int k = 0; k < W; k++) s[k] += other[k];
            }
            store(a.C, a.c_dtype, c, left, aligned, s);
        }
    }
}

// splitmix64 (Steele, Lea, Flood 2014).
__device__ __forceinline__ uint64_t mixed(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

__global__ void __launch_bounds__(GRID_THREADS)
    fingerprint_kernel(const void *x, DType t, int64_t rows, int64_t cols, int64_t ld,
                       unsigned long long *out)
{
    const PanelStart at = panel_start();
    uint64_t sum = 0;
    for (int64_t row = at.row; row < rows; row += at.row_step) {
        for (int64_t column = at.column; column < cols; column += at.column_step) {
            const Raw<W> r = load_raw<W>(x, t, row * ld + column, cols - column, false);
            for (int k = 0; k < (t == DTYPE_F32 ? W : W / 2); k++)
                sum += mixed(mixed(row * cols + column + k) ^ r.word[k]);
        }
    }
    atomicAdd(out, static_cast<unsigned long long>(sum));
}

bool rows_aligned(const void *p, DType t, int64_t ld)
{
    return is_aligned(p) && ld * static_cast<int64_t>(dtype_bytes(t)) % 16 == 0;
}

} // namespace

int cublaslt_finish(const CudaDevice *d, const MatmulArgs *a, const float *sums, int64_t ld)
{
    const bool aligned = rows_aligned(a->C, a->c_dtype, a->ldc) && is_aligned(a->aux);
    return launch({.grid = panel_grid(a->M, a->N), .block = panel_block()}, d->stream,
                  finish_kernel, *a, sums, ld, aligned, is_aligned(a->bias));
}

int cublaslt_fingerprint(const CudaDevice *d, const void *x, DType t, int64_t rows, int64_t cols,
                         int64_t ld, uint64_t *out)
{
    const cudaError_t e = cudaMemsetAsync(out, 0, sizeof *out, d->stream);
    if (e != cudaSuccess) return e;
    return launch({.grid = panel_grid(rows, cols), .block = panel_block()}, d->stream,
                  fingerprint_kernel, x, t, rows, cols, ld,
                  reinterpret_cast<unsigned long long *>(out));
}
