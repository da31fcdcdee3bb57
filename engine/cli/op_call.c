// op_call.c -- see op_call.h. One function an op; matmul has a table of layers.
//
// SPDX-License-Identifier: MIT
#include "engine/cli/op_call.h"
#include "engine/config/near_name.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Names and sizes as in scripts/bench_train.py.
static const OpShape shapes[] = {
    {"124m-4x64", 4, 64, 768, 12, 12, 50257, 50304},
    {"124m-2x1024", 2, 1024, 768, 12, 12, 50257, 50304},
    {"char-12x256", 12, 256, 384, 6, 6, 65, 128},
    {"char-cpu-12x64", 12, 64, 128, 4, 4, 65, 128},
};

static const int64_t HEAD_ROWS = 1024;     // of logits at a time, as --head_rows has it
static const int64_t FLAT_MOST = 48 << 20; // elements of one call over the parameters

Status op_call_shape(const char *name, const OpShape **out, Err *err)
{
    char list[200] = "";
    for (size_t i = 0; i < LT_COUNT(shapes); i++) {
        *out = &shapes[i];
        if (strcmp(name, shapes[i].name) == 0) return ERR_NONE;
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", shapes[i].name);
    }
    return err_set(err, ERR_USAGE, "no shape is called '%.100s'; there are %s", name, list);
}

// ---- tensors ----

static char *tensor(OpCall *c, int64_t n, DType t)
{
    return arena_alloc(c->memory, (size_t)n * dtype_bytes(t));
}

static float *floats(OpCall *c, int64_t n)
{
    return (float *)(void *)tensor(c, n, DTYPE_F32);
}

// Ids as a text has them: spread over the table, the same in every run.
static int32_t *ids(OpCall *c, int64_t n)
{
    int32_t *id = (int32_t *)(void *)tensor(c, n, DTYPE_I32);
    uint32_t x = 1;
    for (int64_t i = 0; i < n && !c->sent && !arena_is_counting(c->memory); i++) {
        x = x * 1664525u + 1013904223u;
        id[i] = (int32_t)((x >> 8) % (uint32_t)c->shape->V);
    }
    return id;
}

static int64_t rows_of(const OpShape *s)
{
    return s->B * s->T;
}

static void describe(OpCall *c, const char *name, int64_t calls)
{
    snprintf(c->name, sizeof c->name, "%s", name);
    c->calls = calls;
    c->M = c->N = c->K = 0;
}

// A flat range of the parameters; all of them are several such ranges of one size.
static int64_t describe_flat(OpCall *c, bool in_step)
{
    const OpShape *s = c->shape;
    const int64_t all = 12 * s->L * s->C * s->C + (s->Vp + s->T) * s->C;
    const int64_t calls = (all + FLAT_MOST - 1) / FLAT_MOST, n = all / calls / 64 * 64;
    char name[40];
    snprintf(name, sizeof name, "%.1fM elements", (double)n * 1e-6);
    describe(c, name, in_step ? calls : 0);
    return n;
}

// ---- the ops ----

static bool make_embedding_fwd(OpCall *c, int i, EmbeddingFwdArgs *a)
{
    const OpShape *s = c->shape;
    const int64_t N = rows_of(s);
    describe(c, "tokens, positions", 1);
    *a = (EmbeddingFwdArgs){.out = tensor(c, N * s->C, c->prec->resid),
                            .wte = tensor(c, s->Vp * s->C, c->prec->param),
                            .wpe = tensor(c, s->T * s->C, c->prec->param),
                            .token = ids(c, N),
                            .N = N,
                            .T = s->T,
                            .C = s->C,
                            .V = s->V,
                            .P = s->T,
                            .w_dtype = c->prec->param,
                            .out_dtype = c->prec->resid};
    return i < 1;
}

