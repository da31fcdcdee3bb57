// omp_wait.h -- how idle worker threads wait.
//
// OpenMP's threads spin between parallel regions, for milliseconds by default. Alone on a machine
// that is the fastest; beside any other load it is a disaster, because a spinning thread holds the
// core that the working one needs. A short spin and then sleep keeps nearly all of the speed and
// loses most of the disaster. A step of a 4-layer model of width 128 (768 tokens, bf16, two threads
// on two CPUs, where a turn of the loop takes 10 ns), in ms:
//
//     turns before sleep           0   300  1000  2000  5000  20000
//     alone                     17.0  13.5   8.8   8.4          8.1
//     beside one busy process   12.7  13.6  16.3  21.0  31.9   78.5
//
// The runtime reads its environment before main, so the program sets it and starts itself once
// more.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/compiler.h"

LT_C_BEGIN
// Call first in main. Returns when the waiting policy is set, by us or by the user
// (OMP_WAIT_POLICY, GOMP_SPINCOUNT or KMP_BLOCKTIME); nothing happens when it cannot be set, nor
// when the user binds threads to CPUs (OMP_PROC_BIND and the like).
void omp_wait_short(char **argv);
LT_C_END
