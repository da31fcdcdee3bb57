// test_attention_sequences.c -- attention over rows of many sequences gives what each gives alone.
//
// BERT's rows: bidirectional, with several sequences in a row, or one and padding behind it. A
// sequence's own answer is computed in f32 on the CPU from a call of its own, which knows no mask:
// so nothing of the masks of the kernels is in what they are compared with. Rows are made of the
// same sequences in three ways:
//
//     full     one sequence as long as the row, no bounds at all      [ aaaaaaaaaaaa ]
//     padded   one sequence a row, the rest of it sees nothing        [ aaaaaaa..... ]
//     packed   several sequences, next to each other                  [ aaaaabbbbcc. ]
//
// Padding holds large numbers, and gets nothing: out 0, lse -infinity, gradients 0.
// In the simulator (tests/cudasim) or on a GPU.
//
// Tolerance: of the largest element that a tensor of the sequence has. bf16: scores keep their 8
// bits of mantissa, probabilities and ds have 9 of their own, results are rounded once more.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cuda/cuda_open.h"
#include "kernels/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { ROWS_MOST = 3, SEQS_MOST = 8, H = 2 };

typedef enum Layout { FULL, PADDED, PACKED } Layout;
static const char *const layouts[] = {"full", "padded", "packed"};

typedef struct Sequence {
    int64_t b, t, n;                      // its row, where it begins there, tokens
    float *qkv, *dout, *out, *lse, *dqkv; // [n,3,H,D], [n,H,D] twice, [H,n], [n,3,H,D]
} Sequence;

typedef struct Problem {
    Layout layout;
    int64_t B, T, D, rows; // rows: B*T
    DType dtype;
    int seqs;
    Sequence seq[SEQS_MOST];
    int32_t *seg;                         // lo, then hi
    float *qkv, *dout, *out, *lse, *dqkv; // of all rows, widened
} Problem;

static Device gpu, cpu;
static Ops gpu_ops, cpu_ops;
static double worst[2]; // bf16, f32

static uint32_t rnd_state = 1;
static float rnd(void) // [-1, 1)
{
    rnd_state = rnd_state * 1664525u + 1013904223u;
    return (float)(rnd_state >> 8) / (1 << 23) - 1.0f;
}

static float *floats(int64_t n)
{
    float *p = mem_calloc((size_t)n + 1, sizeof *p);
    assert_non_null(p);
    return p;
}

// ---- the calls ----------------------------------------------------------------------------------

typedef struct Tensors { // of one call, on its device
    void *qkv, *dqkv, *dout, *out, *lse;
} Tensors;

// Forward, then backward from its out and lse.
static void run_ops(Device *d, const Ops *ops, const Tensors *x, int64_t B, int64_t T, int64_t D,
                    AttentionMask mask, DType t)
{
    const int64_t C = H * D;
    const size_t step = (size_t)C * dtype_bytes(t);
    char *const qkv = x->qkv, *const dqkv = x->dqkv;
    const AttentionFwdArgs f = {.out = x->out,
                                .lse = x->lse,
                                .q = qkv,
                                .k = qkv + step,
                                .v = qkv + 2 * step,
                                .B = B,
                                .H = H,
                                .Tq = T,
                                .Tk = T,
                                .D = D,
                                .q_batch = T * 3 * C,
                                .q_row = 3 * C,
                                .kv_batch = T * 3 * C,
                                .kv_row = 3 * C,
                                .out_batch = T * C,
                                .out_row = C,
                                .scale = (float)(1 / sqrt((double)D)),
                                .mask = mask,
                                .dtype = t};
    const AttentionBwdArgs b = {.dq = dqkv,
                                .dk = dqkv + step,
                                .dv = dqkv + 2 * step,
                                .dout = x->dout,
                                .out = x->out,
                                .lse = x->lse,
                                .q = f.q,
                                .k = f.k,
                                .v = f.v,
                                .B = B,
                                .H = H,
                                .T = T,
                                .D = D,
                                .qkv_batch = T * 3 * C,
                                .qkv_row = 3 * C,
                                .out_batch = T * C,
                                .out_row = C,
                                .scale = f.scale,
                                .mask = mask,
                                .dtype = t};
    OpPlan plan = {0};
    OpCtx cx = {.ops = ops, .device = d, .plan = &plan};
    Err err;
    if (op_attention_fwd(&cx, &f, &err) != ERR_NONE || op_attention_bwd(&cx, &b, &err) != ERR_NONE)
        fail_msg("%s", err.text);
    const size_t bytes = plan.scratch_bytes + 1;
    cx = (OpCtx){.ops = ops, .device = d, .scratch_bytes = plan.scratch_bytes};
    assert_int_equal(device_alloc(d, bytes, &cx.scratch, &err), ERR_NONE);
    assert_int_equal(op_attention_fwd(&cx, &f, &err), ERR_NONE);
    assert_int_equal(op_attention_bwd(&cx, &b, &err), ERR_NONE);
    assert_int_equal(device_sync(d, &err), ERR_NONE);
    device_free(d, cx.scratch, bytes);
}