static bool make_embedding_bwd(OpCall *c, int i, EmbeddingBwdArgs *a)
{
    const OpShape *s = c->shape;
    const int64_t N = rows_of(s);
    describe(c, "tokens, positions", 1);
    *a = (EmbeddingBwdArgs){.dwte = floats(c, s->Vp * s->C),
                            .dwpe = floats(c, s->T * s->C),
                            .dout = tensor(c, N * s->C, c->prec->resid),
                            .token = ids(c, N),
                            .N = N,
                            .T = s->T,
                            .C = s->C,
                            .V = s->V,
                            .P = s->T,
                            .dout_dtype = c->prec->resid};
    return i < 1;
}

static bool make_dropout(OpCall *c, int i, DropoutArgs *a)
{
    const OpShape *s = c->shape;
    const int64_t n = rows_of(s) * s->C;
    const DType t = c->prec->act;
    describe(c, "p 0.1", 0);
    *a = (DropoutArgs){.y = tensor(c, n, t),
                       .x = tensor(c, n, t),
                       .B = s->B,
                       .T = s->T,
                       .C = s->C,
                       .drop = {.p = 0.1f, .seed = 1, .site = RNG_DROP_MLP},
                       .dtype = t};
    a->drop.sample = (const int64_t *)(void *)tensor(c, s->B, DTYPE_I64);
    return i < 1;
}

// The first norm of a model has no branch to add, the other 2 L have.
static bool make_layernorm_fwd(OpCall *c, int i, LayernormFwdArgs *a)
{
    const OpShape *s = c->shape;
    const int64_t N = rows_of(s), n = N * s->C;
    const Precision *p = c->prec;
    describe(c, i == 0 ? "with residual" : "plain", i == 0 ? 2 * s->L : 1);
    *a = (LayernormFwdArgs){.out = tensor(c, n, p->act),
                            .resid_out = i == 0 ? tensor(c, n, p->resid) : NULL,
                            .mean = floats(c, N),
                            .rstd = floats(c, N),
                            .x = tensor(c, n, p->resid),
                            .add = i == 0 ? tensor(c, n, p->act) : NULL,
                            .weight = tensor(c, s->C, p->param),
                            .bias = tensor(c, s->C, p->param),
                            .N = N,
                            .T = s->T,
                            .C = s->C,
                            .eps = 1e-5f,
                            .x_dtype = p->resid,
                            .add_dtype = p->act,
                            .out_dtype = p->act,
                            .w_dtype = p->param};
    return i < 2;
}

static bool make_layernorm_bwd(OpCall *c, int i, LayernormBwdArgs *a)
{
    const OpShape *s = c->shape;
    const int64_t N = rows_of(s), n = N * s->C;
    const Precision *p = c->prec;
    describe(c, i == 0 ? "with residual" : "plain", i == 0 ? 2 * s->L : 1);
    *a = (LayernormBwdArgs){.dresid = tensor(c, n, p->resid),
                            .dadd = i == 0 ? tensor(c, n, p->act) : NULL,
                            .dweight = floats(c, s->C),
                            .dbias = floats(c, s->C),
                            .dy = tensor(c, n, p->act),
                            .x = tensor(c, n, p->resid),
                            .mean = floats(c, N),
                            .rstd = floats(c, N),
                            .weight = tensor(c, s->C, p->param),
                            .N = N,
                            .T = s->T,
                            .C = s->C,
                            .dresid_dtype = p->resid,
                            .dadd_dtype = p->act,
                            .dy_dtype = p->act,
                            .x_dtype = p->resid,
                            .w_dtype = p->param};
    a->dresid_in = a->dresid;
    return i < 2;
}

typedef struct Linear {
    const char *name;
    int64_t rows, in, out, calls;
    bool gelu_after, gelu_before, bias;
} Linear;

enum { LINEARS = 5 };

static Linear linear_of(const OpShape *s, int i)
{
    const int64_t N = rows_of(s), C = s->C;
    const Linear layers[LINEARS] = {
        {"qkv", N, C, 3 * C, s->L, .bias = true},
        {"proj", N, C, C, s->L, .bias = true},
        {"fc", N, C, 4 * C, s->L, .bias = true, .gelu_after = true},
        {"mlp", N, 4 * C, C, s->L, .bias = true, .gelu_before = true},
        {"head", LT_MIN(N, HEAD_ROWS), C, s->Vp, (N + HEAD_ROWS - 1) / HEAD_ROWS, .bias = false},
    };
    return layers[i];
}

