// fake_cudnn.h -- what a test may ask the stand-in for cuDNN (fake_cudnn.c).
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>

typedef struct FakeCudnnCounts {
    int64_t plans, runs;
} FakeCudnnCounts;

FakeCudnnCounts *fake_cudnn_counts(void);
