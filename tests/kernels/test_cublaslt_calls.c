// test_cublaslt_calls.c -- the calls of kernels/cuda/cublaslt_choice.h against the real cuBLASLt,
// without a GPU: it makes descriptors, layouts and preferences for anyone. Only the heuristic wants
// a GPU; here it is replaced by one that has nothing to offer.
//
// Needs libcublasLt.so.
//
// SPDX-License-Identifier: MIT
#include "engine/base/dtype.h"
#include "kernels/cuda/cublaslt_choice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static cublasStatus_t offers_nothing(cublasLtHandle_t h, cublasLtMatmulDesc_t op,
                                     cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                     cublasLtMatmulPreference_t pref, int wanted,
                                     cublasLtMatmulHeuristicResult_t found[], int *n)
{
    (void)h, (void)wanted, (void)found;
    assert_true(op && a && b && c && d && pref);
    *n = 0;
    return CUBLAS_STATUS_SUCCESS;
}

static const int32_t epilogues[] = {CUBLASLT_EPILOGUE_DEFAULT,   CUBLASLT_EPILOGUE_BIAS,
                                    CUBLASLT_EPILOGUE_GELU,      CUBLASLT_EPILOGUE_GELU_AUX,
                                    CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
                                    CUBLASLT_EPILOGUE_DGELU};

// "Nothing" is the first thing that goes wrong.
static void every_call_is_accepted(void **state)
{
    CublasltChoices choices = {.api = *state};
    static char bias[16], aux[16];
    const CublasltPointers at = {.bias = bias, .aux = aux};
    for (int e = 0; e < (int)LT_COUNT(epilogues); e++)
        for (int i = 0; i < 24; i++) {
            const int32_t ab = i % 3 == 0 ? DTYPE_F32 : i % 3 == 1 ? DTYPE_BF16 : DTYPE_F16;
            const bool ta = i & 4, tb = i & 8;
            const CublasltProduct p = {.m = 40,
                                       .n = 24,
                                       .k = 56,
                                       .lda = 64,
                                       .ldb = 64,
                                       .ldd = 64,
                                       .trans_a = ta,
                                       .trans_b = tb,
                                       .epilogue = epilogues[e],
                                       .has_aux = (epilogues[e] & 128) != 0,
                                       .a_dtype = ab,
                                       .b_dtype = ab,
                                       .d_dtype = i & 16 ? DTYPE_F32 : ab,
                                       .align_a = 16,
                                       .align_b = 2,
                                       .align_d = 16,
                                       .align_bias = epilogues[e] & 4 ? 16 : 0};
            const CublasltChoice *c = cublaslt_choose(&choices, &p, &at);
            assert_non_null(c);
            if (c->status != CUBLAS_STATUS_NOT_SUPPORTED)
                fail_msg("epilogue %d, case %d: status %d", epilogues[e], i, (int)c->status);
        }
    cublaslt_forget(&choices);
}

static void every_call_in_fp8_is_accepted(void **state)
{
    CublasltChoices choices = {.api = *state};
    static char bias[16];
    static _Alignas(16) float scales[8];
    const CublasltPointers at = {.bias = bias, .a_scale = scales, .b_scale = scales + 4};
    for (int i = 0; i < 24; i++) {
        const bool with_bias = i & 8;
        const CublasltProduct p = {.m = 32,
                                   .n = 64,
                                   .k = 48,
                                   .lda = 48,
                                   .ldb = 64,
                                   .ldd = 32,
                                   .trans_a = 1,
                                   .add = i % 3 == 0 && !with_bias,
                                   .epilogue = with_bias ? CUBLASLT_EPILOGUE_BIAS
                                                         : CUBLASLT_EPILOGUE_DEFAULT,
                                   .a_dtype = i & 1 ? DTYPE_E5M2 : DTYPE_E4M3,
                                   .b_dtype = i & 2 ? DTYPE_E5M2 : DTYPE_E4M3,
                                   .d_dtype = i % 3 == 0 && !with_bias ? DTYPE_F32 : DTYPE_BF16,
                                   .align_a = 16,
                                   .align_b = 16,
                                   .align_d = 16,
                                   .align_bias = with_bias ? 16 : 0,
                                   .scaled = 1,
                                   .fast = (i & 4) != 0};
        const CublasltChoice *c = cublaslt_choose(&choices, &p, &at);
        assert_non_null(c);
        if (c->status != CUBLAS_STATUS_NOT_SUPPORTED)
            fail_msg("FP8, case %d: status %d", i, (int)c->status);
    }
    cublaslt_forget(&choices);
}

int main(void)
{
    char why[256];
    CublasltApi api;
    if (!cublaslt_api_open(&api, why, sizeof why)) {
        printf("SKIP: %s\n", why);
        return 77;
    }
    api.MatmulAlgoGetHeuristic = offers_nothing;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(every_call_is_accepted, &api),
        cmocka_unit_test_prestate(every_call_in_fp8_is_accepted, &api),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