// y = x W^T + bias, in `fc` with GELU behind it.
static void make_linear_fwd(OpCall *c, const Linear *l, MatmulArgs *a)
{
    const DType t = c->prec->act;
    *a = (MatmulArgs){.C = tensor(c, l->rows * l->out, t),
                      .A = tensor(c, l->rows * l->in, t),
                      .B = tensor(c, l->out * l->in, c->prec->param),
                      .bias = l->bias ? tensor(c, l->out, c->prec->param) : NULL,
                      .aux = l->gelu_after ? tensor(c, l->rows * l->out, t) : NULL,
                      .M = l->rows,
                      .N = l->out,
                      .K = l->in,
                      .lda = l->in,
                      .ldb = l->in,
                      .ldc = l->out,
                      .trans_b = true,
                      .epilogue = l->gelu_after ? MATMUL_GELU : MATMUL_PLAIN,
                      .ab_dtype = t,
                      .c_dtype = t,
                      .bias_dtype = c->prec->param};
}

// dx = dy W, in `mlp` times GELU' of what the layer's input came from.
static void make_linear_dx(OpCall *c, const Linear *l, MatmulArgs *a)
{
    const DType t = c->prec->act;
    *a = (MatmulArgs){.C = tensor(c, l->rows * l->in, t),
                      .A = tensor(c, l->rows * l->out, t),
                      .B = tensor(c, l->out * l->in, c->prec->param),
                      .aux = l->gelu_before ? tensor(c, l->rows * l->in, t) : NULL,
                      .M = l->rows,
                      .N = l->in,
                      .K = l->out,
                      .lda = l->out,
                      .ldb = l->in,
                      .ldc = l->in,
                      .epilogue = l->gelu_before ? MATMUL_DGELU : MATMUL_PLAIN,
                      .ab_dtype = t,
                      .c_dtype = t};
}

// dW = dy^T x, in f32.
static void make_linear_dw(OpCall *c, const Linear *l, MatmulArgs *a)
{
    const DType t = c->prec->act;
    *a = (MatmulArgs){.C = floats(c, l->out * l->in),
                      .A = tensor(c, l->rows * l->out, t),
                      .B = tensor(c, l->rows * l->in, t),
                      .M = l->out,
                      .N = l->in,
                      .K = l->rows,
                      .lda = l->out,
                      .ldb = l->in,
                      .ldc = l->in,
                      .trans_a = true,
                      .ab_dtype = t,
                      .c_dtype = DTYPE_F32};
}

static bool make_matmul(OpCall *c, int i, MatmulArgs *a)
{
    if (i >= 3 * LINEARS) return false;
    const Linear l = linear_of(c->shape, i / 3);
    char name[40];
    if (i % 3 == 0) {
        snprintf(name, sizeof name, "%s%s", l.name, l.gelu_after ? " gelu" : "");
        make_linear_fwd(c, &l, a);
    } else if (i % 3 == 1) {
        snprintf(name, sizeof name, "%s dx%s", l.name, l.gelu_before ? " dgelu" : "");
        make_linear_dx(c, &l, a);
    } else {
        snprintf(name, sizeof name, "%s dw", l.name);
        make_linear_dw(c, &l, a);
    }
    describe(c, name, l.calls);
    c->M = a->M, c->N = a->N, c->K = a->K;
    return true;
}

static Fp8Out fp8_out(OpCall *c, int64_t rows, int64_t cols, DType t)
{
    return (Fp8Out){.q = tensor(c, rows * cols, t),
                    .qt = tensor(c, rows * cols, t),
                    .ld_q = cols,
                    .ld_qt = rows,
                    .scale = (Fp8Scale *)(void *)floats(c, 4),
                    .amax = floats(c, 1),
                    .count = (Fp8Count *)(void *)floats(c, 4),
                    .dtype = t};
}

