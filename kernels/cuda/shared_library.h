// shared_library.h -- a library of the GPU's maker that may be missing: opened while the program
// runs, its functions looked up by name.
//
// What was opened stays loaded until the program ends: these libraries have threads of their own.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include "engine/base/compiler.h"

typedef struct SharedLibrary {
    void *handle;  // NULL: not there
    char why[256]; // not there, or a function is missing: the reason, in one line
} SharedLibrary;

LT_C_BEGIN
// Opens the first of `names` (up to a NULL) that is there.
bool shared_library_open(SharedLibrary *l, const char *const *names);
// Stores the address of function `name` in *function, a pointer to a function pointer.
bool shared_library_find(SharedLibrary *l, const char *name, void *function);
LT_C_END
