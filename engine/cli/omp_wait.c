// omp_wait.c -- see omp_wait.h.
//
// SPDX-License-Identifier: MIT
#include "engine/cli/omp_wait.h"

#include <stdlib.h>
#include <unistd.h>

void omp_wait_short(char **argv)
{
    static const char *const said[] = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME",
                                       // These bound us to one CPU before main; that would stay.
                                       "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY",
                                       "KMP_AFFINITY"};
    for (size_t i = 0; i < LT_COUNT(said); i++)
        if (getenv(said[i])) return;
    // GNU's runtime counts turns of its loop (these take about 20 us), LLVM's milliseconds.
    if (setenv("GOMP_SPINCOUNT", "2000", 1) != 0 || setenv("KMP_BLOCKTIME", "1", 1) != 0) return;
    execv("/proc/self/exe", argv);
}