// The products of a linear layer on FP8, both operands with k side by side.
static void make_linear_fp8(OpCall *c, const Linear *l, int which, MatmulFp8Args *a)
{
    const int64_t n[3] = {l->rows, l->out, l->in};
    const int64_t M = n[which / 2], N = n[which == 0 ? 1 : 2], K = n[which == 0 ? 2 : 2 - which];
    const DType t = which == 2 ? DTYPE_F32 : c->prec->act;
    const DType of_a = which == 0 ? DTYPE_E4M3 : DTYPE_E5M2;
    const bool gelu = which == 0 && l->gelu_after, dgelu = which == 1 && l->gelu_before;
    *a = (MatmulFp8Args){.A = tensor(c, M * K, of_a),
                         .B = tensor(c, N * K, DTYPE_E4M3),
                         .a_inv = floats(c, 4),
                         .b_inv = floats(c, 4),
                         .bias = which == 0 ? tensor(c, N, c->prec->param) : NULL,
                         .aux = gelu || dgelu ? tensor(c, M * N, t) : NULL,
                         .dbias = dgelu ? floats(c, N) : NULL,
                         .M = M,
                         .N = N,
                         .K = K,
                         .lda = K,
                         .ldb = K,
                         .ldc = N,
                         .accumulate = which == 2,
                         .dbias_accumulate = dgelu,
                         .fast = which == 0,
                         .epilogue = gelu    ? MATMUL_GELU
                                     : dgelu ? MATMUL_DGELU
                                             : MATMUL_PLAIN,
                         .a_dtype = of_a,
                         .b_dtype = DTYPE_E4M3,
                         .c_dtype = t,
                         .bias_dtype = c->prec->param};
    if (gelu || dgelu)
        a->out = fp8_out(c, M, N, gelu ? DTYPE_E4M3 : DTYPE_E5M2);
    else
        a->C = tensor(c, M * N, t);
}

// Of the layers; the head has no FP8.
static bool make_matmul_fp8(OpCall *c, int i, MatmulFp8Args *a)
{
    if (i >= 3 * (LINEARS - 1)) return false;
    const Linear l = linear_of(c->shape, i / 3);
    static const char *const kinds[3] = {"", " dx", " dw"};
    const bool gelu = i % 3 == 0 ? l.gelu_after : i % 3 == 1 && l.gelu_before;
    char name[40];
    snprintf(name, sizeof name, "%s%s%s", l.name, kinds[i % 3],
             !gelu        ? ""
             : i % 3 == 0 ? " gelu"
                          : " dgelu");
    make_linear_fp8(c, &l, i % 3, a);
    describe(c, name, l.calls);
    c->M = a->M, c->N = a->N, c->K = a->K;
    return true;
}

// The output of attention, its gradient towards q, k and v, the weights of a layer.
static bool make_fp8_quantize(OpCall *c, int i, Fp8QuantizeArgs *a)
{
    const OpShape *s = c->shape;
    static const char *const names[] = {"att", "dqkv with dbias", "fc weights"};
    const bool forward = i != 1, weights = i == 2;
    const int64_t R = weights ? 4 * s->C : rows_of(s), C = forward ? s->C : 3 * s->C;
    const DType t = weights ? c->prec->param : c->prec->act;
    if (i >= 3) return false;
    describe(c, names[i], 0);
    *a = (Fp8QuantizeArgs){.out = fp8_out(c, R, C, forward ? DTYPE_E4M3 : DTYPE_E5M2),
                           .dbias = forward ? NULL : floats(c, C),
                           .src = tensor(c, R * C, t),
                           .R = R,
                           .C = C,
                           .ld = C,
                           .src_dtype = t};
    return true;
}

// Of a model whose linear layers are all FP8: x, W and dy of four a layer. It is not timed: the
// first call uses up what it works on.
static bool make_fp8_update(OpCall *c, int i, Fp8UpdateArgs *a)
{
    (void)i;
    const int64_t n = 12 * c->shape->L, length = 1024;
    describe(c, "history of 1024", 0);
    *a = (Fp8UpdateArgs){.scale = (Fp8Scale *)(void *)floats(c, 4 * n),
                         .amax = floats(c, n),
                         .history = floats(c, n * length),
                         .at = (int32_t *)(void *)tensor(c, n, DTYPE_I32),
                         .n = n,
                         .length = length};
    return false;
}

