// cmd_bench.c -- lathe bench [OP]: how fast each op is here, and what the machine allows.
//
// Every op at the shapes of GPT-2 124M (4 x 64 and 2 x 1024 tokens) and of a small character model,
// in the element types of the policies fp32 and bf16. A time is the best of several calls, because
// a neighbour on the machine can only make one longer.
//
// The yardsticks are measured in the same run: for arithmetic a loop that touches only registers
// (the f32 multiply-adds of the instruction set, or its bf16 engine for an op that engine served),
// for memory the faster of reading an array and of c = a + s b over three. An op may pass 100 % of
// memory when its tensors stay in a cache.
//
// SPDX-License-Identifier: MIT
#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/cli/cli.h"
#include "engine/config/near_name.h"
#include "engine/model/backend.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BUFFERS = 6 };
static const double BENCH_SECONDS = 0.08;     // of one measurement, at least
static const int64_t BENCH_STREAM = 32 << 20; // floats of an array of the memory test
static const int64_t BENCH_PARAMS = 16 << 20; // of a flat range of parameters
static const int64_t BENCH_HEAD = 256;        // rows of logits at a time

typedef struct Shape {
    const char *name;
    int64_t B, T, C, H, V, Vp;
} Shape;

static const Shape shapes[] = {
    {"124M 4x64", 4, 64, 768, 12, 50257, 50304},
    {"124M 2x1024", 2, 1024, 768, 12, 50257, 50304},
    {"char 12x64", 12, 64, 128, 4, 65, 128},
};

typedef struct Bench {
    Backend back;
    OpCtx cx;
    const char *only;      // op, or NULL: all
    char *buf[BUFFERS];    // small numbers; the tensors
    size_t bytes;          // of each
    int32_t *token;        // zeros: a legal token, position, target
    double f32, bf16, mem; // yardsticks
    json_t *rows;          // NULL: print a table
} Bench;

// ---- yardsticks ----

// The sum of an array, in sixteen chains, so that the additions do not set the pace.
static float read_all(const float *x, int threads)
{
    float sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
    {
        float part[16] = {0};
#pragma omp for schedule(static)
        for (int64_t j = 0; j < BENCH_STREAM; j += 16)
            for (int k = 0; k < 16; k++) part[k] += x[j + k];
        for (int k = 0; k < 16; k++) sum += part[k];
    }
    return sum;
}

static double stream_rate(const Bench *b)
{
    float *x = (float *)(void *)b->buf[0], *y = (float *)(void *)b->buf[1];
    float *z = (float *)(void *)b->buf[2];
    double best = 0;
    float sum = 0;
    for (int i = 0; i < 12; i++) {
        const double start = clock_seconds();
        if (i % 2) {
            sum += read_all(x, b->back.device.threads);
        } else {
#pragma omp parallel for num_threads(b->back.device.threads)
            for (int64_t j = 0; j < BENCH_STREAM; j++) z[j] = x[j] + 0.5f * y[j];
        }
        const double rate =
            (i % 2 ? 1 : 3) * 4.0 * (double)BENCH_STREAM / (clock_seconds() - start);
        best = LT_MAX(best, rate);
    }
    x[0] += sum * 0; // so that the sum is needed
    return best;
}

static void measure_machine(Bench *b)
{
    const char *isa = b->back.cpu.isa;
    const bool own = strcmp(isa, "amx") == 0 || strcmp(isa, "avx512_bf16") == 0;
    for (int i = 0; i < 30; i++) {
        const int th = b->back.device.threads;
        const double f = cpu_peak(own ? "avx512" : isa, th, 0.004);
        const double h = own ? cpu_peak(isa, th, 0.004) : f;
        b->f32 = LT_MAX(b->f32, f);
        b->bf16 = LT_MAX(b->bf16, h);
    }
    b->mem = stream_rate(b);
}

// ---- one measurement ----

