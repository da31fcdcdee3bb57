// cpu_x86.c -- the instruction sets of x86-64: what cpuid and the kernel say, and the table of
// rows.
//
// A register file is usable when the CPU has the instructions (cpuid) and the kernel saves it on a
// context switch (xgetbv). AMX's tiles are 8 KiB a thread, so Linux (5.16 on) wants to be asked
// once a process: `claim` does, `can` only looks whether asking would help.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/cpu_isa.h"
#include "kernels/cpu/amx.h"
#include "kernels/cpu/bf16dot.h"
#include "kernels/cpu/cpu_peak.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { // arch_prctl
    XCOMP_SUPPORTED = 0x1021,
    XCOMP_REQUEST = 0x1023,
    XFEATURE_TILE = 18,
};

typedef struct Features {
    uint32_t leaf1_ecx, leaf7_ebx, leaf7_edx, leaf7_1_eax;
    uint64_t saved; // XCR0: register files the kernel saves
} Features;

static Features features(void)
{
    Features f = {0};
    uint32_t a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d)) f.leaf1_ecx = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        f.leaf7_ebx = b;
        f.leaf7_edx = d;
        if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) f.leaf7_1_eax = a;
    }
    if (f.leaf1_ecx & bit_OSXSAVE) {
        __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
        f.saved = (uint64_t)d << 32 | a;
    }
    return f;
}

static bool has(uint32_t word, uint32_t bits)
{
    return (word & bits) == bits;
}

static bool can_baseline(void)
{
    return true;
}

static bool can_avx2(void)
{
    const Features f = features();
    return has(f.leaf1_ecx, bit_AVX | bit_FMA | bit_F16C) &&
           has(f.leaf7_ebx, bit_AVX2 | bit_BMI2) && (f.saved & 0x6) == 0x6;
}

static bool can_avx512(void)
{
    const Features f = features();
    return can_avx2() &&
           has(f.leaf7_ebx, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL) &&
           (f.saved & 0xe6) == 0xe6;
}

static bool can_avx512_bf16(void)
{
    return can_avx512() && has(features().leaf7_1_eax, 1u << 5);
}

static bool can_amx(void)
{
    const Features f = features();
    uint64_t supported = 0;
    return can_avx512_bf16() && has(f.leaf7_edx, 1u << 24 | 1u << 22) && (f.saved >> 17 & 3) == 3 &&
           syscall(SYS_arch_prctl, XCOMP_SUPPORTED, &supported) == 0 &&
           supported >> XFEATURE_TILE & 1;
}

static bool claim_amx(void)
{
    return syscall(SYS_arch_prctl, XCOMP_REQUEST, XFEATURE_TILE) == 0;
}

static void add_amx(Ops *ops)
{
    cpu_matmul_register_amx(ops);
    cpu_attention_fwd_register_amx(ops);
    cpu_attention_bwd_register_amx(ops);
}

int cpu_isa_rows(const CpuIsa **rows)
{
    static const CpuIsa table[] = {
        {.name = "baseline",
         .can = can_baseline,
         .add_vec = cpu_vec_register_baseline,
         .add_f32 = cpu_matmul_register_baseline,
         .add_gemv = cpu_gemv_register_baseline,
         .peak = cpu_peak_baseline},
        {.name = "avx2",
         .can = can_avx2,
         .add_vec = cpu_vec_register_avx2,
         .add_f32 = cpu_matmul_register_avx2,
         .add_gemv = cpu_gemv_register_avx2,
         .peak = cpu_peak_avx2},
        {.name = "avx512",
         .can = can_avx512,
         .add_vec = cpu_vec_register_avx512,
         .add_f32 = cpu_matmul_register_avx512,
         .add_gemv = cpu_gemv_register_avx512,
         .peak = cpu_peak_avx512},
        {.name = "avx512_bf16",
         .can = can_avx512_bf16,
         .add_bf16 = cpu_matmul_register_avx512_bf16,
         .peak = cpu_peak_avx512_bf16,
         .timed = true},
        {.name = "amx",
         .can = can_amx,
         .claim = claim_amx,
         .add_bf16 = add_amx,
         .peak = cpu_peak_amx},
    };
    *rows = table;
    return (int)LT_COUNT(table);
}
