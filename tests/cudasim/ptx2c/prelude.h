// prelude.h -- what every translated file includes.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include "tests/cudasim/ptx2c/ptx_float.h"
#include "tests/cudasim/ptx2c/ptx_int.h"
#include "tests/cudasim/ptx2c/translated.h"
#include "tests/cudasim/src/device.h"

namespace cudasim
{

// Memory seen by any type.
typedef uint8_t __attribute__((may_alias)) mem8;
typedef uint16_t __attribute__((may_alias)) mem16;
typedef uint32_t __attribute__((may_alias)) mem32;
typedef uint64_t __attribute__((may_alias)) mem64;

// %clock and %globaltimer: something that grows. A loop that waits for time lets others run.
inline uint64_t clock_ticks()
{
    static uint64_t ticks;
    yield();
    return ticks += 1000;
}

// Where dynamic shared memory starts, for functions that kernels call.
inline uint32_t dynamic_at()
{
    return cur->total_smem - cur->dyn_smem;
}

} // namespace cudasim
