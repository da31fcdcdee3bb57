// adamw.cu -- AdamW over a flat range of parameters.
// Contract: kernels/ops/adamw.h
//
// WHAT    m and v are updated, and w from them while they are in registers; the copy that the model
//         reads is w, rounded. A thread takes 4 elements: 16 bytes of each f32 vector.
//
//             grad -> [g] --+--> m --+
//                           +--> v --+--> w --> param
//
// MATH    Rates and 1 - beta are made in double, then floats: on the host, or with a gate, in which
//         the learning rate and bias corrections are, by every thread for its 4 elements;
//         the step is subtracted from w in one operation, so that a small decay is not lost.
// COST    28 bytes an element, 30 with a copy of 16 bits. A square root and a division, exact.
// RULES   No state but the vectors'. The caller has looked at the gradients' norm.
// SHAPES  any n, any alignment; vectors of 16 bytes when all are aligned.
// REGISTERS (sm_90, no spills)  40: six blocks a processor
//
// SPDX-License-Identifier: MIT
#include <cmath>
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/types.cuh"

namespace
{

enum { W = 4 };

struct Rates {
    float b1, c1, b2, c2; // betas and 1 - betas
    float fix1, fix2;     // lr / (1 - beta1^t),  1 / (1 - beta2^t)
    float decay, eps;     // lr * weight_decay
    float grad_scale;
};

__host__ __device__ void set_step(Rates &r, double lr, double correct1, double correct2,
                                  double weight_decay)
{
    r.fix1 = static_cast<float>(lr / correct1);
    r.fix2 = static_cast<float>(1 / correct2);
    r.decay = static_cast<float>(lr * weight_decay);
}

__global__ void __launch_bounds__(GRID_THREADS, 6) adamw_kernel(AdamwArgs a, Rates r, bool aligned)
{
    if (a.gate) {
        const StepRates s = a.gate->rates;
        if (a.gate->skip) return;
        set_step(r, s.lr, s.correct1, s.correct2, a.weight_decay);
        r.grad_scale = a.gate->grad_scale;
    }
    const int64_t step = static_cast<int64_t>(gridDim.x) * GRID_THREADS * W;
    int64_t i = (static_cast<int64_t>(blockIdx.x) * GRID_THREADS + threadIdx.x) * W;
    for (; i < a.n; i += step) {
        const int64_t left = a.n - i;
        float g[W], m[W], v[W], w[W];
        load(g, a.grad, DTYPE_F32, i, left, aligned);
        load(m, a.m, DTYPE_F32, i, left, aligned);
        load(v, a.v, DTYPE_F32, i, left, aligned);
        load(w, a.w, DTYPE_F32, i, left, aligned);
#pragma unroll
        for (int k = 0; k < W; k++) {
            g[k] *= r.grad_scale;
            m[k] = r.b1 * m[k] + r.c1 * g[k];
            v[k] = r.b2 * v[k] + r.c2 * g[k] * g[k];
            w[k] -= r.decay * w[k] + r.fix1 * m[k] / (sqrtf(v[k] * r.fix2) + r.eps);
        }
        store(a.m, DTYPE_F32, i, left, aligned, m);
        store(a.v, DTYPE_F32, i, left, aligned, v);
        store(a.w, DTYPE_F32, i, left, aligned, w);
        if (a.param) store(a.param, a.param_dtype, i, left, aligned, w);
    }
}

} // namespace

bool cuda_adamw_supports(const CudaDevice *, const AdamwArgs *, const char **)
{
    return true;
}

size_t cuda_adamw_scratch(const CudaDevice *, const AdamwArgs *)
{
    return 0;
}

int cuda_adamw(const CudaDevice *d, const AdamwArgs *a, void *)
{
    Rates r = {};
    r.b1 = static_cast<float>(a->beta1);
    r.c1 = static_cast<float>(1 - a->beta1);
    r.b2 = static_cast<float>(a->beta2);
    r.c2 = static_cast<float>(1 - a->beta2);
    const double t = static_cast<double>(a->step);
    r.grad_scale = a->grad_scale;
    set_step(r, a->lr, 1 - std::pow(a->beta1, t), 1 - std::pow(a->beta2, t), a->weight_decay);
    r.eps = static_cast<float>(a->eps);
    const bool aligned = is_aligned(a->w) && is_aligned(a->m) && is_aligned(a->v) &&
                         is_aligned(a->grad) && is_aligned(a->param);
    return launch({.grid = flat_grid(a->n, W), .block = dim3(GRID_THREADS)}, d->stream,
                  adamw_kernel, *a, r, aligned);
}
