// op_call.h -- the op calls of a training step, as data: what `lathe bench` times and `lathe ops`
// asks about.
//
// An op has one or more cases (matmul: forward, dX and dW of every linear layer). A case is built
// twice, as a model is: against a counting arena it says how much memory its tensors take, against
// a real one it gives arguments that can be run. Only tables of ids are filled in; what the numbers
// are is up to the caller.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/arena.h"
#include "engine/model/precision.h"
#include "kernels/ops.h"

typedef struct OpShape {
    const char *name;
    int64_t B, T, C, H, L, V, Vp; // as in kernels/README.md
} OpShape;

typedef struct OpCall {
    const OpShape *shape; // in
    const Precision *prec;
    Arena *memory;
    bool sent;       // the memory is a device's and holds what was filled in before
    char name[40];   // out: "fc gelu", "mlp dx dgelu", ...
    int64_t calls;   // how often a step makes this call; 0: it does not (dropout is off)
    int64_t M, N, K; // of matmul and matmul_fp8, else 0
} OpCall;

typedef union OpArgs {
#define OP(name, Args, summary) Args name;
#include "kernels/ops.def"
#undef OP
} OpArgs;

LT_C_BEGIN
// A shape by its name; ERR_USAGE lists the names.
LT_MUST_CHECK Status op_call_shape(const char *name, const OpShape **out, Err *err);
// Case i of an op; false: there are fewer. Allocates its tensors in c->memory.
bool op_call_make(OpCall *c, OpId id, int i, OpArgs *a);

// op_NAME(), op_NAME_impl(), op_NAME_serves() by number.
LT_MUST_CHECK Status op_call_run(OpId id, OpCtx *cx, const OpArgs *a, Err *err);
const char *op_call_impl(OpId id, const OpCtx *cx, const OpArgs *a);
bool op_call_serves(OpId id, const OpCtx *cx, const OpArgs *a, int row, const char **why);
// The op with this name; ERR_USAGE names the nearest.
LT_MUST_CHECK Status op_call_find(const char *name, OpId *out, Err *err);
LT_C_END
