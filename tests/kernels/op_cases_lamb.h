// op_cases_lamb.h -- cases of lamb.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "tests/support/op_harness.h"

enum { LAMB_CASE_SEGMENTS = 5 };

typedef struct LambCase {
    int64_t n_segment;
    double weight_decay, grad_scale;
    bool param, skip;
    struct {
        int64_t gap, n; // elements of no segment in front of it; its own
        int decayed;
        int zero; // 1: weights, 2: gradient and moments, 3: both
    } segment[LAMB_CASE_SEGMENTS];
} LambCase;

LT_C_BEGIN
extern const LambCase lamb_cases[9];
void build_lamb(Case *c, int variant, const Mix *m);
LT_C_END