// ---- a sequence alone ---------------------------------------------------------------------------

static void fill(float *x, int64_t n, DType t) // with numbers that t has
{
    for (int64_t i = 0; i < n; i++)
        x[i] = t == DTYPE_F32 ? rnd() : bf16_to_f32(bf16_from_f32(rnd()));
}

static void alone(Sequence *s, const Problem *p)
{
    const int64_t C = H * p->D, n = s->n;
    s->qkv = floats(n * 3 * C);
    s->dout = floats(n * C);
    s->out = floats(n * C);
    s->lse = floats(n * H);
    s->dqkv = floats(n * 3 * C);
    fill(s->qkv, n * 3 * C, p->dtype);
    fill(s->dout, n * C, p->dtype);
    const Tensors x = {s->qkv, s->dqkv, s->dout, s->out, s->lse};
    run_ops(&cpu, &cpu_ops, &x, 1, n, p->D, (AttentionMask){0}, DTYPE_F32);
}

// ---- rows ---------------------------------------------------------------------------------------

static void add(Problem *p, int64_t b, int64_t t, int64_t n)
{
    assert_true(p->seqs < SEQS_MOST && b < p->B && t + n <= p->T);
    p->seq[p->seqs] = (Sequence){.b = b, .t = t, .n = n};
    alone(&p->seq[p->seqs++], p);
}

static Problem problem(Layout layout, DType dtype, int64_t T, int64_t D)
{
    Problem p = {.layout = layout, .T = T, .D = D, .dtype = dtype};
    p.B = layout == PADDED ? 3 : 2;
    p.rows = p.B * T;
    if (layout == FULL) {
        add(&p, 0, 0, T);
        add(&p, 1, 0, T);
    } else if (layout == PADDED) {
        add(&p, 0, 0, T / 3 + 1);
        add(&p, 1, 0, T);
        add(&p, 2, 0, 1);
    } else {
        const int64_t a = T / 2 + 3, b = T / 4 - 1;
        add(&p, 0, 0, a); // fill a row
        add(&p, 0, a, b);
        add(&p, 0, a + b, T - a - b);
        add(&p, 1, 0, 2); // and leave some
        add(&p, 1, 2, T / 3);
        add(&p, 1, 2 + T / 3, T / 2);
    }
    const int64_t C = H * D;
    p.seg = mem_calloc((size_t)p.rows * 2, sizeof *p.seg); // lo == hi: sees nothing
    p.qkv = floats(p.rows * 3 * C);
    p.dout = floats(p.rows * C);
    p.out = floats(p.rows * C);
    p.lse = floats(p.rows * H);
    p.dqkv = floats(p.rows * 3 * C);
    assert_non_null(p.seg);
    for (int64_t i = 0; i < p.rows * 3 * C; i++) p.qkv[i] = i % 2 ? 100 : -100;
    for (int64_t i = 0; i < p.rows * C; i++) p.dout[i] = 100;
    for (int i = 0; i < p.seqs; i++) {
        const Sequence *s = &p.seq[i];
        const int64_t at = s->b * T + s->t;
        memcpy(p.qkv + at * 3 * C, s->qkv, (size_t)(s->n * 3 * C) * sizeof(float));
        memcpy(p.dout + at * C, s->dout, (size_t)(s->n * C) * sizeof(float));
        for (int64_t k = 0; k < s->n; k++) {
            p.seg[at + k] = (int32_t)s->t;
            p.seg[p.rows + at + k] = (int32_t)(s->t + s->n);
        }
    }
    return p;
}

