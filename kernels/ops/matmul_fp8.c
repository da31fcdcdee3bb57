// matmul_fp8.c -- legality and cost of matmul_fp8.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/legal.h"
#include "kernels/ops.h"

static Status legal_types(const MatmulFp8Args *a, Err *err)
{
    if (!dtype_is_fp8(a->a_dtype) || !dtype_is_fp8(a->b_dtype) ||
        (a->a_dtype == DTYPE_E5M2 && a->b_dtype == DTYPE_E5M2))
        return err_set(err, ERR_USAGE, "A is %s and B %s; e4m3 e4m3, e5m2 e4m3 or e4m3 e5m2",
                       dtype_name(a->a_dtype), dtype_name(a->b_dtype));
    TRY(legal_type("C", a->c_dtype, err));
    return a->bias ? legal_type("bias", a->bias_dtype, err) : ERR_NONE;
}

static Status legal_epilogue(const MatmulFp8Args *a, Err *err)
{
    if ((unsigned)a->epilogue > MATMUL_DGELU || (unsigned)a->act > ACT_TANH)
        return err_set(err, ERR_USAGE, "epilogue %d, act %d", (int)a->epilogue, (int)a->act);
    if (a->accumulate && (a->epilogue != MATMUL_PLAIN || a->out.scale || !a->C))
        return err_set(err, ERR_USAGE, "accumulate goes with a plain C only");
    if (a->dbias && a->epilogue != MATMUL_DGELU)
        return err_set(err, ERR_USAGE, "dbias goes with the gradient of the activation only");
    return ERR_NONE;
}

Status matmul_fp8_check(const MatmulFp8Args *a, Err *err)
{
    TRY(legal_types(a, err));
    TRY(legal_epilogue(a, err));
    if (a->M < 0 || a->N < 0 || a->K < 0 || a->ldc < a->N || !legal_size(a->M, a->ldc) ||
        !legal_fp8_rows(a->A, a->M, a->K, a->lda) || !legal_fp8_rows(a->B, a->N, a->K, a->ldb))
        return err_set(err, ERR_USAGE,
                       "M = %lld, N = %lld, K = %lld, lda = %lld, ldb = %lld, ldc = %lld; FP8 lies "
                       "at multiples of 16",
                       (long long)a->M, (long long)a->N, (long long)a->K, (long long)a->lda,
                       (long long)a->ldb, (long long)a->ldc);
    if (a->M == 0 || a->N == 0) return ERR_NONE;
    TRY(legal_fp8_out(&a->out, a->M, a->N, err));
    if ((!a->C && !a->out.scale) || (a->K > 0 && (!a->A || !a->B)))
        return err_set(err, ERR_USAGE, "A, B or both results are NULL");
    if (!a->a_inv || !a->b_inv || (uintptr_t)a->a_inv % 16 != 0 || (uintptr_t)a->b_inv % 16 != 0)
        return err_set(err, ERR_USAGE, "a_inv and b_inv lie at multiples of 16");
    if (a->epilogue == MATMUL_DGELU && !a->aux)
        return err_set(err, ERR_USAGE, "the gradient of the activation needs aux");
    return ERR_NONE;
}

double matmul_fp8_flops(const MatmulFp8Args *a)
{
    return 2.0 * (double)a->M * (double)a->N * (double)a->K;
}

double matmul_fp8_bytes(const MatmulFp8Args *a)
{
    const double M = (double)a->M, N = (double)a->N, K = (double)a->K;
    const double c = (double)dtype_bytes(a->c_dtype);
    const double passes = (a->C != NULL) + a->accumulate + (a->aux != NULL);
    const double layouts = a->out.scale ? (a->out.q != NULL) + (a->out.qt != NULL) : 0;
    return M * K + N * K + (c * passes + layouts) * M * N;
}
