// gemv.c -- product of at most four rows with weights [N,K]: one pass over the weights, not packed.
// Contract: kernels/ops/matmul.h    Built once an instruction set (isa.h)
//
// WHAT    Generating a token multiplies one row (a sample each) with every weight of the model.
//         Packing them costs more than the product, so a weight row is multiplied where it lies:
//
//             A, M rows widened to f32   [ x0 x1 x2 ... ]
//             W, GROUP rows at a time    [ .. .. .. ... ]  -> dot products: VL lanes of sums,
//                                        [ .. .. .. ... ]     added up at the end of the row
//
//         The dot products of VL neighbouring columns are finished and stored together.
//
// COST    reads N*K weights once: bound by memory. Scratch: M rows of K floats.
// ROUND   Sums in f32, one for each lane; products are fused into them where the instruction set
//         can. The order depends on K alone, so threads, N and M do not change a bit.
// SHAPES  M <= 4, A as it lies, B transposed (weights). Anything else: supports() says no.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/gemm_vec.h"
#include "kernels/cpu/isa.h"

enum { MAX_ROWS = 4, GROUP = 4 };
static const double ALONE_WEIGHTS = 1 << 16; // below this one thread is as fast

static int64_t padded(int64_t k)
{
    return LT_ROUND_UP(k, VL);
}

// One step of `n` <= VL of K: x rows stand `ldx` apart and are padded with zeros. The next group
// begins at row `ahead` of W: rows are too short for the hardware to look so far.
LT_INLINE void step(VecF acc[MAX_ROWS][GROUP], const MatmulArgs *a, DType t, int M, int group,
                    const float *x, int64_t ldx, int64_t row, int64_t ahead, int64_t k, int64_t n)
{
    const int64_t bytes = t == DTYPE_F32 ? 4 : 2;
    VecF w[GROUP];
#pragma GCC unroll 4
    for (int j = 0; j < group; j++) {
        __builtin_prefetch((const char *)a->B + ((ahead + j) * a->ldb + k) * bytes);
        w[j] = vec_load_as_n(a->B, t, (row + j) * a->ldb + k, n, 0);
    }
#pragma GCC unroll 4
    for (int i = 0; i < M; i++) {
        const VecF xi = vec_load(x + i * ldx + k);
#pragma GCC unroll 4
        for (int j = 0; j < group; j++) acc[i][j] += xi * w[j];
    }
}

// sum[i*VL + j] = row i of x times row `row` + j of W, for `group` rows of W.
LT_INLINE void dots(float *sum, const MatmulArgs *a, DType t, int M, int group, const float *x,
                    int64_t ldx, int64_t row)
{
    const int64_t ahead = LT_MIN(row + GROUP, a->N - group);
    VecF acc[MAX_ROWS][GROUP];
    int64_t k = 0;
#pragma GCC unroll 4
    for (int i = 0; i < M; i++)
#pragma GCC unroll 4
        for (int j = 0; j < group; j++) acc[i][j] = (VecF){0};
    for (; k + VL <= a->K; k += VL) step(acc, a, t, M, group, x, ldx, row, ahead, k, VL);
    if (k < a->K) step(acc, a, t, M, group, x, ldx, row, ahead, k, a->K - k);
#pragma GCC unroll 4
    for (int i = 0; i < M; i++)
#pragma GCC unroll 4
        for (int j = 0; j < group; j++) sum[i * VL + j] = vec_sum(acc[i][j]);
}

// VL columns of C from column c on (fewer at the edge).
LT_INLINE void columns(const MatmulArgs *a, DType t, int M, const float *x, int64_t ldx, int64_t c)
{
    const int64_t n = LT_MIN(a->N - c, VL);
    float sum[MAX_ROWS * VL] = {0};
    int64_t j = 0;
    for (; j + GROUP <= n; j += GROUP) dots(sum + j, a, t, M, GROUP, x, ldx, c + j);
    for (; j < n; j++) dots(sum + j, a, t, M, 1, x, ldx, c + j);
    for (int i = 0; i < M; i++) {
        VecF s = vec_load(sum + i * VL);
        if (a->accumulate && a->c_dtype == DTYPE_F32)
            s += vec_load_as_n(a->C, DTYPE_F32, i * a->ldc + c, n, 0);
        gemm_finish(a, s, i, c, n);
    }
}

// One function for each number of rows and type, so that the inner loop knows both.
LT_INLINE void columns_typed(const MatmulArgs *a, DType t, const float *x, int64_t ldx, int64_t c)
{
    switch (a->M) {
    case 1: columns(a, t, 1, x, ldx, c); break;
    case 2: columns(a, t, 2, x, ldx, c); break;
    case 3: columns(a, t, 3, x, ldx, c); break;
    default: columns(a, t, 4, x, ldx, c); break;
    }
}

static void columns_any(const MatmulArgs *a, const float *x, int64_t ldx, int64_t c)
{
    if (a->ab_dtype == DTYPE_F32)
        columns_typed(a, DTYPE_F32, x, ldx, c);
    else if (a->ab_dtype == DTYPE_BF16)
        columns_typed(a, DTYPE_BF16, x, ldx, c);
    else
        columns_typed(a, DTYPE_F16, x, ldx, c);
}

static bool supports(const MatmulArgs *a, const OpCtx *cx, const char **why)
{
    (void)cx;
    *why = "at most 4 rows of A, and B as weights [N,K] only";
    return a->M <= MAX_ROWS && !a->trans_a && a->trans_b;
}

static size_t scratch(const MatmulArgs *a, const OpCtx *cx)
{
    (void)cx;
    return (size_t)(a->M * padded(a->K)) * sizeof(float);
}

static Status run(const MatmulArgs *a, OpCtx *cx, Err *err)
{
    (void)err;
    const int64_t ldx = padded(a->K);
    float *const x = cx->scratch;
    if (a->M == 0) return ERR_NONE;
    for (int64_t i = 0; i < a->M; i++)
        for (int64_t k = 0; k < a->K; k += VL)
            vec_store(x + i * ldx + k,
                      vec_load_as_n(a->A, a->ab_dtype, i * a->lda + k, a->K - k, 0));
    const bool many = (double)a->N * (double)a->K >= ALONE_WEIGHTS;
#pragma omp parallel for num_threads(cx->device->threads) schedule(static) if (many)
    for (int64_t c = 0; c < a->N; c += VL) columns_any(a, x, ldx, c);
    return ERR_NONE;
}

void ISA_NAME(cpu_gemv_register)(Ops *ops)
{
    ops_add_matmul(
        ops, (Impl_matmul){
                 .impl = "gemv_" ISA_STRING, .supports = supports, .scratch = scratch, .run = run});
}
