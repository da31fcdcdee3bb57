// bf16dot.h -- matmul with vdpbf16ps; compiled for AVX-512 with BF16, call it only there.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/ops.h"

LT_C_BEGIN
void cpu_matmul_register_avx512_bf16(Ops *ops);
LT_C_END
