// cudnn_api.h -- the functions of cuDNN 9 that are used, looked up when the library is opened.
//
// The header of the library gives the types; the library itself need not be there when lathe is
// built, and is never linked.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h> // before cudnn.h, which uses bool
#include <stddef.h>
#include <cudnn.h>
#include "engine/base/compiler.h"

#define CUDNN_FUNCTIONS(F)                                                                         \
    F(Create)                                                                                      \
    F(Destroy)                                                                                     \
    F(SetStream)                                                                                   \
    F(GetVersion)                                                                                  \
    F(GetErrorString)                                                                              \
    F(BackendCreateDescriptor)                                                                     \
    F(BackendDestroyDescriptor)                                                                    \
    F(BackendSetAttribute)                                                                         \
    F(BackendGetAttribute)                                                                         \
    F(BackendFinalize)                                                                             \
    F(BackendExecute)

typedef struct CudnnApi {
#define F(name) __typeof__(&cudnn##name) name;
    CUDNN_FUNCTIONS(F)
#undef F
} CudnnApi;

LT_C_BEGIN
// false: the library, or a function of it, is not there; why[size] says what.
bool cudnn_api_open(CudnnApi *api, char *why, size_t size);
LT_C_END
