// cmd_ops.c -- lathe ops [NAME]: which implementation each op would use on this machine.
//
// Asks the op table with the arguments of a GPT-2 block (B 4, T 128, C 768, H 12) in the policies
// fp32 and bf16. --cpu.isa and --ops.NAME=IMPL count as they do in training. With a NAME: what each
// implementation of that op says to these calls.
//
// SPDX-License-Identifier: MIT
#include "engine/base/arena.h"
#include "engine/base/mem.h"
#include "engine/cli/cli.h"
#include "engine/config/near_name.h"
#include "engine/model/backend.h"

#include <stdio.h>
#include <string.h>

enum { B = 4, T = 128, C = 768, H = 12, D = 64, F = 4 * C, V = 50257, VP = 50304, N = B * T };

typedef struct Policy {
    const char *name;
    DType act, weight, resid;
} Policy;

static const Policy policies[] = {
    {"fp32", DTYPE_F32, DTYPE_F32, DTYPE_F32},
    {"bf16", DTYPE_BF16, DTYPE_BF16, DTYPE_F32},
};

// An address for a tensor that nobody will touch.
static void *some(Arena *a)
{
    return arena_alloc(a, 1);
}

static EmbeddingFwdArgs typical_embedding_fwd(Arena *a, const Policy *p)
{
    return (EmbeddingFwdArgs){.out = some(a),
                              .wte = some(a),
                              .wpe = some(a),
                              .token = some(a),
                              .N = N,
                              .T = T,
                              .C = C,
                              .V = V,
                              .P = T,
                              .w_dtype = p->weight,
                              .out_dtype = p->resid};
}

static EmbeddingBwdArgs typical_embedding_bwd(Arena *a, const Policy *p)
{
    return (EmbeddingBwdArgs){.dwte = some(a),
                              .dwpe = some(a),
                              .dout = some(a),
                              .token = some(a),
                              .N = N,
                              .T = T,
                              .C = C,
                              .V = V,
                              .P = T,
                              .dout_dtype = p->resid};
}

static DropoutArgs typical_dropout(Arena *a, const Policy *p)
{
    return (DropoutArgs){.y = some(a), .x = some(a), .B = B, .T = T, .C = C, .dtype = p->resid};
}

static LayernormFwdArgs typical_layernorm_fwd(Arena *a, const Policy *p)
{
    return (LayernormFwdArgs){.out = some(a),
                              .resid_out = some(a),
                              .mean = some(a),
                              .rstd = some(a),
                              .x = some(a),
                              .add = some(a),
                              .weight = some(a),
                              .bias = some(a),
                              .N = N,
                              .T = T,
                              .C = C,
                              .eps = 1e-5f,
                              .x_dtype = p->resid,
                              .add_dtype = p->act,
                              .out_dtype = p->act,
                              .w_dtype = p->weight};
}

static LayernormBwdArgs typical_layernorm_bwd(Arena *a, const Policy *p)
{
    return (LayernormBwdArgs){.dresid = some(a),
                              .dadd = some(a),
                              .dweight = some(a),
                              .dbias = some(a),
                              .dresid_in = some(a),
                              .dy = some(a),
                              .x = some(a),
                              .mean = some(a),
                              .rstd = some(a),
                              .weight = some(a),
                              .N = N,
                              .T = T,
                              .C = C,
                              .dresid_dtype = p->resid,
                              .dadd_dtype = p->act,
                              .dy_dtype = p->act,
                              .x_dtype = p->resid,
                              .w_dtype = p->weight};
}

static MatmulArgs typical_matmul(Arena *a, const Policy *p)
{
    return (MatmulArgs){.C = some(a),
                        .A = some(a),
                        .B = some(a),
                        .bias = some(a),
                        .aux = some(a),
                        .M = N,
                        .N = F,
                        .K = C,
                        .lda = C,
                        .ldb = C,
                        .ldc = F,
                        .trans_b = true,
                        .epilogue = MATMUL_GELU,
                        .ab_dtype = p->act,
                        .c_dtype = p->act,
                        .bias_dtype = p->weight};
}

static BiasBwdArgs typical_bias_bwd(Arena *a, const Policy *p)
{
    return (BiasBwdArgs){.db = some(a), .dy = some(a), .N = N, .C = C, .dtype = p->act};
}

static AttentionFwdArgs typical_attention_fwd(Arena *a, const Policy *p)
{
    return (AttentionFwdArgs){.out = some(a),
                              .lse = some(a),
                              .q = some(a),
                              .k = some(a),
                              .v = some(a),
                              .B = B,
                              .H = H,
                              .Tq = T,
                              .Tk = T,
                              .D = D,
                              .q_batch = 3 * T * C,
                              .q_row = 3 * C,
                              .kv_batch = 3 * T * C,
                              .kv_row = 3 * C,
                              .out_batch = T * C,
                              .out_row = C,
                              .scale = 0.125f,
                              .mask = {.causal = true},
                              .dtype = p->act};
}

static AttentionBwdArgs typical_attention_bwd(Arena *a, const Policy *p)
{
    return (AttentionBwdArgs){.dq = some(a),
                              .dk = some(a),
                              .dv = some(a),
                              .dout = some(a),
                              .out = some(a),
                              .lse = some(a),
                              .q = some(a),
                              .k = some(a),
                              .v = some(a),
                              .B = B,
                              .H = H,
                              .T = T,
                              .D = D,
                              .qkv_batch = 3 * T * C,
                              .qkv_row = 3 * C,
                              .out_batch = T * C,
                              .out_row = C,
                              .scale = 0.125f,
                              .mask = {.causal = true},
                              .dtype = p->act};
}