static void problem_free(Problem *p)
{
    for (int i = 0; i < p->seqs; i++) {
        float *const all[] = {p->seq[i].qkv, p->seq[i].dout, p->seq[i].out, p->seq[i].lse,
                              p->seq[i].dqkv};
        for (size_t k = 0; k < LT_COUNT(all); k++) mem_free(all[k]);
    }
    void *const all[] = {p->seg, p->qkv, p->dout, p->out, p->lse, p->dqkv};
    for (size_t k = 0; k < LT_COUNT(all); k++) mem_free(all[k]);
}

// ---- on the device ------------------------------------------------------------------------------

static void *device_room(size_t bytes)
{
    void *p = NULL;
    Err err;
    assert_int_equal(device_alloc(&gpu, bytes, &p, &err), ERR_NONE);
    return p;
}

// n floats as elements of `t`.
static void *sent(const float *x, int64_t n, DType t)
{
    const size_t bytes = (size_t)n * dtype_bytes(t);
    void *host = mem_alloc(bytes + 1), *p = device_room(bytes);
    Err err;
    assert_non_null(host);
    for (int64_t i = 0; i < n; i++) dtype_store(host, t, i, x ? x[i] : NAN);
    assert_int_equal(device_upload(&gpu, p, host, bytes, &err), ERR_NONE);
    mem_free(host);
    return p;
}

// The same back, and the memory freed.
static void fetched(float *x, void *p, int64_t n, DType t)
{
    const size_t bytes = (size_t)n * dtype_bytes(t);
    void *host = mem_alloc(bytes + 1);
    Err err;
    assert_non_null(host);
    assert_int_equal(device_download(&gpu, host, p, bytes, &err), ERR_NONE);
    for (int64_t i = 0; x && i < n; i++) x[i] = dtype_load(host, t, i);
    device_free(&gpu, p, bytes);
    mem_free(host);
}

static void run(Problem *p, const Ops *ops)
{
    const int64_t C = H * p->D;
    const size_t seg_bytes = (size_t)p->rows * 2 * sizeof *p->seg;
    int32_t *seg = device_room(seg_bytes);
    Err err;
    assert_int_equal(device_upload(&gpu, seg, p->seg, seg_bytes, &err), ERR_NONE);
    const Tensors x = {.qkv = sent(p->qkv, p->rows * 3 * C, p->dtype),
                       .dqkv = sent(NULL, p->rows * 3 * C, p->dtype),
                       .dout = sent(p->dout, p->rows * C, p->dtype),
                       .out = sent(NULL, p->rows * C, p->dtype),
                       .lse = sent(NULL, p->rows * H, DTYPE_F32)};
    AttentionMask mask = {0};
    if (p->layout != FULL) mask = (AttentionMask){.seg_lo = seg, .seg_hi = seg + p->rows};
    run_ops(&gpu, ops, &x, p->B, p->T, p->D, mask, p->dtype);
    fetched(p->out, x.out, p->rows * C, p->dtype);
    fetched(p->lse, x.lse, p->rows * H, DTYPE_F32);
    fetched(p->dqkv, x.dqkv, p->rows * 3 * C, p->dtype);
    fetched(NULL, x.dout, p->rows * C, p->dtype);
    fetched(NULL, x.qkv, p->rows * 3 * C, p->dtype);
    device_free(&gpu, seg, seg_bytes);
}

// ---- comparing ----------------------------------------------------------------------------------

// Rows of `width` elements: the largest difference by the largest element.
static double off(const float *got, int64_t got_ld, const float *want, int64_t want_ld, int64_t n,
                  int64_t width)
{
    double error = 0, most = 0;
    for (int64_t i = 0; i < n * width; i++) {
        const double w = (double)want[i / width * want_ld + i % width];
        const double d = fabs((double)got[i / width * got_ld + i % width] - w);
        error = isnan(d) ? (double)INFINITY : fmax(error, d);
        most = fmax(most, fabs(w));
    }
    return error == 0 ? 0 : error / most;
}

