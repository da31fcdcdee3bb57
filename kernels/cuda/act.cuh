// act.cuh -- activations and their slopes in f32, as kernels/ref/act.h defines them.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/ops/matmul.h"

__device__ __forceinline__ float act_value_f32(Activation act, float x)
{
    const float sqrt_2_pi = 0.79788456080286535588f;
    if (act == ACT_GELU_TANH)
        return 0.5f * x * (1.0f + tanhf(sqrt_2_pi * (x + 0.044715f * x * x * x)));
    if (act == ACT_GELU_ERF) return 0.5f * x * (1.0f + erff(x * 0.70710678118654752440f));
    if (act == ACT_TANH) return tanhf(x);
    return x <= 0.0f ? 0.0f : x; // NaN stays NaN
}

__device__ __forceinline__ float act_slope_f32(Activation act, float x)
{
    const float sqrt_2_pi = 0.79788456080286535588f;
    if (act == ACT_GELU_TANH) {
        const float t = tanhf(sqrt_2_pi * (x + 0.044715f * x * x * x));
        return 0.5f * (1.0f + t) +
               0.5f * x * (1.0f - t * t) * sqrt_2_pi * (1.0f + 3.0f * 0.044715f * x * x);
    }
    if (act == ACT_GELU_ERF)
        return 0.5f * (1.0f + erff(x * 0.70710678118654752440f)) +
               0.5f * sqrt_2_pi * x * expf(-0.5f * x * x);
    if (act == ACT_TANH) return 1.0f - tanhf(x) * tanhf(x);
    return x > 0.0f ? 1.0f : (x <= 0.0f ? 0.0f : x);
}
