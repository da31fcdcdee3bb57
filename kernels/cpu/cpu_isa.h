// cpu_isa.h -- the instruction sets of an architecture as a table: cpu_x86.c or cpu_generic.c.
//
// A row is one value of --cpu.isa. Rows build on each other: an engine for bf16 products adds to
// the f32 instruction set it belongs to.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include "kernels/ops.h"

typedef struct CpuIsa {
    const char *name;
    bool (*can)(void);              // the CPU has it and the kernel saves its registers
    bool (*claim)(void);            // ask the kernel for it, or NULL; false: refused
    void (*add_vec)(Ops *ops);      // kernels of all ops but matmul
    void (*add_f32)(Ops *ops);      // matmul, any type
    void (*add_gemv)(Ops *ops);     // matmul of few rows, goes with add_f32
    void (*add_bf16)(Ops *ops);     // its engine for bf16 products, or NULL
    double (*peak)(double seconds); // see cpu_peak.h
    bool timed; // `auto` takes it only when peak says it is faster than the row before it
} CpuIsa;

LT_C_BEGIN
// Worst first; returns how many.
int cpu_isa_rows(const CpuIsa **rows);
LT_C_END
