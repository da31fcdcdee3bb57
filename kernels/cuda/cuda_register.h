// cuda_register.h -- enters the kernels of cuda_rows.def into an op table.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/ops.h"

LT_C_BEGIN
void cuda_register(Ops *ops);
LT_C_END
