// assert.h -- wrong calls stop the program where they stand, in release builds too.
//
// ASSERT is for contracts between parts of this program; what a user or a file can cause is an
// Err (err.h). DASSERT is the same for conditions too dear for a release build.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/compiler.h"

LT_C_BEGIN
LT_NORETURN void assert_failed(const char *file, int line, const char *cond, const char *fmt, ...)
    LT_PRINTF(4, 5);
LT_C_END

#define ASSERT(cond, ...)                                                                          \
    do {                                                                                           \
        if (!(cond)) assert_failed(__FILE__, __LINE__, #cond, __VA_ARGS__);                        \
    } while (0)

// LATHE_DEBUG is 0 or 1, set by CMake, so that both branches always compile.
#define DASSERT(cond, ...)                                                                         \
    do {                                                                                           \
        if (LATHE_DEBUG && !(cond)) assert_failed(__FILE__, __LINE__, #cond, __VA_ARGS__);         \
    } while (0)
