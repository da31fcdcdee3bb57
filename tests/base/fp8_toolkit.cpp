// fp8_toolkit.cpp -- see fp8_toolkit.h.
//
// SPDX-License-Identifier: MIT
#include "tests/base/fp8_toolkit.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

static __nv_fp8_interpretation_t kind(bool e5m2)
{
    return e5m2 ? __NV_E5M2 : __NV_E4M3;
}

uint8_t toolkit_fp8_from_f32(float x, bool e5m2)
{
    return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, kind(e5m2));
}

uint8_t toolkit_fp8_from_bf16(uint16_t x, bool e5m2)
{
    __nv_bfloat16_raw raw;
    raw.x = x;
    return __nv_cvt_bfloat16raw_to_fp8(raw, __NV_SATFINITE, kind(e5m2));
}

uint8_t toolkit_fp8_from_f16(uint16_t x, bool e5m2)
{
    __half_raw raw;
    raw.x = x;
    return __nv_cvt_halfraw_to_fp8(raw, __NV_SATFINITE, kind(e5m2));
}

uint16_t toolkit_fp8_to_f16(uint8_t q, bool e5m2)
{
    return __nv_cvt_fp8_to_halfraw(q, kind(e5m2)).x;
}

uint16_t toolkit_f16_from_f32(float x)
{
    return static_cast<__half_raw>(__float2half_rn(x)).x;
}

float toolkit_f16_to_f32(uint16_t x)
{
    __half_raw raw;
    raw.x = x;
    return __half2float(__half(raw));
}
