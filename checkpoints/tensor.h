// tensor.h -- a named tensor in host memory: what the engine gives to be saved or wants filled.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>
#include "engine/base/dtype.h"

enum { TENSOR_NAME_CAP = 256, TENSOR_RANK_MAX = 4 };

typedef struct Tensor {
    char name[TENSOR_NAME_CAP]; // the engine's name: "block.0.attn.qkv.weight"
    DType dtype;
    int rank;
    int64_t shape[TENSOR_RANK_MAX];
    void *data; // row-major, borrowed
} Tensor;

static inline int64_t tensor_count(const Tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}