// What BERT's rules of benchmarking let a sample predict: 76 of 512 tokens.
static int32_t *picks(OpCall *c, int64_t *n)
{
    const int64_t N = rows_of(c->shape);
    *n = (N * 76 + 511) / 512;
    int32_t *row = (int32_t *)(void *)tensor(c, *n, DTYPE_I32);
    for (int64_t i = 0; i < *n && !c->sent && !arena_is_counting(c->memory); i++)
        row[i] = (int32_t)(i * N / *n);
    describe(c, "76 of 512 rows", 0);
    return row;
}

static bool make_gather_rows(OpCall *c, int i, GatherRowsArgs *a)
{
    const OpShape *s = c->shape;
    const DType t = c->prec->act;
    *a = (GatherRowsArgs){.N = rows_of(s), .C = s->C, .dtype = t};
    a->row = picks(c, &a->n);
    a->x = tensor(c, a->N * a->C, t);
    a->out = tensor(c, a->n * a->C, t);
    return i < 1;
}

static bool make_scatter_rows(OpCall *c, int i, ScatterRowsArgs *a)
{
    const OpShape *s = c->shape;
    const DType t = c->prec->act;
    *a = (ScatterRowsArgs){.N = rows_of(s), .C = s->C, .dtype = t};
    a->row = picks(c, &a->n);
    a->x = tensor(c, a->n * a->C, t);
    a->out = tensor(c, a->N * a->C, t);
    return i < 1;
}

static bool make_act_bwd(OpCall *c, int i, ActBwdArgs *a)
{
    const int64_t n = (rows_of(c->shape) * 76 + 511) / 512 * c->shape->C;
    char *const h = tensor(c, n, c->prec->act);
    describe(c, "76 of 512 rows", 0);
    *a = (ActBwdArgs){h, h, h, n, ACT_GELU_ERF, c->prec->act};
    return i < 1;
}

// Of every linear layer with a bias.
static bool make_bias_bwd(OpCall *c, int i, BiasBwdArgs *a)
{
    if (i >= LINEARS - 1) return false;
    const Linear l = linear_of(c->shape, i);
    const DType t = c->prec->act;
    describe(c, l.name, l.calls);
    *a = (BiasBwdArgs){.db = floats(c, l.out),
                       .dy = tensor(c, l.rows * l.out, t),
                       .N = l.rows,
                       .C = l.out,
                       .dtype = t};
    return true;
}

static bool make_attention_fwd(OpCall *c, int i, AttentionFwdArgs *a)
{
    const OpShape *s = c->shape;
    const int64_t N = rows_of(s), C = s->C, D = C / s->H;
    const DType t = c->prec->act;
    const int64_t step = C * (int64_t)dtype_bytes(t); // from q to k, from k to v
    const char *qkv = tensor(c, 3 * N * C, t);
    describe(c, "causal", s->L);
    *a = (AttentionFwdArgs){.out = tensor(c, N * C, t),
                            .lse = floats(c, N * s->H),
                            .q = qkv,
                            .k = qkv + step,
                            .v = qkv + 2 * step,
                            .B = s->B,
                            .H = s->H,
                            .Tq = s->T,
                            .Tk = s->T,
                            .D = D,
                            .q_batch = 3 * s->T * C,
                            .q_row = 3 * C,
                            .kv_batch = 3 * s->T * C,
                            .kv_row = 3 * C,
                            .out_batch = s->T * C,
                            .out_row = C,
                            .scale = 1.0f / sqrtf((float)D),
                            .mask = {.causal = true},
                            .dtype = t};
    return i < 1;
}

