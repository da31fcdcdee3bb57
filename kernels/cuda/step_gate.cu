// step_gate.cu -- does a step count, and how strongly: decided on the device.
// Contract: kernels/ops/step_gate.h
//
// WHAT    Two kernels. One thread decides. Then many look for the first gradient that is not
//         finite, if the step is skipped; else they end at once.
// COST    the start of two kernels; n floats once when the step is skipped.
// RULES   The first is the smallest index, so it does not matter who finds it when: atomicMin. As
//         an unsigned number -1, "none", is the largest.
// SHAPES  any n.
// REGISTERS (sm_90, no spills)  40, 10
//
// SPDX-License-Identifier: MIT
#include <cmath>
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/launch.cuh"

namespace
{

enum { BLOCKS_MAX = 1024 };

__device__ void next_scale(LossScale &s, const LossScaleRule &r, bool skip)
{
    if (r.interval == 0) return;
    if (skip) {
        s.good = 0;
        s.left--;
        if (s.left <= 0) s.scale = fmaxf(s.scale * r.backoff, 1.0f);
    } else if (++s.good >= r.interval) {
        const float more = s.scale * r.growth;
        s.good = 0;
        s.left = r.hysteresis;
        if (isfinite(more)) s.scale = more;
    }
}

__global__ void step_gate_kernel(StepGateArgs a)
{
    StepGate g = *a.gate;
    g.rates = a.rates[a.rates[0].step == g.t + 1 ? 0 : 1];
    const double s = static_cast<double>(g.scale.scale);
    g.loss = *a.loss;
    g.norm = sqrt(*a.norm2) / s;
    const double clip = a.clip > 0 ? a.clip / (g.norm + 1e-6) : 1.0;
    const bool skip = !isfinite(g.norm) || !isfinite(g.loss);
    g.t += !skip;
    g.bad = -1;
    g.grad_scale = static_cast<float>((clip < 1 ? clip : 1.0) / s);
    g.skip = skip;
    next_scale(g.scale, a.rule, skip);
    *a.gate = g;
}

__global__ void __launch_bounds__(GRID_THREADS)
    first_bad_kernel(StepGate *gate, const float *grad, int64_t n)
{
    if (!gate->skip) return;
    const int64_t step = static_cast<int64_t>(gridDim.x) * GRID_THREADS;
    int64_t i = static_cast<int64_t>(blockIdx.x) * GRID_THREADS + threadIdx.x;
    while (i < n && isfinite(grad[i])) i += step;
    if (i < n)
        atomicMin(reinterpret_cast<unsigned long long *>(&gate->bad),
                  static_cast<unsigned long long>(i));
}

} // namespace

bool cuda_step_gate_supports(const CudaDevice *, const StepGateArgs *, const char **)
{
    return true;
}

size_t cuda_step_gate_scratch(const CudaDevice *, const StepGateArgs *)
{
    return 0;
}

int cuda_step_gate(const CudaDevice *d, const StepGateArgs *a, void *)
{
    const cudaError_t e =
        launch({.grid = dim3(1), .block = dim3(1)}, d->stream, step_gate_kernel, *a);
    if (e != cudaSuccess || a->n == 0) return e;
    return launch(
        {.grid = dim3(grid_blocks(a->n, GRID_THREADS, BLOCKS_MAX)), .block = dim3(GRID_THREADS)},
        d->stream, first_bad_kernel, a->gate, a->grad, a->n);
}
