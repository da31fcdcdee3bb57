// matmul_hopper.h -- the Hopper matrix products with a tile of the caller's choice, for tests.
//
// hopper_matmul() (cuda_kernels.h) is the op; it takes what hopper_matmul_plan() says. The tiles
// are described in matmul_hopper.cuh.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "kernels/cuda/cuda_device.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/matmul_fp8.h"

typedef struct HopperPlan {
    int tile;   // 0 BIG 128 x 256, 1 PINGPONG 64 x 256, 2 SMALL 128 x 128, 3 PROMOTED 128 x 128
    int splits; // parts of K, summed in order; more than 1 with SMALL and PROMOTED only
} HopperPlan;

enum { HOPPER_TILES = 4 };

LT_C_BEGIN
// A function of shape, types and epilogue alone. The call must be one that hopper_matmul serves.
HopperPlan hopper_matmul_plan(const MatmulArgs *a);
// May it be this one?
bool hopper_matmul_allows(const MatmulArgs *a, HopperPlan p);
size_t hopper_matmul_plan_scratch(const MatmulArgs *a, HopperPlan p);
int hopper_matmul_planned(const CudaDevice *d, const MatmulArgs *a, HopperPlan p, void *scratch);

// The same for FP8, which has BIG (e4m3 e4m3) and PROMOTED (e5m2 e4m3).
HopperPlan hopper_matmul_fp8_plan(const MatmulFp8Args *a);
size_t hopper_matmul_fp8_plan_scratch(const MatmulFp8Args *a, HopperPlan p);
int hopper_matmul_fp8_planned(const CudaDevice *d, const MatmulFp8Args *a, HopperPlan p,
                              void *scratch);
LT_C_END