static bool make_attention_bwd(OpCall *c, int i, AttentionBwdArgs *a)
{
    const OpShape *s = c->shape;
    const int64_t N = rows_of(s), C = s->C, D = C / s->H;
    const DType t = c->prec->act;
    const int64_t step = C * (int64_t)dtype_bytes(t);
    const char *qkv = tensor(c, 3 * N * C, t);
    char *dqkv = tensor(c, 3 * N * C, t);
    describe(c, "causal", s->L);
    *a = (AttentionBwdArgs){.dq = dqkv,
                            .dk = dqkv + step,
                            .dv = dqkv + 2 * step,
                            .dout = tensor(c, N * C, t),
                            .out = tensor(c, N * C, t),
                            .lse = floats(c, N * s->H),
                            .q = qkv,
                            .k = qkv + step,
                            .v = qkv + 2 * step,
                            .B = s->B,
                            .H = s->H,
                            .T = s->T,
                            .D = D,
                            .qkv_batch = 3 * s->T * C,
                            .qkv_row = 3 * C,
                            .out_batch = s->T * C,
                            .out_row = C,
                            .scale = 1.0f / sqrtf((float)D),
                            .mask = {.causal = true},
                            .dtype = t};
    return i < 1;
}

static bool make_cross_entropy(OpCall *c, int i, CrossEntropyArgs *a)
{
    const OpShape *s = c->shape;
    const Linear head = linear_of(s, LINEARS - 1);
    const DType t = c->prec->act;
    describe(c, "with gradient", head.calls);
    *a = (CrossEntropyArgs){.loss = floats(c, head.rows),
                            .logits = tensor(c, head.rows * s->Vp, t),
                            .target = ids(c, head.rows),
                            .N = head.rows,
                            .V = s->V,
                            .Vp = s->Vp,
                            .grad_scale = 1.0f / (float)rows_of(s),
                            .want_grad = true,
                            .dtype = t};
    return i < 1;
}

// A step has it in f32 only: gradients of weights are f32 in every policy.
static bool make_sum_squares(OpCall *c, int i, SumSquaresArgs *a)
{
    const DType t = c->prec->act;
    const int64_t n = describe_flat(c, t == DTYPE_F32);
    *a = (SumSquaresArgs){
        .out = (double *)(void *)tensor(c, 1, DTYPE_I64), .x = tensor(c, n, t), .n = n, .dtype = t};
    return i < 1;
}

// Losses are f32 in every policy.
static bool make_sum(OpCall *c, int i, SumArgs *a)
{
    const DType t = c->prec->act;
    const int64_t n = rows_of(c->shape);
    describe(c, "losses", t == DTYPE_F32);
    *a = (SumArgs){
        .out = (double *)(void *)tensor(c, 1, DTYPE_I64), .x = tensor(c, n, t), .n = n, .dtype = t};
    return i < 1;
}

// Of a skipped step: one that counts would need the rates of another update the next time.
static bool make_step_gate(OpCall *c, int i, StepGateArgs *a)
{
    double *sums = (double *)(void *)tensor(c, 2, DTYPE_I64);
    StepRates *rates = arena_alloc(c->memory, 2 * sizeof *rates);
    StepGate *gate = arena_alloc(c->memory, sizeof *gate);
    if (!c->sent && !arena_is_counting(c->memory)) {
        sums[0] = (double)NAN;
        *gate = (StepGate){.scale = {.scale = 1}};
        rates[0] = (StepRates){.step = 1};
    }
    describe(c, "clip and skip", 1);
    *a = (StepGateArgs){.gate = gate, .norm2 = sums, .loss = sums + 1, .rates = rates, .clip = 1};
    return i < 1;
}

static bool make_adamw(OpCall *c, int i, AdamwArgs *a)
{
    const DType t = c->prec->param;
    const int64_t n = describe_flat(c, true);
    *a = (AdamwArgs){.w = floats(c, n),
                     .param = t == DTYPE_F32 ? NULL : tensor(c, n, t),
                     .m = floats(c, n),
                     .v = floats(c, n),
                     .grad = floats(c, n),
                     .n = n,
                     .step = 1,
                     .lr = 1e-4,
                     .beta1 = 0.9,
                     .beta2 = 0.95,
                     .eps = 1e-8,
                     .weight_decay = 0.1,
                     .grad_scale = 1.0f,
                     .param_dtype = t};
    return i < 1;
}

