// cublaslt_api.c -- see cublaslt_api.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cublaslt_api.h"
#include "kernels/cuda/shared_library.h"

#include <stdio.h>

bool cublaslt_api_open(CublasltApi *api, char *why, size_t size)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so",
                                        NULL};
    SharedLibrary l;
    bool ok = shared_library_open(&l, names);
#define F(name) ok = ok && shared_library_find(&l, "cublasLt" #name, &api->name);
    CUBLASLT_FUNCTIONS(F)
#undef F
    snprintf(why, size, "%s", l.why);
    return ok;
}
