// shared_library.c -- see shared_library.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/shared_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

bool shared_library_open(SharedLibrary *l, const char *const *names)
{
    *l = (SharedLibrary){0};
    for (int i = 0; names[i] && !l->handle; i++) {
        l->handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        const char *text = l->handle ? NULL : dlerror();
        if (!l->handle && i == 0) snprintf(l->why, sizeof l->why, "%s", text ? text : names[0]);
    }
    return l->handle != NULL;
}

bool shared_library_find(SharedLibrary *l, const char *name, void *function)
{
    void *const symbol = dlsym(l->handle, name);
    memcpy(function, &symbol, sizeof symbol); // C has no cast from an object's to a function's
    if (!symbol) snprintf(l->why, sizeof l->why, "the library has no function %s", name);
    return symbol != NULL;
}
