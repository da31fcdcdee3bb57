// matmul_fp8_hopper.cu -- which FP8 products the Hopper matrix product serves, and their launch.
// The page is matmul_hopper.cuh; contract: kernels/ops/matmul_fp8.h.
//
// Shapes, tile and parts of K are those of a MatmulArgs with FP8 operands. What is refused runs as
// "cuda" (matmul_fp8.cu): among others e4m3 operands that are not `fast`, which no layer has.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/chunk_sums.cuh"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/matmul_hopper.cuh"
#include "kernels/cuda/tma.cuh"

using namespace matmul_hopper;

namespace
{

enum { SUM_ROWS = 64 }; // of a line of column sums

MatmulArgs shapes_of(const MatmulFp8Args *a)
{
    MatmulArgs s = {};
    s.C = a->C, s.A = a->A, s.B = a->B, s.bias = a->bias, s.aux = a->aux;
    s.M = a->M, s.N = a->N, s.K = a->K, s.lda = a->lda, s.ldb = a->ldb, s.ldc = a->ldc;
    s.trans_b = true;
    s.accumulate = a->accumulate;
    s.epilogue = a->epilogue;
    s.act = a->act;
    s.ab_dtype = a->a_dtype, s.c_dtype = a->c_dtype, s.bias_dtype = a->bias_dtype;
    return s;
}

int64_t sum_lines(const MatmulFp8Args *a)
{
    return a->dbias ? (a->M + SUM_ROWS - 1) / SUM_ROWS : 0;
}

size_t sum_bytes(const MatmulFp8Args *a)
{
    return (size_t)sum_lines(a) * (size_t)a->N * sizeof(float);
}

// Split-K's parts lie behind the sums, float4 by float4.
size_t parts_at(const MatmulFp8Args *a)
{
    return (sum_bytes(a) + 255) / 256 * 256;
}

bool takes(const void *p, int64_t ld)
{
    return !p || tma_takes(p, ld, DTYPE_E4M3);
}

const char *refusal(const CudaDevice *d, const MatmulFp8Args *a)
{
    const MatmulArgs s = shapes_of(a);
    const bool f32 = a->c_dtype == DTYPE_F32;
    const int64_t most = INT32_MAX - 255; // rows, columns
    if (a->b_dtype != DTYPE_E4M3) return "B of e5m2";
    if (a->a_dtype == DTYPE_E4M3 && !a->fast) return "e4m3 operands whose sums are not fast";
    if (a->M < 1 || a->N < 1 || a->K < 1) return "an empty matrix";
    if (a->M > most || a->N > most || a->K > most) return "2^31 rows or columns";
    if ((a->M + 127) / 128 * ((a->N + 127) / 128) > most) return "2^31 tiles";
    if (a->c_dtype != DTYPE_BF16 && !(f32 && a->epilogue == MATMUL_PLAIN))
        return "C of a type without a kernel";
    if (a->out.scale && (a->epilogue == MATMUL_PLAIN || a->out.dtype != a->a_dtype))
        return "FP8 output without an activation, or of another type than A";
    if (a->bias && a->epilogue == MATMUL_DGELU) return "a bias with dgelu";
    if (!tma_takes(a->A, a->lda, a->a_dtype) || !tma_takes(a->B, a->ldb, a->b_dtype) ||
        !tma_takes(a->C, a->ldc, a->c_dtype) || !tma_takes(a->aux, a->ldc, a->c_dtype) ||
        !takes(a->out.q, a->out.ld_q) || !takes(a->out.qt, a->out.ld_qt))
        return "a matrix or its rows not at multiples of 16 bytes";
    if (a->epilogue != MATMUL_PLAIN && a->act == ACT_TANH) return "tanh";
    if (d->sm_count < 2) return "a GPU of one SM";
    if (!hopper_matmul_allows(&s, hopper_matmul_plan(&s)))
        return "operand types and epilogue without a kernel";
    return nullptr;
}

// Rows of qt behind the last box of the kernel.
cudaError_t clear_tail(const CudaDevice *d, const MatmulFp8Args *a)
{
    const int64_t from = (a->M + 63) / 64 * 64;
    if (!a->out.scale || !a->out.qt || from >= a->out.ld_qt) return cudaSuccess;
    return cudaMemset2DAsync(static_cast<uint8_t *>(a->out.qt) + from, (size_t)a->out.ld_qt, 0,
                             (size_t)(a->out.ld_qt - from), (size_t)a->N, d->stream);
}

} // namespace

bool hopper_matmul_fp8_supports(const CudaDevice *d, const MatmulFp8Args *a, const char **why)
{
    *why = refusal(d, a);
    return !*why;
}

size_t hopper_matmul_fp8_plan_scratch(const MatmulFp8Args *a, HopperPlan plan)
{
    const MatmulArgs s = shapes_of(a);
    return parts_at(a) + hopper_matmul_plan_scratch(&s, plan);
}

int hopper_matmul_fp8_planned(const CudaDevice *d, const MatmulFp8Args *a, HopperPlan plan,
                              void *scratch)
{
    const MatmulArgs s = shapes_of(a);
    Params p = params_of(&s, plan, static_cast<char *>(scratch) + parts_at(a));
    p.a_inv = a->a_inv;
    p.b_inv = a->b_inv;
    if (a->out.scale) p.out = a->out;
    if (a->dbias) p.column_sums = static_cast<float *>(scratch);
    int e = clear_tail(d, a);
    if (e == cudaSuccess) e = start_planned(d, &s, plan, p);
    if (e != cudaSuccess || !a->dbias) return e;
    return chunk_sums(d->stream, a->dbias, nullptr, p.column_sums, sum_lines(a), a->N,
                      a->dbias_accumulate);
}

HopperPlan hopper_matmul_fp8_plan(const MatmulFp8Args *a)
{
    const MatmulArgs s = shapes_of(a);
    return hopper_matmul_plan(&s);
}

size_t hopper_matmul_fp8_scratch(const CudaDevice *, const MatmulFp8Args *a)
{
    return hopper_matmul_fp8_plan_scratch(a, hopper_matmul_fp8_plan(a));
}

int hopper_matmul_fp8(const CudaDevice *d, const MatmulFp8Args *a, void *scratch)
{
    return hopper_matmul_fp8_planned(d, a, hopper_matmul_fp8_plan(a), scratch);
}
