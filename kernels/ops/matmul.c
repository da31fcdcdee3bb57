// matmul.c -- legality and cost of matmul.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/ops/legal.h"
#include "kernels/ops.h"

Status matmul_check(const MatmulArgs *a, Err *err)
{
    TRY(legal_type("A and B", a->ab_dtype, err));
    TRY(legal_type("C", a->c_dtype, err));
    const int64_t rows_a = a->trans_a ? a->K : a->M, cols_a = a->trans_a ? a->M : a->K;
    const int64_t rows_b = a->trans_b ? a->N : a->K, cols_b = a->trans_b ? a->K : a->N;
    if (a->M < 0 || a->N < 0 || a->K < 0 || a->lda < cols_a || a->ldb < cols_b || a->ldc < a->N ||
        !legal_size(rows_a, a->lda) || !legal_size(rows_b, a->ldb) || !legal_size(a->M, a->ldc))
        return err_set(err, ERR_USAGE,
                       "M = %lld, N = %lld, K = %lld, lda = %lld, ldb = %lld, ldc = %lld",
                       (long long)a->M, (long long)a->N, (long long)a->K, (long long)a->lda,
                       (long long)a->ldb, (long long)a->ldc);
    if ((unsigned)a->epilogue > MATMUL_DGELU || (unsigned)a->act > ACT_TANH)
        return err_set(err, ERR_USAGE, "epilogue %d, act %d", (int)a->epilogue, (int)a->act);
    if (a->accumulate && a->epilogue != MATMUL_PLAIN)
        return err_set(err, ERR_USAGE, "accumulate goes with the plain epilogue only");
    if (a->bias) TRY(legal_type("bias", a->bias_dtype, err));
    if (a->M == 0 || a->N == 0) return ERR_NONE;
    if (!a->C || (a->K > 0 && (!a->A || !a->B)))
        return err_set(err, ERR_USAGE, "A, B or C is NULL");
    if (a->epilogue == MATMUL_DGELU && !a->aux)
        return err_set(err, ERR_USAGE, "the gradient of the activation needs aux");
    return ERR_NONE;
}

double matmul_flops(const MatmulArgs *a)
{
    return 2.0 * (double)a->M * (double)a->N * (double)a->K;
}

double matmul_bytes(const MatmulArgs *a)
{
    const double ab = (double)dtype_bytes(a->ab_dtype), c = (double)dtype_bytes(a->c_dtype);
    const double passes = 1.0 + (a->accumulate || a->aux); // over [M,N]
    const double M = (double)a->M, N = (double)a->N, K = (double)a->K;
    return ab * (M * K + K * N) + c * passes * M * N;
}
