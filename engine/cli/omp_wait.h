// omp_wait.h -- how idle worker threads wait.
//
// OpenMP's threads spin between parallel regions, for milliseconds by default. Alone on a machine
// that is the fastest; beside any other load it is a disaster, because a spinning thread holds the
// core that the working one needs (measured: 100 tiny steps in 56 s instead of 1.2 s). A short
// spin and then sleep keeps nearly all of the speed and loses the disaster.
//
// The runtime reads its environment before main, so the program sets it and starts itself once
// more.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/compiler.h"

LT_C_BEGIN
// Call first in main. Returns when the waiting policy is set, by us or by the user
// (OMP_WAIT_POLICY, GOMP_SPINCOUNT or KMP_BLOCKTIME); nothing happens when it cannot be set.
void omp_wait_short(char **argv);
LT_C_END