static Status report(Bench *b, const char *op, const char *what, const char *impl, const char *type,
                     double seconds, double flops, double bytes, Err *err)
{
    const bool engine = strcmp(impl, "amx") == 0 || strcmp(impl, "avx512_bf16") == 0;
    const double peak = engine ? b->bf16 : b->f32, f = flops / seconds, m = bytes / seconds;
    if (!b->rows) {
        printf("%-14s %-26s %-5s %-9s %10.3f %9.1f %5.1f %8.1f %5.0f\n", op, what, type, impl,
               seconds * 1e3, f * 1e-9, 100 * f / peak, m * 1e-9, 100 * m / b->mem);
        return ERR_NONE;
    }
    json_t *row =
        json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f}", "op", op, "case", what, "dtype",
                  type, "impl", impl, "seconds", seconds, "gflops", f * 1e-9, "percent_of_peak",
                  100 * f / peak, "gb_per_s", m * 1e-9, "percent_of_memory", 100 * m / b->mem);
    if (json_array_append_new(b->rows, row) != 0) return mem_err(err, 0, "the table");
    return ERR_NONE;
}

// time_NAME: scratch, a first call, then the best of many.
#define OP(name, Args, summary)                                                                    \
    static Status time_##name(Bench *b, const char *what, const char *type, const Args *a,         \
                              Err *err)                                                            \
    {                                                                                              \
        if (b->only && strcmp(b->only, #name) != 0) return ERR_NONE;                               \
        OpPlan plan = {0};                                                                         \
        OpCtx cx = b->cx;                                                                          \
        cx.plan = &plan;                                                                           \
        TRY(op_##name(&cx, a, err));                                                               \
        cx = b->cx;                                                                                \
        if (plan.scratch_bytes)                                                                    \
            TRY(device_alloc(cx.device, plan.scratch_bytes, &cx.scratch, err));                    \
        cx.scratch_bytes = plan.scratch_bytes;                                                     \
        Status s = op_##name(&cx, a, err);                                                         \
        const double start = clock_seconds();                                                      \
        double best = INFINITY, now = start;                                                       \
        for (int i = 0; s == ERR_NONE && (i < 3 || now - start < BENCH_SECONDS); i++) {            \
            const double from = clock_seconds();                                                   \
            s = op_##name(&cx, a, err);                                                            \
            now = clock_seconds();                                                                 \
            best = LT_MIN(best, now - from);                                                       \
        }                                                                                          \
        if (plan.scratch_bytes) device_free(cx.device, cx.scratch, plan.scratch_bytes);            \
        if (s != ERR_NONE) return s;                                                               \
        return report(b, #name, what, op_##name##_impl(&b->cx, a), type, best, plan.flops,         \
                      plan.bytes, err);                                                            \
    }
#include "kernels/ops.def"
#undef OP

// ---- the cases ----

// The three products of a linear layer. MATMUL_GELU belongs to the forward product, MATMUL_DGELU to
// the one that gives dx; weight gradients are f32.
static Status bench_linear(Bench *b, const Shape *s, const char *layer, int64_t rows, int64_t in,
                           int64_t out, MatmulEpilogue epilogue, DType t, Err *err)
{
    char what[64];
    const char *type = dtype_name(t);
    const MatmulArgs fwd = {.C = b->buf[0],
                            .A = b->buf[1],
                            .B = b->buf[2],
                            .bias = b->buf[3],
                            .aux = epilogue == MATMUL_GELU ? b->buf[4] : NULL,
                            .M = rows,
                            .N = out,
                            .K = in,
                            .lda = in,
                            .ldb = in,
                            .ldc = out,
                            .trans_b = true,
                            .epilogue = epilogue == MATMUL_GELU ? MATMUL_GELU : MATMUL_PLAIN,
                            .ab_dtype = t,
                            .c_dtype = t,
                            .bias_dtype = t};
    const MatmulArgs dx = {.C = b->buf[0],
                           .A = b->buf[1],
                           .B = b->buf[2],
                           .M = rows,
                           .N = in,
                           .K = out,
                           .lda = out,
                           .ldb = in,
                           .ldc = in,
                           .aux = b->buf[4],
                           .ab_dtype = t,
                           .c_dtype = t,
                           .epilogue = epilogue == MATMUL_DGELU ? MATMUL_DGELU : MATMUL_PLAIN};
    const MatmulArgs dw = {.C = b->buf[0],
                           .A = b->buf[1],
                           .B = b->buf[2],
                           .M = out,
                           .N = in,
                           .K = rows,
                           .lda = out,
                           .ldb = in,
                           .ldc = in,
                           .trans_a = true,
                           .ab_dtype = t,
                           .c_dtype = DTYPE_F32};
    snprintf(what, sizeof what, "%s %s%s", s->name, layer, epilogue == MATMUL_GELU ? " gelu" : "");
    TRY(time_matmul(b, what, type, &fwd, err));
    snprintf(what, sizeof what, "%s %s dx%s", s->name, layer,
             epilogue == MATMUL_DGELU ? " dgelu" : "");
    TRY(time_matmul(b, what, type, &dx, err));
    snprintf(what, sizeof what, "%s %s dw", s->name, layer);
    return time_matmul(b, what, type, &dw, err);
}

static Status bench_matmuls(Bench *b, const Shape *s, DType t, Err *err)
{
    const int64_t N = s->B * s->T, C = s->C;
    TRY(bench_linear(b, s, "qkv", N, C, 3 * C, MATMUL_PLAIN, t, err));
    TRY(bench_linear(b, s, "proj", N, C, C, MATMUL_PLAIN, t, err));
    TRY(bench_linear(b, s, "fc", N, C, 4 * C, MATMUL_GELU, t, err));
    TRY(bench_linear(b, s, "fc2", N, 4 * C, C, MATMUL_DGELU, t, err));
    return bench_linear(b, s, "head", LT_MIN(N, BENCH_HEAD), C, s->Vp, MATMUL_PLAIN, t, err);
}

static Status bench_attention(Bench *b, const Shape *s, DType t, Err *err)
{
    const int64_t C = s->C, T = s->T, D = C / s->H, e = (int64_t)dtype_bytes(t);
    const float scale = 1.0f / sqrtf((float)D);
    const AttentionMask mask = {.causal = true};
    const AttentionFwdArgs f = {.out = b->buf[1],
                                .lse = (float *)(void *)b->buf[2],
                                .q = b->buf[0],
                                .k = b->buf[0] + C * e,
                                .v = b->buf[0] + 2 * C * e,
                                .B = s->B,
                                .H = s->H,
                                .Tq = T,
                                .Tk = T,
                                .D = D,
                                .q_batch = 3 * T * C,
                                .q_row = 3 * C,
                                .kv_batch = 3 * T * C,
                                .kv_row = 3 * C,
                                .out_batch = T * C,
                                .out_row = C,
                                .scale = scale,
                                .mask = mask,
                                .dtype = t};
    const AttentionBwdArgs r = {.dq = b->buf[4],
                                .dk = b->buf[4] + C * e,
                                .dv = b->buf[4] + 2 * C * e,
                                .dout = b->buf[3],
                                .out = b->buf[1],
                                .lse = (float *)(void *)b->buf[2],
                                .q = f.q,
                                .k = f.k,
                                .v = f.v,
                                .B = s->B,
                                .H = s->H,
                                .T = T,
                                .D = D,
                                .qkv_batch = 3 * T * C,
                                .qkv_row = 3 * C,
                                .out_batch = T * C,
                                .out_row = C,
                                .scale = scale,
                                .mask = mask,
                                .dtype = t};
    TRY(time_attention_fwd(b, s->name, dtype_name(t), &f, err));
    return time_attention_bwd(b, s->name, dtype_name(t), &r, err);
}

static Status bench_rows(Bench *b, const Shape *s, DType t, Err *err)
{
    const int64_t N = s->B * s->T, C = s->C;
    const char *type = dtype_name(t);
    float *f2 = (float *)(void *)b->buf[2], *f3 = (float *)(void *)b->buf[3];
    float *f4 = (float *)(void *)b->buf[4], *f5 = (float *)(void *)b->buf[5];
    const EmbeddingFwdArgs ef = {.out = b->buf[0],
                                 .wte = b->buf[1],
                                 .wpe = b->buf[2],
                                 .token = b->token,
                                 .N = N,
                                 .T = s->T,
                                 .C = C,
                                 .V = s->V,
                                 .P = s->T,
                                 .w_dtype = t,
                                 .out_dtype = DTYPE_F32};
    const EmbeddingBwdArgs eb = {.dwte = f2,
                                 .dwpe = f3,
                                 .dout = b->buf[0],
                                 .token = b->token,
                                 .N = N,
                                 .T = s->T,
                                 .C = C,
                                 .V = s->V,
                                 .P = s->T,
                                 .dout_dtype = DTYPE_F32};
    const LayernormFwdArgs lf = {.out = b->buf[0],
                                 .resid_out = b->buf[1],
                                 .mean = f2,
                                 .rstd = f2 + N,
                                 .x = b->buf[3],
                                 .add = b->buf[4],
                                 .weight = b->buf[5],
                                 .bias = b->buf[5],
                                 .N = N,
                                 .T = s->T,
                                 .C = C,
                                 .eps = 1e-5f,
                                 .x_dtype = DTYPE_F32,
                                 .add_dtype = t,
                                 .out_dtype = t,
                                 .w_dtype = t};
    const LayernormBwdArgs lb = {.dresid = b->buf[0],
                                 .dadd = b->buf[1],
                                 .dweight = f5,
                                 .dbias = f5 + C,
                                 .dresid_in = b->buf[0],
                                 .dy = b->buf[3],
                                 .x = b->buf[4],
                                 .mean = f2,
                                 .rstd = f2 + N,
                                 .weight = f5 + 2 * C,
                                 .N = N,
                                 .T = s->T,
                                 .C = C,
                                 .dresid_dtype = DTYPE_F32,
                                 .dadd_dtype = t,
                                 .dy_dtype = t,
                                 .x_dtype = DTYPE_F32,
                                 .w_dtype = t};
    const BiasBwdArgs bb = {.db = f4, .dy = b->buf[0], .N = N, .C = 4 * C, .dtype = t};
    const CrossEntropyArgs ce = {.loss = f2,
                                 .logits = b->buf[0],
                                 .target = b->token,
                                 .N = LT_MIN(N, BENCH_HEAD),
                                 .V = s->V,
                                 .Vp = s->Vp,
                                 .grad_scale = 1.0f,
                                 .want_grad = true,
                                 .dtype = t};
    const int64_t sample[16] = {0};
    const DropoutArgs dr = {.y = b->buf[0],
                            .x = b->buf[1],
                            .B = s->B,
                            .T = s->T,
                            .C = C,
                            .drop = {.p = 0.1f, .seed = 1, .sample = sample, .site = RNG_DROP_MLP},
                            .dtype = t};
    TRY(time_embedding_fwd(b, s->name, type, &ef, err));
    TRY(time_embedding_bwd(b, s->name, type, &eb, err));
    TRY(time_layernorm_fwd(b, s->name, type, &lf, err));
    TRY(time_layernorm_bwd(b, s->name, type, &lb, err));
    TRY(time_bias_bwd(b, s->name, type, &bb, err));
    TRY(time_dropout(b, s->name, type, &dr, err));
    return time_cross_entropy(b, s->name, type, &ce, err);
}

static Status bench_flat(Bench *b, DType t, Err *err)
{
    float *f[BUFFERS];
    for (int i = 0; i < BUFFERS; i++) f[i] = (float *)(void *)b->buf[i];
    const int64_t n = BENCH_PARAMS;
    const SumSquaresArgs ss = {.out = (double *)(void *)b->buf[0], .x = f[1], .n = n};
    const AdamwArgs aw = {.w = f[0],
                          .param = t == DTYPE_F32 ? NULL : b->buf[4],
                          .m = f[1],
                          .v = f[2],
                          .grad = f[3],
                          .n = n,
                          .step = 1,
                          .lr = 1e-4,
                          .beta1 = 0.9,
                          .beta2 = 0.95,
                          .eps = 1e-8,
                          .grad_scale = 1.0f,
                          .param_dtype = t};
    const CastArgs ca = {.dst = b->buf[4],
                         .src = b->buf[5],
                         .n = n,
                         .dst_dtype = t == DTYPE_F32 ? DTYPE_BF16 : t,
                         .src_dtype = DTYPE_F32};
    if (t == DTYPE_F32) TRY(time_sum_squares(b, "16M values", "f32", &ss, err));
    TRY(time_adamw(b, "16M parameters", dtype_name(t), &aw, err));
    return t == DTYPE_F32 ? ERR_NONE : time_cast(b, "16M values from f32", dtype_name(t), &ca, err);
}

static Status bench_all(Bench *b, Err *err)
{
    static const DType types[] = {DTYPE_F32, DTYPE_BF16};
    for (size_t t = 0; t < LT_COUNT(types); t++) {
        for (size_t i = 0; i < LT_COUNT(shapes); i++) {
            TRY(bench_matmuls(b, &shapes[i], types[t], err));
            TRY(bench_attention(b, &shapes[i], types[t], err));
            TRY(bench_rows(b, &shapes[i], types[t], err));
        }
        TRY(bench_flat(b, types[t], err));
    }
    return ERR_NONE;
}

// ---- the command ----

static Status bench_prepare(Bench *b, Err *err)
{
    Device *d = &b->back.device;
    b->bytes = (size_t)shapes[0].Vp * (size_t)shapes[0].C * sizeof(float); // the largest tensor
    for (int i = 0; i < BUFFERS; i++) {
        void *p;
        TRY(device_alloc(d, b->bytes, &p, err));
        b->buf[i] = p;
        memset(p, 0x3c, b->bytes); // 0.0115 in f32 and bf16
    }
    void *p;
    TRY(device_alloc(d, sizeof(int32_t) << 16, &p, err));
    b->token = p;
    b->cx = (OpCtx){.ops = &b->back.ops, .device = d};
    return ERR_NONE;
}

static void bench_free(Bench *b)
{
    for (int i = 0; i < BUFFERS; i++)
        if (b->buf[i]) device_free(&b->back.device, b->buf[i], b->bytes);
    if (b->token) device_free(&b->back.device, b->token, sizeof(int32_t) << 16);
    json_decref(b->rows);
    mem_free(b);
}

static Status bench_json(const Bench *b, Err *err)
{
    json_t *all =
        json_pack("{s:s, s:i, s:f, s:f, s:f, s:O}", "isa", b->back.cpu.isa, "threads",
                  b->back.device.threads, "peak_f32_gflops", b->f32 * 1e-9, "peak_bf16_gflops",
                  b->bf16 * 1e-9, "memory_gb_per_s", b->mem * 1e-9, "rows", b->rows);
    const int lost = all ? json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) : -1;
    json_decref(all);
    if (lost) return err_set(err, ERR_IO, "the table could not be written");
    puts("");
    return ERR_NONE;
}

static Status bench_run(Bench *b, const Options *o, Err *err)
{
    TRY(bench_prepare(b, err));
    measure_machine(b);
    if (o->json) {
        b->rows = json_array();
        if (!b->rows) return mem_err(err, 0, "the table");
        TRY(bench_all(b, err));
        return bench_json(b, err);
    }
    printf("%s, %d threads (%s)\n", b->back.cpu.isa, b->back.device.threads, b->back.cpu.why);
    printf("peak: f32 %.0f GFLOP/s, bf16 %.0f GFLOP/s, memory %.1f GB/s\n\n", b->f32 * 1e-9,
           b->bf16 * 1e-9, b->mem * 1e-9);
    printf("%-14s %-26s %-5s %-9s %10s %9s %5s %8s %5s\n", "op", "case", "dtype", "impl", "ms",
           "GFLOP/s", "%", "GB/s", "%");
    return bench_all(b, err);
}

static Status op_known(const char *name, Err *err)
{
    NearName near = {0};
    for (int id = 0; id < OP_COUNT; id++) {
        if (strcmp(name, ops_name((OpId)id)) == 0) return ERR_NONE;
        near_offer(&near, name, ops_name((OpId)id));
    }
    const Status s = err_set(err, ERR_USAGE, "no op is called '%.100s'", name);
    err_hint(err, near.best ? "nearest: %s" : "lathe ops lists them%s", near.best ? near.best : "");
    return s;
}

Status cmd_bench(const Options *o, Err *err)
{
    if (o->n_args > 1) return err_set(err, ERR_USAGE, "one op at a time: %.100s", o->args[1]);
    if (o->n_args == 1) TRY(op_known(o->args[0], err));
    Bench *b = mem_calloc(1, sizeof *b);
    if (!b) return mem_err(err, sizeof *b, "the benchmark");
    b->only = o->n_args ? o->args[0] : NULL;
    Status s = backend_of_options(&b->back, o, err);
    if (s == ERR_NONE) s = bench_run(b, o, err);
    bench_free(b);
    return s;
}
