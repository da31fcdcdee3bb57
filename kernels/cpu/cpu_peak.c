// cpu_peak.c -- the f32 multiply-add peak of a vector width; see cpu_peak.h. Built once a width.
//
// Independent chains in three quarters of the registers, 12 or 24: more than latency x ports of the
// cores we know.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/cpu_peak.h"
#include "engine/base/clock.h"
#include "kernels/cpu/vec_simd.h"

enum { CHAINS = LATHE_REGS / 4 * 3, STEPS = 4096 };

static __attribute__((noinline)) float chains(float a, float b)
{
    const VecF va = vec_set(a), vb = vec_set(b);
    VecF x[CHAINS];
#pragma GCC unroll 24
    for (int i = 0; i < CHAINS; i++) x[i] = vec_set((float)i);
    for (int s = 0; s < STEPS; s++)
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS; i++) x[i] = x[i] * va + vb;
    VecF sum = x[0];
#pragma GCC unroll 24
    for (int i = 1; i < CHAINS; i++) sum += x[i];
    return sum[0];
}

double ISA_NAME(cpu_peak)(double seconds)
{
    const double start = clock_seconds();
    double done = 0, now = start;
    volatile float keep = 0.5f;
    while (now - start < seconds) {
        keep = chains(keep * 0.0f + 0.5f, 1.0f);
        done += 2.0 * CHAINS * STEPS * VL;
        now = clock_seconds();
    }
    return done / (now - start);
}
