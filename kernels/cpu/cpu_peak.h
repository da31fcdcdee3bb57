// cpu_peak.h -- arithmetic rates of one thread by loops that touch nothing but registers.
//
// What a kernel's speed is compared with (`lathe bench`), and how cpu_open decides whether
// vdpbf16ps is worth using. Each runs for about `seconds` and returns FLOP/s, a multiply-add
// counting two.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/compiler.h"

LT_C_BEGIN
double cpu_peak_baseline(double seconds);
double cpu_peak_avx2(double seconds);
double cpu_peak_avx512(double seconds);
double cpu_peak_neon(double seconds);
double cpu_peak_avx512_bf16(double seconds); // vdpbf16ps
double cpu_peak_amx(double seconds);         // tdpbf16ps; after cpu_open has claimed AMX
LT_C_END
