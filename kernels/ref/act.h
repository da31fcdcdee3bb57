// act.h -- activations and their derivatives in double, for the references.
//
//   gelu_erf(x)  = x/2 (1 + erf(x / sqrt 2))
//   gelu_tanh(x) = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
//
// SPDX-License-Identifier: MIT
#pragma once
#include <math.h>
#include "kernels/ops/matmul.h"

#define ACT_SQRT_2_PI 0.79788456080286535588 // sqrt(2/pi)
#define ACT_SQRT_1_2  0.70710678118654752440
#define ACT_CUBIC     0.044715

LT_INLINE double act_value(Activation act, double x)
{
    switch (act) {
    case ACT_GELU_TANH: return 0.5 * x * (1 + tanh(ACT_SQRT_2_PI * (x + ACT_CUBIC * x * x * x)));
    case ACT_GELU_ERF: return 0.5 * x * (1 + erf(x * ACT_SQRT_1_2));
    case ACT_TANH: return tanh(x);
    case ACT_RELU: break;
    }
    return x > 0 || x != x ? x : 0; // NaN stays NaN
}

LT_INLINE double act_slope(Activation act, double x)
{
    switch (act) {
    case ACT_GELU_TANH: {
        const double t = tanh(ACT_SQRT_2_PI * (x + ACT_CUBIC * x * x * x));
        return 0.5 * (1 + t) +
               0.5 * x * (1 - t * t) * ACT_SQRT_2_PI * (1 + 3 * ACT_CUBIC * x * x);
    }
    case ACT_GELU_ERF:
        return 0.5 * (1 + erf(x * ACT_SQRT_1_2)) + 0.5 * ACT_SQRT_2_PI * x * exp(-0.5 * x * x);
    case ACT_TANH: return 1 - tanh(x) * tanh(x);
    case ACT_RELU: break;
    }
    return x > 0 ? 1 : (x != x ? x : 0);
}
