// cudnn_api.c -- see cudnn_api.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cudnn_api.h"
#include "kernels/cuda/shared_library.h"

#include <stdio.h>

bool cudnn_api_open(CudnnApi *api, char *why, size_t size)
{
    static const char *const names[] = {"libcudnn.so.9", NULL};
    SharedLibrary l;
    bool ok = shared_library_open(&l, names);
#define F(name) ok = ok && shared_library_find(&l, "cudnn" #name, &api->name);
    CUDNN_FUNCTIONS(F)
#undef F
    snprintf(why, size, "%s", l.why);
    return ok;
}
