// isa.h -- one source, several instruction sets: names and vector width.
//
// CMake compiles a file that includes this once per instruction set, with LATHE_ISA (baseline,
// avx2, avx512, neon), LATHE_VB (bytes of a vector: 16, 32, 64) and LATHE_REGS (vector registers:
// 16, 32). ISA_NAME(f) is f_baseline, f_avx2, ...; everything extern in such a file is named with
// it, everything else is static.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/ops.h"

#define ISA_JOIN2(a, b) a##_##b
#define ISA_JOIN(a, b)  ISA_JOIN2(a, b)
#define ISA_NAME(f)     ISA_JOIN(f, LATHE_ISA)
#define ISA_STR2(a)     #a
#define ISA_STR1(a)     ISA_STR2(a)
#define ISA_STRING      ISA_STR1(LATHE_ISA) // "avx2": the `impl` of an op table row

// Every build of the vector sources defines these two; cpu.c calls the ones this machine can run.
#define ISA_DECLARE(isa)                                                                           \
    void cpu_vec_register_##isa(Ops *ops);    /* all ops but matmul */                             \
    void cpu_matmul_register_##isa(Ops *ops); /* f32, and bf16 operands widened to f32 */          \
    void cpu_gemv_register_##isa(Ops *ops);   /* matmul of few rows */
ISA_DECLARE(baseline)
ISA_DECLARE(avx2)
ISA_DECLARE(avx512)
ISA_DECLARE(neon)
#undef ISA_DECLARE
