// amx.h -- the kernels that run on AMX tiles: matmul, attention forward and backward, in bf16.
//
// Compiled with AMX flags, so only call these after cpu_open has claimed the tiles.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/ops.h"

LT_C_BEGIN
void cpu_matmul_register_amx(Ops *ops);
void cpu_attention_fwd_register_amx(Ops *ops);
void cpu_attention_bwd_register_amx(Ops *ops);
LT_C_END