static void compare(const Problem *p, const char *impl)
{
    static const char *const names[] = {"out", "dq", "dk", "dv", "lse"};
    const int64_t C = H * p->D;
    const double allowed = p->dtype == DTYPE_BF16 ? 0x1p-6 : 0x1p-16;
    bool *used = mem_calloc((size_t)p->rows, sizeof *used);
    assert_non_null(used);
    for (int i = 0; i < p->seqs; i++) {
        const Sequence *s = &p->seq[i];
        const int64_t at = s->b * p->T + s->t;
        double e[5] = {off(p->out + at * C, C, s->out, C, s->n, C)};
        for (int x = 0; x < 3; x++)
            e[1 + x] = off(p->dqkv + at * 3 * C + x * C, 3 * C, s->dqkv + x * C, 3 * C, s->n, C);
        for (int64_t h = 0; h < H; h++)
            e[4] = fmax(
                e[4], off(p->lse + (s->b * H + h) * p->T + s->t, 1, s->lse + h * s->n, 1, s->n, 1));
        if (s->n == 1) e[1] = e[2] = 0; // one key: its probability is 1, whatever q and k are
        for (int x = 0; x < 5; x++) {
            double *w = &worst[p->dtype == DTYPE_F32];
            *w = fmax(*w, e[x]);
            if (e[x] > (x < 4 ? allowed : 0x1p-16))
                fail_msg("%s, %s, T %d, D %d, %s: %s of sequence %d of %d tokens is off by %g",
                         impl, layouts[p->layout], (int)p->T, (int)p->D,
                         p->dtype == DTYPE_F32 ? "f32" : "bf16", names[x], i, (int)s->n, e[x]);
        }
        for (int64_t k = 0; k < s->n; k++) used[at + k] = true;
    }
    for (int64_t r = 0; r < p->rows; r++) {
        if (used[r]) continue;
        for (int64_t c = 0; c < C; c++) assert_true(p->out[r * C + c] == 0);
        for (int64_t c = 0; c < 3 * C; c++) assert_true(p->dqkv[r * 3 * C + c] == 0);
        for (int64_t h = 0; h < H; h++)
            assert_true(p->lse[(r / p->T * H + h) * p->T + r % p->T] == -INFINITY);
    }
    mem_free(used);
}

static void check(const char *impl, DType dtype, Layout layout, int64_t T, int64_t D)
{
    static Ops ops;
    Err err;
    ops = gpu_ops;
    if (ops_force(&ops, "attention", impl, &err) != ERR_NONE) fail_msg("%s", err.text);
    Problem p = problem(layout, dtype, T, D);
    run(&p, &ops);
    compare(&p, impl);
    problem_free(&p);
}

// ---- tests --------------------------------------------------------------------------------------

static void rows_of(const char *impl, DType dtype, int64_t T)
{
    for (int layout = FULL; layout <= PACKED; layout++)
        for (int64_t D = 32; D <= 64; D += 32) check(impl, dtype, (Layout)layout, T, D);
}

static void plain_rows_of_128(void **state)
{
    (void)state;
    rows_of("cuda", DTYPE_BF16, 128);
    rows_of("cuda", DTYPE_F32, 128);
}

static void plain_rows_of_512(void **state)
{
    (void)state;
    rows_of("cuda", DTYPE_BF16, 512);
}

static void hopper_rows_of_128(void **state)
{
    (void)state;
    rows_of("cuda-hopper", DTYPE_BF16, 128);
}

static void hopper_rows_of_512(void **state)
{
    (void)state;
    rows_of("cuda-hopper", DTYPE_BF16, 512);
}

static void small(void **state) // for the race checker
{
    (void)state;
    for (int64_t D = 32; D <= 64; D += 32) {
        check("cuda", DTYPE_BF16, PACKED, 128, D);
        check("cuda-hopper", DTYPE_BF16, PACKED, 160, D);
        check("cuda-hopper", DTYPE_BF16, PADDED, 128, D);
    }
}

int main(int argc, char **argv) // the name of a test, or none: all
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_rows_of_128),
        cmocka_unit_test(plain_rows_of_512),
        cmocka_unit_test(hopper_rows_of_128),
        cmocka_unit_test(hopper_rows_of_512),
        cmocka_unit_test(small),
    };
    Err err;
    CpuChoice choice;
    CudaFound found;
    cuda_find(&found);
    if (found.first < 0) {
        printf("SKIP: %s\n", found.why);
        return 77;
    }
    device_cpu_init(&cpu, 1);
    device_cpu_init(&gpu, 1);
    ops_init(&cpu_ops);
    if (cpu_open(&cpu_ops, "auto", &choice, &err) != ERR_NONE ||
        cuda_open(&gpu, &gpu_ops, &found, found.first, &err) != ERR_NONE) {
        printf("%s\n", err.text);
        return 1;
    }
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    printf("largest error: %.2e in bf16, %.2e in f32\n", worst[0], worst[1]);
    cuda_close(&gpu);
    return failed;
}
