// cpu_generic.c -- neither x86-64 nor AArch64: one build of the vector sources, for what the
// compiler takes as given.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/cpu_isa.h"
#include "kernels/cpu/cpu_peak.h"
#include "kernels/cpu/isa.h"

static bool can_baseline(void)
{
    return true;
}

int cpu_isa_rows(const CpuIsa **rows)
{
    static const CpuIsa table[] = {{.name = "baseline",
                                    .can = can_baseline,
                                    .add_vec = cpu_vec_register_baseline,
                                    .add_f32 = cpu_matmul_register_baseline,
                                    .add_gemv = cpu_gemv_register_baseline,
                                    .peak = cpu_peak_baseline}};
    *rows = table;
    return (int)LT_COUNT(table);
}
