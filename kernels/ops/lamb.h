// lamb.h -- op contract: LAMB (You et al. 2019) over a flat range of parameters.
//
// AdamW's direction, with a length of its own for each tensor: a step changes a tensor by the
// learning rate times the tensor's length, whatever its gradients are. So batches of thousands of
// sequences train with one learning rate for all layers.
//
// Math, for the elements of each segment (one tensor), with the gate's rates, t = rates.step:
//     g     = grad * gate->grad_scale
//     m     = beta1 m + (1 - beta1) g
//     v     = beta2 v + (1 - beta2) g^2
//     u     = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay * w
//     ratio = |w| / |u|, the lengths of the segment's w and u;  1 when either is 0
//     w     = w - rates.lr * ratio * u
//     param = w rounded to param_dtype        when param is not NULL
//     grad  = u
//   A segment with decayed == 0 (biases, norms) has no weight decay and ratio 1.
//   As in MLPerf's rules for BERT. Squares are summed in double.
//   gate->skip: nothing changes.
// Edges:   Elements in no segment are not touched. n == 0: nothing happens. NaN gradients spread:
//          the gate has looked.
// Legal:   eps > 0. Segments follow one another, do not overlap, and lie in n; lamb_chunks has
//          numbered their chunks.
// Repeat:  bitwise: sums of chunks, added in order.
// Cost:    40 bytes an element with f32 states (+2 for a bf16 copy), in two sweeps: memory bound.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/dtype.h"
#include "engine/base/err.h"
#include "kernels/ops/step_gate.h"

// A segment is worked on in chunks of this many elements, the last one may have fewer: what a
// thread block or a CPU thread takes at a time. A chunk has elements of one segment only.
enum { LAMB_CHUNK = 1 << 14 };

typedef struct LambSegment { // one tensor; q, k and v are three, also when they are stored as one
    int64_t from, n;         // elements of the flat buffers
    int64_t chunk;           // its first; chunks are numbered through all segments
    int32_t chunks;          // of this segment
    int32_t decayed;         // 0: no decay, and a trust ratio of 1
} LambSegment;

typedef struct LambArgs {
    float *w;                   // [n]  in and out: master weights
    void *param;                // [n]  assign, param_dtype: the copy the model reads, or NULL
    float *m, *v;               // [n]  in and out
    float *grad;                // [n]  in: gradients; out: u
    const LambSegment *segment; // [n_segment], on the device
    const StepGate *gate;       // one, on the device
    int64_t n, n_segment, n_chunk;
    double beta1, beta2, eps, weight_decay;
    DType param_dtype;
} LambArgs;

LT_C_BEGIN
LT_MUST_CHECK Status lamb_check(const LambArgs *a, Err *err);
// Number the chunks: sets `chunk` and `chunks` of every segment and returns how many there are.
int64_t lamb_chunks(LambSegment *segment, int64_t n_segment);
LT_C_END
