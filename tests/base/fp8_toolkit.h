// fp8_toolkit.h -- the conversions of the CUDA toolkit's headers, which run on the CPU as well.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/dtype.h"

LT_C_BEGIN
uint8_t toolkit_fp8_from_f32(float x, bool e5m2); // clamped, as every one here
uint8_t toolkit_fp8_from_bf16(uint16_t x, bool e5m2);
uint8_t toolkit_fp8_from_f16(uint16_t x, bool e5m2);
uint16_t toolkit_fp8_to_f16(uint8_t q, bool e5m2);
uint16_t toolkit_f16_from_f32(float x);
float toolkit_f16_to_f32(uint16_t x);
LT_C_END
