// fake_cublaslt.h -- what a test may ask the stand-in for cuBLASLt (fake_cublaslt.c).
//
// Its behaviour is set by the environment variable FAKE_CUBLASLT, words in any order:
//   no_start       cublasLtCreate fails
//   no_algorithm   the heuristic has nothing
//   no_epilogue    the heuristic has nothing but for the plain product
//   no_run         every product is refused when it is to run
//   slow           all algorithms but 1 and 2 take 20 ms
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdint.h>

typedef struct FakeCublasltCounts {
    int64_t asked;     // calls of the heuristic
    int64_t queued;    // products
    int64_t fused;     // of these, with an epilogue
    int64_t last_algo; // of the last product: an index into the list of fake_cublaslt.c
    int64_t last_fast; // and its FAST_ACCUM
} FakeCublasltCounts;

FakeCublasltCounts *fake_cublaslt_counts(void);
