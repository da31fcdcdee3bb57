// cpu_arm.c -- the instruction sets of AArch64: NEON, which every such CPU has.
//
// 32 registers of four floats, fused multiply-add by a lane of a register (gemm_f32.c). Nothing is
// asked of the CPU at run time.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/cpu_isa.h"
#include "kernels/cpu/cpu_peak.h"
#include "kernels/cpu/isa.h"

static bool can_neon(void)
{
    return true;
}

int cpu_isa_rows(const CpuIsa **rows)
{
    static const CpuIsa table[] = {{.name = "neon",
                                    .can = can_neon,
                                    .add_vec = cpu_vec_register_neon,
                                    .add_f32 = cpu_matmul_register_neon,
                                    .add_gemv = cpu_gemv_register_neon,
                                    .peak = cpu_peak_neon}};
    *rows = table;
    return (int)LT_COUNT(table);
}
