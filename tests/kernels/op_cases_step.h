// op_cases_step.h -- cases of sum and step_gate, and a gate for the cases of others.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "tests/support/op_harness.h"

typedef struct SumCase {
    int64_t n;
    bool    accumulate;
} SumCase;

typedef struct StepGateCase {
    int64_t       n, bad; // element that is not finite, -1: none
    int64_t       t;
    double        norm2, loss, clip;
    LossScale     scale;
    LossScaleRule rule;
} StepGateCase;

LT_C_BEGIN
extern const SumCase sum_cases[8];
void build_sum(Case *c, int variant, const Mix *m);
extern const StepGateCase step_gate_cases[16];
void build_step_gate(Case *c, int variant, const Mix *m);
// Plain bytes, a multiple of 8: structs or some doubles.
Tensor *case_bytes(Case *c, TensorRole role, const char *name, const void *x, size_t bytes);
// A gate as a tensor of the case; on the device.
const StepGate *case_gate(Case *c, TensorRole role, const StepGate *g);
LT_C_END