// As one tensor.
static bool make_lamb(OpCall *c, int i, LambArgs *a)
{
    const DType t = c->prec->param;
    const int64_t n = describe_flat(c, false);
    LambSegment one = {.n = n, .decayed = 1};
    LambSegment *segment = arena_alloc(c->memory, sizeof one);
    StepGate *gate = arena_alloc(c->memory, sizeof *gate);
    const int64_t chunks = lamb_chunks(&one, 1);
    if (!c->sent && !arena_is_counting(c->memory)) {
        *segment = one;
        *gate = (StepGate){.rates = {.step = 1, .lr = 1e-4, .correct1 = 0.1, .correct2 = 0.05},
                           .grad_scale = 1.0f};
    }
    *a = (LambArgs){.w = floats(c, n),
                    .param = t == DTYPE_F32 ? NULL : tensor(c, n, t),
                    .m = floats(c, n),
                    .v = floats(c, n),
                    .grad = floats(c, n),
                    .segment = segment,
                    .gate = gate,
                    .n = n,
                    .n_segment = 1,
                    .n_chunk = chunks,
                    .beta1 = 0.9,
                    .beta2 = 0.95,
                    .eps = 1e-8,
                    .weight_decay = 0.1,
                    .param_dtype = t};
    return i < 1;
}

// To the policy's type from the other one.
static bool make_cast(OpCall *c, int i, CastArgs *a)
{
    const DType to = c->prec->act, from = to == DTYPE_F32 ? DTYPE_BF16 : DTYPE_F32;
    const int64_t n = describe_flat(c, false);
    *a = (CastArgs){.dst = tensor(c, n, to),
                    .src = tensor(c, n, from),
                    .n = n,
                    .dst_dtype = to,
                    .src_dtype = from};
    return i < 1;
}

// ---- by number ----

bool op_call_make(OpCall *c, OpId id, int i, OpArgs *a)
{
    switch (id) {
#define OP(name, Args, summary)                                                                    \
    case OP_##name:                                                                                \
        return make_##name(c, i, &a->name);
#include "kernels/ops.def"
#undef OP
    case OP_COUNT: break;
    }
    return false;
}

Status op_call_run(OpId id, OpCtx *cx, const OpArgs *a, Err *err)
{
    switch (id) {
#define OP(name, Args, summary)                                                                    \
    case OP_##name:                                                                                \
        return op_##name(cx, &a->name, err);
#include "kernels/ops.def"
#undef OP
    case OP_COUNT: break;
    }
    return err_set(err, ERR_USAGE, "no such op");
}

const char *op_call_impl(OpId id, const OpCtx *cx, const OpArgs *a)
{
    switch (id) {
#define OP(name, Args, summary)                                                                    \
    case OP_##name:                                                                                \
        return op_##name##_impl(cx, &a->name);
#include "kernels/ops.def"
#undef OP
    case OP_COUNT: break;
    }
    return NULL;
}

bool op_call_serves(OpId id, const OpCtx *cx, const OpArgs *a, int row, const char **why)
{
    switch (id) {
#define OP(name, Args, summary)                                                                    \
    case OP_##name:                                                                                \
        return op_##name##_serves(cx, &a->name, row, why);
#include "kernels/ops.def"
#undef OP
    case OP_COUNT: break;
    }
    return false;
}

Status op_call_find(const char *name, OpId *out, Err *err)
{
    NearName near = {0};
    for (int id = 0; id < OP_COUNT; id++) {
        *out = (OpId)id;
        if (strcmp(name, ops_name(*out)) == 0) return ERR_NONE;
        near_offer(&near, name, ops_name(*out));
    }
    const Status s = err_set(err, ERR_USAGE, "no op is called '%.100s'", name);
    err_hint(err, near.best ? "nearest: %s" : "lathe ops lists them%s", near.best ? near.best : "");
    return s;
}
