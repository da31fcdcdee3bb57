// cublaslt_api.h -- the functions of cuBLASLt that are used, looked up when the library is opened.
//
// The header of the library gives the types; the library itself need not be there when lathe is
// built, and is never linked.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cublasLt.h>
#include <stdbool.h>
#include <stddef.h>
#include "engine/base/compiler.h"

#define CUBLASLT_FUNCTIONS(F)                                                                      \
    F(Create)                                                                                      \
    F(Destroy)                                                                                     \
    F(GetVersion)                                                                                  \
    F(GetStatusString)                                                                             \
    F(Matmul)                                                                                      \
    F(MatmulAlgoConfigGetAttribute)                                                                \
    F(MatmulAlgoGetHeuristic)                                                                      \
    F(MatmulDescCreate)                                                                            \
    F(MatmulDescDestroy)                                                                           \
    F(MatmulDescSetAttribute)                                                                      \
    F(MatmulPreferenceCreate)                                                                      \
    F(MatmulPreferenceDestroy)                                                                     \
    F(MatmulPreferenceSetAttribute)                                                                \
    F(MatrixLayoutCreate)                                                                          \
    F(MatrixLayoutDestroy)

typedef struct CublasltApi {
#define F(name) __typeof__(&cublasLt##name) name;
    CUBLASLT_FUNCTIONS(F)
#undef F
} CublasltApi;

LT_C_BEGIN
// false: the library, or a function of it, is not there; why[size] says what.
bool cublaslt_api_open(CublasltApi *api, char *why, size_t size);
LT_C_END