static CrossEntropyArgs typical_cross_entropy(Arena *a, const Policy *p)
{
    return (CrossEntropyArgs){.loss = some(a),
                              .logits = some(a),
                              .target = some(a),
                              .N = N,
                              .V = V,
                              .Vp = VP,
                              .grad_scale = 1,
                              .want_grad = true,
                              .dtype = p->act};
}

static SumSquaresArgs typical_sum_squares(Arena *a, const Policy *p)
{
    (void)p; // gradients of weights are f32 in every policy
    return (SumSquaresArgs){.out = some(a), .x = some(a), .n = F * C};
}

static AdamwArgs typical_adamw(Arena *a, const Policy *p)
{
    return (AdamwArgs){.w = some(a),
                       .param = p->weight == DTYPE_F32 ? NULL : some(a),
                       .m = some(a),
                       .v = some(a),
                       .grad = some(a),
                       .n = F * C,
                       .step = 1,
                       .lr = 1e-3,
                       .beta1 = 0.9,
                       .beta2 = 0.95,
                       .eps = 1e-8,
                       .grad_scale = 1,
                       .param_dtype = p->weight};
}

static CastArgs typical_cast(Arena *a, const Policy *p)
{
    return (CastArgs){.dst = some(a), .src = some(a), .n = F * C, .dst_dtype = p->weight};
}

static const char *impl_of(OpId id, const OpCtx *cx, const Policy *p)
{
    Arena a;
    arena_init_counting(&a, "ops");
    switch (id) {
#define OP(name, Args, summary)                                                                    \
    case OP_##name: {                                                                              \
        const Args args = typical_##name(&a, p);                                                   \
        return op_##name##_impl(cx, &args);                                                        \
    }
#include "kernels/ops.def"
#undef OP
    case OP_COUNT: break;
    }
    return NULL;
}

static bool serves(OpId id, const OpCtx *cx, const Policy *p, int i, const char **why)
{
    Arena a;
    arena_init_counting(&a, "ops");
    switch (id) {
#define OP(name, Args, summary)                                                                    \
    case OP_##name: {                                                                              \
        const Args args = typical_##name(&a, p);                                                   \
        return op_##name##_serves(cx, &args, i, why);                                              \
    }
#include "kernels/ops.def"
#undef OP
    case OP_COUNT: break;
    }
    return false;
}

static void print_table(const OpCtx *cx)
{
    printf("%-14s", "op");
    for (size_t i = 0; i < LT_COUNT(policies); i++) printf(" %-12s", policies[i].name);
    printf(" what it does\n");
    for (int id = 0; id < OP_COUNT; id++) {
        printf("%-14s", ops_name((OpId)id));
        for (size_t i = 0; i < LT_COUNT(policies); i++) {
            const char *impl = impl_of((OpId)id, cx, &policies[i]);
            printf(" %-12s", impl ? impl : "none");
        }
        printf(" %s\n", ops_summary((OpId)id));
    }
}

static void print_op(const OpCtx *cx, OpId id)
{
    printf("%s: %s\n", ops_name(id), ops_summary(id));
    for (int i = cx->ops->info[id].n - 1; i >= 0; i--) {
        for (size_t k = 0; k < LT_COUNT(policies); k++) {
            const char *why = "", *used = impl_of(id, cx, &policies[k]);
            const char *impl = ops_impl_name(cx->ops, id, i);
            const bool yes = serves(id, cx, &policies[k], i, &why);
            printf("  %-12s %-5s %s%s\n", impl, policies[k].name, yes ? "serves" : "refuses: ",
                   !yes                              ? why
                   : used && strcmp(used, impl) == 0 ? ", is used"
                                                     : "");
        }
    }
}

static Status print_ops(const Options *o, Backend *b, Err *err)
{
    const OpCtx cx = {.ops = &b->ops, .device = &b->device};
    if (o->n_args == 0) {
        printf("cpu, %d threads: %s\n\n", b->device.threads, b->cpu.why);
        print_table(&cx);
        return ERR_NONE;
    }
    NearName near = {0};
    for (int id = 0; id < OP_COUNT; id++) {
        if (strcmp(o->args[0], ops_name((OpId)id)) == 0) {
            print_op(&cx, (OpId)id);
            return ERR_NONE;
        }
        near_offer(&near, o->args[0], ops_name((OpId)id));
    }
    const Status s = err_set(err, ERR_USAGE, "no op is called '%.100s'", o->args[0]);
    err_hint(err, near.best ? "nearest: %s" : "lathe ops lists them%s", near.best ? near.best : "");
    return s;
}

Status cmd_ops(const Options *o, Err *err)
{
    if (o->n_args > 1) return err_set(err, ERR_USAGE, "one op at a time: %.100s", o->args[1]);
    Backend *b = mem_alloc(sizeof *b);
    if (!b) return mem_err(err, sizeof *b, "the op table");
    Status s = backend_of_options(b, o, err);
    if (s == ERR_NONE) s = print_ops(o, b, err);
    mem_free(b);
    return s;
}
