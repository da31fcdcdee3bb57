// ops.h -- the op table: one contract an op, several implementations, chosen at run time.
//
//     Ops         for each op a list of implementations, best last:  ref, cpu-avx2, cuda-hopper ...
//     op_NAME()   runs the last one whose `supports` says yes, or in plan mode only measures
//
// Following BLIS, ref_register() fills the table first and every backend adds what it serves, so a
// new backend works from its first kernel. `--ops.NAME=IMPL` keeps one implementation (ops_force).
//
// Plan mode: when cx->plan is set, op_NAME() does not run anything; it records the scratch memory,
// FLOPs and bytes the call would need. The model's own code thereby measures itself.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "kernels/device.h"
#include "kernels/ops/act_bwd.h"
#include "kernels/ops/adamw.h"
#include "kernels/ops/attention_bwd.h"
#include "kernels/ops/attention_fwd.h"
#include "kernels/ops/bias_bwd.h"
#include "kernels/ops/cast.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/dropout.h"
#include "kernels/ops/embedding_bwd.h"
#include "kernels/ops/embedding_fwd.h"
#include "kernels/ops/fp8_quantize.h"
#include "kernels/ops/fp8_update.h"
#include "kernels/ops/gather_rows.h"
#include "kernels/ops/lamb.h"
#include "kernels/ops/layernorm_bwd.h"
#include "kernels/ops/layernorm_fwd.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/matmul_fp8.h"
#include "kernels/ops/scatter_rows.h"
#include "kernels/ops/step_gate.h"
#include "kernels/ops/sum.h"
#include "kernels/ops/sum_squares.h"

enum { OPS_IMPL_MAX = 6 };

typedef enum OpId {
#define OP(name, Args, summary) OP_##name,
#include "kernels/ops.def"
#undef OP
    OP_COUNT
} OpId;

typedef struct Ops Ops;

typedef struct OpPlan {   // what a sequence of op calls needs
    size_t scratch_bytes; // largest of any call
    double flops;         // sum; a multiply-add counts two
    double matmul_flops;  // of these, in matmul, matmul_fp8 and attention
    double bytes;         // sum of bytes read and written
    int64_t calls;
} OpPlan;

typedef struct OpCtx {
    const Ops *ops;
    Device *device;
    void *scratch; // for one call at a time
    size_t scratch_bytes;
    OpPlan *plan; // not NULL: measure, do not run
} OpCtx;

// Implementations report launch failures only; a CPU kernel always returns ERR_NONE.
#define OP(name, Args, summary)                                                                    \
    typedef struct Impl_##name {                                                                   \
        const char *impl; /* "ref", "avx512", "amx", ... */                                        \
        bool (*supports)(const Args *a, const OpCtx *cx, const char **why); /* NULL: everything */ \
        size_t (*scratch)(const Args *a, const OpCtx *cx);                  /* NULL: none */       \
        Status (*run)(const Args *a, OpCtx *cx, Err *err);                                         \
    } Impl_##name;
#include "kernels/ops.def"
#undef OP

struct Ops {
    struct {
        int n;       // implementations below
        bool forced; // ops_force was here
    } info[OP_COUNT];
#define OP(name, Args, summary) Impl_##name name[OPS_IMPL_MAX];
#include "kernels/ops.def"
#undef OP
};

LT_C_BEGIN
// An empty table with the reference implementations.
void ops_init(Ops *ops);
// Add an implementation; a later one is preferred.
#define OP(name, Args, summary) void ops_add_##name(Ops *ops, Impl_##name impl);
#include "kernels/ops.def"
#undef OP
// Keep only implementation `impl` of op `name`; "attention" stands for attention_fwd and
// attention_bwd, likewise the others. ERR_USAGE names what there is.
LT_MUST_CHECK Status ops_force(Ops *ops, const char *name, const char *impl, Err *err);

const char *ops_name(OpId id);
const char *ops_summary(OpId id);
const char *ops_impl_name(const Ops *ops, OpId id, int i); // i < info[id].n

// Run (or plan) one op. ERR_UNSUPPORTED when no implementation serves the arguments; the text gives
// each one's reason. Arguments that the op's check refuses are a wrong call.
#define OP(name, Args, summary)                                                                    \
    LT_MUST_CHECK Status op_##name(OpCtx *cx, const Args *a, Err *err);                            \
    /* the implementation that would serve the call; NULL: none */                                 \
    const char *op_##name##_impl(const OpCtx *cx, const Args *a);                                  \
    /* would row i serve it? *why says why not */                                                  \
    bool op_##name##_serves(const OpCtx *cx, const Args *a, int i, const char **why);              \
    double name##_flops(const Args *a);                                                            \
    double name##_bytes(const Args *a);
#include "kernels/ops.def"
#undef OP
LT_C_END
