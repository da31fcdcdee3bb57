// cpu.h -- the fast CPU kernels: which instruction sets there are, which one runs, and why.
//
// One C source with GCC vector extensions is built once an instruction set (baseline, avx2, avx512;
// neon on 64-bit Arm); each build registers its kernels under that name. bf16 products have
// engines of their own: AMX tiles, vdpbf16ps, or the f32 kernel on operands widened from bf16.
//
// A cpuid flag says that an instruction exists, not that it is fast: `auto` takes AMX where the CPU
// has it and the kernel grants it, and otherwise times vdpbf16ps against f32 for a few
// milliseconds. The choice never depends on anything after cpu_open, is printed, and is stored with
// a run.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/err.h"
#include "kernels/ops.h"

typedef struct CpuChoice {
    char isa[24];  // what --cpu.isa= would take: baseline, avx2, avx512, avx512_bf16, amx, neon
    char why[200]; // one line for the log
} CpuChoice;

LT_C_BEGIN
// wish: "auto" or a name above. An instruction set this machine lacks is ERR_UNSUPPORTED and says
// what there is. Adds the chosen kernels to `ops`.
LT_MUST_CHECK Status cpu_open(Ops *ops, const char *wish, CpuChoice *out, Err *err);
// The names this machine can run, best last; returns how many.
int cpu_list(const char *names[8]);
// FLOP/s of `threads` threads in register loops of that instruction set (f32 multiply-adds; the
// bf16 engine's own products for avx512_bf16 and amx), for about `seconds`. 0: not one that this
// machine can run. For amx cpu_open must have opened it.
double cpu_peak(const char *isa, int threads, double seconds);
LT_C_END
