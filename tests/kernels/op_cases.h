// op_cases.h -- cases of the op matrix that have a file of their own; op_cases.c has the others.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/rng.h"
#include "tests/support/op_harness.h"

typedef struct MatmulFp8Case {
    int64_t M, N, K;
    int flags; // of op_cases_matmul_fp8.c
    MatmulEpilogue epilogue;
    Activation act;
} MatmulFp8Case;

typedef struct Fp8QuantizeCase {
    int64_t R, C;
    int flags, numbers; // of op_cases_fp8.c
    float scale;
    int margin;
} Fp8QuantizeCase;

typedef struct Fp8UpdateCase {
    int64_t n, length;
    int margin;
    Fp8Amax algorithm;
    int skip; // the flag's value; -1: there is none
    bool held; // every third slot is
} Fp8UpdateCase;

typedef struct AdamwCase {
    int64_t n, step;
    double weight_decay, grad_scale;
    bool param;
    int gate;  // 0: none, 1: of a step that counts, 2: of one that is skipped
    int64_t R; // rows, with FP8 copies; 0: without
    int sort;  // of the FP8 outputs
} AdamwCase;

typedef struct Fp8OutCase { // what of an Fp8Out is asked for, and how it compares
    bool q, qt, amax, count;
    bool writes_scale;
    bool kept; // by a call that changes nothing
    bool exact; // q, qt and amax: bit for bit; else within `floor`
    double floor;
    int64_t ld_q, ld_qt;
    float scale;
    float seen; // what amax holds before
} Fp8OutCase;

typedef struct AttentionCase {
    int64_t B, H, Tq, Tk, D;
    bool packed, causal;
    int64_t window, q_pos0;
    int segments; // 1: documents; 2: and queries that see nothing; rows of an encoder,
                  // padded behind 3: one sequence, 4: three
    double p;
} AttentionCase;

LT_C_BEGIN
extern const AttentionCase attention_fwd_cases[28];
void build_attention_fwd(Case *c, int variant, const Mix *m);
extern const AttentionCase attention_bwd_cases[24];
void build_attention_bwd(Case *c, int variant, const Mix *m);
extern const MatmulFp8Case matmul_fp8_cases[49];
void build_matmul_fp8(Case *c, int variant, const Mix *m);
extern const Fp8QuantizeCase fp8_quantize_cases[24];
void build_fp8_quantize(Case *c, int variant, const Mix *m);
extern const Fp8UpdateCase fp8_update_cases[12];
void build_fp8_update(Case *c, int variant, const Mix *m);
extern const AdamwCase adamw_cases[16];
void build_adamw(Case *c, int variant, const Mix *m);

// Two flipped roundings of an intermediate that the contract lets a kernel keep in this type.
double case_loose(DType t);
// Dropout of B samples.
DropoutSpec case_drop(Case *c, double p, int64_t B, RngSite site);
// In odd variants one element is NaN: it may spread as far as the contract says, no further.
void case_nan(Tensor *t, int variant, int64_t row, int64_t col);
// n rounded up to 16, and 16 more with `pad`.
int64_t case_row16(int64_t n, bool pad);
// As case_tensor; exact: in and inout have 0, +-1/2, +-1, +-2 for data.
Tensor *case_operand(Case *c, TensorRole role, const char *name, DType t, int64_t rows,
                     int64_t cols, int64_t ld, bool exact);
// The inverse of an operand's scale, on the device.
const float *case_inv(Case *c, const char *name, float inv, DType t);
// The FP8 copies of a tensor [R,C]; o->dtype is set.
void case_fp8_out(Case *c, Fp8Out *o, int64_t R, int64_t C, const Fp8OutCase *k);
// The FP8 outputs of layernorm_fwd, of one of four sorts.
void case_layernorm_fp8(Case *c, LayernormFwdArgs *a, int sort, double floor);
// Those of adamw, w a matrix of R rows. `skip`: they stay as they are.
void case_adamw_fp8(Case *c, AdamwArgs *a, int64_t R, int sort, bool skip);
LT_C_END
