// hopper_problem.h -- what test_matmul_hopper.c and test_matmul_fp8_hopper.c have in common: a GPU
// of as few SMs as the test says, and a product on it against its reference.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cuda/device_cuda.h"
#include "kernels/cuda/matmul_hopper.h"
#include "tests/support/op_harness.h"

#include <stdio.h>

typedef struct Shape {
    int64_t M, N, K;
    int sms;
    int pad; // more columns of the pitch, in units of 16 bytes
} Shape;

static Device gpu;
static int64_t ran;
static struct { // what the row of the op table takes
    HopperPlan plan;
    int sms;
} forced;

LT_INLINE CudaDevice forced_device(const Device *device)
{
    CudaDevice d = *device_cuda_of(device);
    d.sm_count = forced.sms;
    return d;
}

LT_INLINE int64_t pitch(int64_t cols, DType t, int pad)
{
    const int64_t unit = 16 / (int64_t)dtype_bytes(t);
    return (cols + unit - 1) / unit * unit + pad * unit;
}

// `got` by `ops` comes to what its reference says; in parts of K, a second time with equal bits.
LT_INLINE bool comes_out_right(Case *got, const Ops *ops,
                               void (*build)(Case *c, const void *problem, Device *d),
                               const void *problem, char why[512])
{
    static Truth t;
    Case want, near, again;
    truth_init(&t);
    build(&want, problem, &t.host);
    build(&near, problem, &t.host);
    bool good = case_run(&want, &t.ref, why) && case_run(&near, &t.naive, why) &&
                case_run(got, ops, why) && case_matches(got, &want, &near, why);
    if (good && forced.plan.splits > 1) { // the counters are ready again; and the order is the same
        build(&again, problem, &gpu);
        good = case_run(&again, ops, why) && case_same_bits(got, &again, why);
        case_free(&again);
    }
    case_free(&want);
    case_free(&near);
    ran++;
    return good;
}

LT_INLINE int open_gpu(void **state)
{
    (void)state;
    Err err;
    if (device_cuda_open(&gpu, 0, &err) != ERR_NONE) {
        printf("SKIP: %s\n", err.text);
        return 1;
    }
    return 0;
}

LT_INLINE int close_gpu(void **state)
{
    (void)state;
    printf("%d cases\n", (int)ran);
    device_cuda_close(&gpu);
    return 0;
}
