// op_harness.h -- runs one op with hostile memory around it and compares it with its reference.
//
// A Case is one call: an Args struct and its tensors. It is built by a function of (variant,
// element types), so building it again gives the same inputs; one Case is made for the reference,
// one for the naive single-precision twin (naive.h), one for each implementation under test.
//
//     block of a tensor   | guard | [skew] row 0 | NaN padding | row 1 | NaN padding ... | guard |
//     (FP8 is never skewed: its contracts ask for multiples of 16)
//
// What every run checks
//   (1) guards, padding and inputs are untouched; the Args struct, too
//   (2) outputs start as NaN (assign) or as numbers (accumulate) and match the reference
//   (3) scratch of exactly the size that plan mode asked for, full of NaN, guarded
//
// Tolerance: error beyond one rounding of the output type
//            <= 2 x the naive twin's + floor x max |want|.
//
// Memory of a case comes from its device, so that a GPU backend runs through the same code.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/dtype.h"
#include "kernels/ops.h"

enum { CASE_TENSORS = 20 };

typedef enum TensorRole {
    TENSOR_IN,
    TENSOR_OUT,   // starts as NaN
    TENSOR_INOUT, // starts as numbers: accumulate, or in place
} TensorRole;

typedef struct Tensor {
    const char *name;
    TensorRole role;
    DType dtype;
    bool f64;   // elements are double (dtype is I64 then)
    bool exact; // equals the reference bit for bit
    int64_t rows, cols, ld;
    double floor; // of the tolerance; 0 takes the default, 2e-6. The larger one of the reference's
                  // and this run's counts: a device's units may add with fewer bits
    char *host;   // image: what the block held before the run
    char *result; // what it held after the run
    char *block;  // on the device
    size_t block_bytes;
    size_t at;   // bytes from the block's start to element 0
    size_t tail; // bytes of guard behind the last element; 0 on a fenced device
} Tensor;

typedef union OpArgs {
#define OP(name, Args, summary) Args name;
#include "kernels/ops.def"
#undef OP
} OpArgs;

typedef struct Case {
    OpId op;
    OpArgs args;
    Device *device;
    uint64_t seed;
    int skew; // elements by which every tensor is off its alignment
    int n;
    Tensor t[CASE_TENSORS];
} Case;

typedef struct Mix { // element types of one policy
    const char *name;
    DType act, weight, resid;
} Mix;

typedef struct CaseTable {
    int variants;
    void (*build)(Case *c, int variant, const Mix *m);
} CaseTable;

typedef struct Truth { // what a case must come to
    Ops ref, naive;
    Device host;
} Truth;

LT_C_BEGIN
void naive_register(Ops *ops);
void truth_init(Truth *t);
// Is `impl` among `names`? It is from now on. (Several backends share the kernels of one.)
bool impl_seen(char names[256], const char *impl);
Status cast_naive(const CastArgs *a, OpCtx *cx, Err *err);

// The cases of an op: tests/kernels/op_cases.c.
const CaseTable *case_table(OpId op);
const Mix *case_mix(int i); // NULL behind the last
void case_build(Case *c, OpId op, int variant, const Mix *m,
                Device *d); // the seed is the variant's
void case_free(Case *c);

// For builders: a tensor [rows, cols] with row stride ld, normal values times `scale` (in, inout).
Tensor *case_tensor(Case *c, TensorRole role, const char *name, DType t, int64_t rows, int64_t cols,
                    int64_t ld, double scale);
Tensor *case_ints(Case *c, const char *name, int64_t n, int64_t below); // i32 in [0, below)
void *tensor_host(const Tensor *t);                                     // element 0 in the image
void *tensor_dev(const Tensor *t);                                      // element 0 on the device

// Bytes and FLOP of the call together.
double case_cost(const Case *c);
// The implementation that `ops` would use, or NULL.
const char *case_impl(const Case *c, const Ops *ops);
// Why the first implementation does not serve it.
const char *case_refusal(const Case *c, const Ops *ops);
// A CPU device whose blocks end at a page that may not be touched: a read too far ends the program.
void fenced_device_init(Device *d, int threads);
// Upload, run with exactly the scratch it asks for, download. false: `why` says what was violated.
bool case_run(Case *c, const Ops *ops, char why[512]);
// Compare outputs with the reference's, given the naive twin's.
bool case_matches(const Case *got, const Case *want, const Case *naive, char why[512]);
bool case_same_bits(const Case *a, const Case *b, char why[512]);
LT_C_END
