// op_harness.c -- see op_harness.h.
//
// SPDX-License-Identifier: MIT
#include "tests/support/op_harness.h"
#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GUARD = 256, GUARD_BYTE = 0x5a, ALIGN = 128 };
enum { NAN_BYTE = 0xff }; // all ones is a NaN in every float type

static void *must_alloc(size_t bytes)
{
    void *p = mem_alloc(bytes);
    ASSERT(p, "no memory for a test (%zu bytes)", bytes);
    return p;
}

static size_t page_up(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

// Blocks of n * ALIGN bytes are aligned as on any device, others to their element.
static Status fenced_alloc(Device *d, size_t bytes, void **out, Err *err)
{
    (void)d;
    const size_t body = page_up(bytes), page = page_up(1);
    char *p = mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + body, page, PROT_NONE) != 0)
        return mem_err(err, bytes, "a fenced block");
    *out = p + body - bytes;
    return ERR_NONE;
}

static void fenced_free(Device *d, void *p, size_t bytes)
{
    (void)d;
    const size_t body = page_up(bytes);
    munmap((char *)p + bytes - body, body + page_up(1));
}

static Status fenced_copy(Device *d, void *dst, const void *src, size_t bytes, Err *err)
{
    (void)d;
    (void)err;
    memcpy(dst, src, bytes);
    return ERR_NONE;
}

static Status fenced_sync(Device *d, Err *err)
{
    (void)d;
    (void)err;
    return ERR_NONE;
}

void fenced_device_init(Device *d, int threads)
{
    static const DeviceVtable fenced = {.alloc = fenced_alloc,
                                        .free = fenced_free,
                                        .upload = fenced_copy,
                                        .download = fenced_copy,
                                        .sync = fenced_sync};
    device_cpu_init(d, threads);
    d->v = &fenced;
}

void truth_init(Truth *t)
{
    ops_init(&t->ref);
    memset(&t->naive, 0, sizeof t->naive);
    naive_register(&t->naive);
    device_cpu_init(&t->host, 1);
}

bool impl_seen(char names[256], const char *impl)
{
    char word[64];
    snprintf(word, sizeof word, " %s ", impl);
    if (strstr(names, word)) return true;
    const size_t used = strlen(names);
    snprintf(names + used, 256 - used, "%s", word);
    return false;
}

void *tensor_host(const Tensor *t)
{
    return t->host + t->at;
}
void *tensor_dev(const Tensor *t)
{
    return t->block + t->at;
}

static Tensor *add_tensor(Case *c, TensorRole role, const char *name, DType type, int64_t rows,
                          int64_t cols, int64_t ld)
{
    ASSERT(c->n < CASE_TENSORS && ld >= cols, "%s", name);
    Tensor *t = &c->t[c->n++];
    const size_t es = dtype_bytes(type);
    // Behind the last row there is no padding: the guard follows the last element.
    const size_t bytes = rows ? ((size_t)(rows - 1) * (size_t)ld + (size_t)cols) * es : 0;
    *t = (Tensor){.name = name, .role = role, .dtype = type, .rows = rows, .cols = cols, .ld = ld};
    const bool fenced = c->device->v->alloc == fenced_alloc;
    t->at = GUARD + (size_t)c->skew * es;
    t->tail = fenced ? 0 : GUARD;
    if (es == 1) { // FP8 lies at multiples of 16 everywhere
        t->at = GUARD;
        t->tail += -bytes & 15;
    }
    t->block_bytes = t->at + bytes + t->tail;
    t->host = must_alloc(t->block_bytes);
    t->result = must_alloc(t->block_bytes);
    memset(t->host, GUARD_BYTE, t->block_bytes);
    memset(t->host + t->at, NAN_BYTE, bytes);
    void *block = NULL;
    const Status s = device_alloc(c->device, t->block_bytes, &block, NULL);
    ASSERT(s == ERR_NONE, "no device memory for a test (%zu bytes)", t->block_bytes);
    t->block = block;
    return t;
}

Tensor *case_tensor(Case *c, TensorRole role, const char *name, DType type, int64_t rows,
                    int64_t cols, int64_t ld, double scale)
{
    Tensor *t = add_tensor(c, role, name, type, rows, cols, ld);
    if (role == TENSOR_OUT) return t;
    const int64_t count = rows * cols;
    float *x = must_alloc((size_t)count * sizeof *x);
    rng_fill_normal(x, count, c->seed, (uint32_t)c->n, scale);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < cols; k++)
            dtype_store(tensor_host(t), type, r * ld + k, x[r * cols + k]);
    mem_free(x);
    return t;
}

Tensor *case_ints(Case *c, const char *name, int64_t n, int64_t below)
{
    Tensor *t = add_tensor(c, TENSOR_IN, name, DTYPE_I32, 1, n, n);
    int32_t *x = tensor_host(t);
    for (int64_t i = 0; i < n; i++)
        x[i] = (int32_t)rng_below(c->seed, (uint64_t)c->n, (uint64_t)i, (uint64_t)below);
    return t;
}

void case_build(Case *c, OpId op, int variant, const Mix *m, Device *d)
{
    *c = (Case){.op = op, .device = d, .seed = 1000 + (uint64_t)variant, .skew = variant % 2};
    case_table(op)->build(c, variant, m);
}

void case_free(Case *c)
{
    for (int i = 0; i < c->n; i++) {
        mem_free(c->t[i].host);
        mem_free(c->t[i].result);
        device_free(c->device, c->t[i].block, c->t[i].block_bytes);
    }
    c->n = 0;
}

static Status call_op(OpId op, OpCtx *cx, const OpArgs *a, Err *err)
{
    switch (op) {
#define OP(name, Args, summary)                                                                    \
    case OP_##name:                                                                                \
        return op_##name(cx, &a->name, err);
#include "kernels/ops.def"
#undef OP
    case OP_COUNT: break;
    }
    return ERR_USAGE;
}

double case_cost(const Case *c)
{
    switch (c->op) {
#define OP(name, Args, summary)                                                                    \
    case OP_##name:                                                                                \
        return name##_flops(&c->args.name) + name##_bytes(&c->args.name);
#include "kernels/ops.def"
#undef OP
    case OP_COUNT: break;
    }
    return 0;
}

const char *case_impl(const Case *c, const Ops *ops)
{
    const OpCtx cx = {.ops = ops, .device = c->device};
    switch (c->op) {
#define OP(name, Args, summary)                                                                    \
    case OP_##name:                                                                                \
        return op_##name##_impl(&cx, &c->args.name);
#include "kernels/ops.def"
#undef OP
    case OP_COUNT: break;
    }
    return NULL;
}

const char *case_refusal(const Case *c, const Ops *ops)
{
    const OpCtx cx = {.ops = ops, .device = c->device};
    const char *why = "";
    switch (c->op) {
#define OP(name, Args, summary)                                                                    \
    case OP_##name:                                                                                \
        (void)op_##name##_serves(&cx, &c->args.name, 0, &why);                                     \
        break;
#include "kernels/ops.def"
#undef OP
    case OP_COUNT: break;
    }
    return why;
}

// Is byte i of the block part of an element that the op may write?
static bool writable(const Tensor *t, size_t i)
{
    if (t->role == TENSOR_IN || i < t->at || i >= t->block_bytes - t->tail) return false;
    const size_t es = dtype_bytes(t->dtype), ld = (size_t)t->ld * es;
    return ld == 0 || (i - t->at) % ld < (size_t)t->cols * es;
}

static bool untouched(const Tensor *t, char why[512])
{
    for (size_t i = 0; i < t->block_bytes; i++) {
        if (t->result[i] == t->host[i] || writable(t, i)) continue;
        snprintf(why, 512, "%s: wrote outside its elements: byte %lld of %lld", t->name,
                 (long long)i - (long long)t->at, (long long)(t->block_bytes - t->at - t->tail));
        return false;
    }
    return true;
}

static bool run_guarded(Case *c, OpCtx *cx, char why[512])
{
    Err err;
    OpPlan plan = {0};
    cx->plan = &plan;
    if (call_op(c->op, cx, &c->args, &err) != ERR_NONE) {
        snprintf(why, 512, "plan: %.400s", err.text);
        return false;
    }
    cx->plan = NULL;
    const size_t bytes = (plan.scratch_bytes + GUARD + ALIGN - 1) / ALIGN * ALIGN;
    void *block = NULL;
    unsigned char *image = must_alloc(bytes);
    const Status got = device_alloc(c->device, bytes, &block, NULL);
    ASSERT(got == ERR_NONE, "no device memory for a test (%zu bytes)", bytes);
    memset(image, NAN_BYTE, plan.scratch_bytes);
    memset(image + plan.scratch_bytes, GUARD_BYTE, bytes - plan.scratch_bytes);
    Status s = device_upload(c->device, block, image, bytes, &err);
    cx->scratch = block;
    cx->scratch_bytes = plan.scratch_bytes;
    if (s == ERR_NONE) s = call_op(c->op, cx, &c->args, &err);
    if (s == ERR_NONE) s = device_sync(c->device, &err);
    if (s == ERR_NONE) s = device_download(c->device, image, block, bytes, &err);
    if (s != ERR_NONE) snprintf(why, 512, "%.500s", err.text);
    for (int i = 0; i < GUARD && s == ERR_NONE; i++) {
        if (image[plan.scratch_bytes + (size_t)i] == GUARD_BYTE) continue;
        snprintf(why, 512, "wrote %d bytes behind its scratch of %zu", i + 1, plan.scratch_bytes);
        s = ERR_DEVICE;
    }
    device_free(c->device, block, bytes);
    mem_free(image);
    return s == ERR_NONE;
}

bool case_run(Case *c, const Ops *ops, char why[512])
{
    OpCtx cx = {.ops = ops, .device = c->device};
    OpArgs before;
    Err err;
    memcpy(&before, &c->args, sizeof before);
    for (int i = 0; i < c->n; i++) {
        const Tensor *t = &c->t[i];
        if (device_upload(c->device, t->block, t->host, t->block_bytes, &err) == ERR_NONE) continue;
        snprintf(why, 512, "%.500s", err.text);
        return false;
    }
    if (!run_guarded(c, &cx, why)) return false;
    for (int i = 0; i < c->n; i++) {
        const Tensor *t = &c->t[i];
        if (device_download(c->device, t->result, t->block, t->block_bytes, &err) != ERR_NONE) {
            snprintf(why, 512, "%.500s", err.text);
            return false;
        }
        if (!untouched(t, why)) return false;
    }
    if (memcmp(&before, &c->args, sizeof before) != 0) {
        snprintf(why, 512, "the arguments changed");
        return false;
    }
    return true;
}

static double element(const Tensor *t, int64_t r, int64_t k)
{
    const void *x = t->result + t->at;
    const int64_t i = r * t->ld + k;
    if (t->f64) {
        double d;
        memcpy(&d, (const char *)x + 8 * i, 8);
        return d;
    }
    return (double)dtype_load(x, t->dtype, i);
}

// Largest distance of two neighbours of a value near x.
static double ulp(const Tensor *t, double x)
{
    static const struct {
        double eps, least;
    } of[DTYPE_COUNT] = {[DTYPE_F32] = {0x1p-23, 0x1p-133}, [DTYPE_BF16] = {0x1p-7, 0x1p-133},
                         [DTYPE_F16] = {0x1p-10, 0x1p-24},  [DTYPE_E4M3] = {0x1p-3, 0x1p-9},
                         [DTYPE_E5M2] = {0x1p-2, 0x1p-16},  [DTYPE_I64] = {0x1p-52, 0x1p-133}};
    return fmax(fabs(x) * of[t->dtype].eps, of[t->dtype].least);
}

// Error beyond one rounding; infinity when one is NaN or infinite and the other is not.
static double excess(const Tensor *t, double got, double want)
{
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : (double)INFINITY;
    if (isinf(want) || isinf(got)) return want == got ? 0 : (double)INFINITY;
    return fmax(fabs(got - want) - ulp(t, want), 0);
}

static bool tensor_matches(const Tensor *got, const Tensor *want, const Tensor *naive,
                           char why[512])
{
    double scale = 0, naive_worst = 0, worst = -1;
    int64_t at_r = 0, at_k = 0;
    for (int64_t r = 0; r < want->rows; r++) {
        for (int64_t k = 0; k < want->cols; k++) {
            const double w = element(want, r, k), n = excess(want, element(naive, r, k), w);
            const double e = excess(want, element(got, r, k), w);
            if (isfinite(w)) scale = fmax(scale, fabs(w));
            if (isfinite(n)) naive_worst = fmax(naive_worst, n);
            if (e <= worst) continue;
            worst = e;
            at_r = r;
            at_k = k;
        }
    }
    double floor_ = fmax(want->floor, got->floor);
    if (floor_ <= 0) floor_ = 2e-6;
    const double limit = 2 * naive_worst + floor_ * scale;
    if (worst <= limit) return true;
    snprintf(why, 512, "%s (%s) [%lld,%lld] of [%lld,%lld]: got %.9g, want %.9g, error %.3g > %.3g",
             want->name, dtype_name(want->dtype), (long long)at_r, (long long)at_k,
             (long long)want->rows, (long long)want->cols, element(got, at_r, at_k),
             element(want, at_r, at_k), worst, limit);
    return false;
}

static bool tensor_same_bits(const Tensor *a, const Tensor *b, char why[512])
{
    if (memcmp(a->result, b->result, a->block_bytes) == 0) return true;
    for (int64_t r = 0; r < a->rows; r++) {
        for (int64_t k = 0; k < a->cols; k++) {
            const double x = element(a, r, k), y = element(b, r, k);
            if (memcmp(&x, &y, sizeof x) == 0) continue;
            snprintf(why, 512, "%s [%lld,%lld]: %.9g and %.9g should have equal bits", a->name,
                     (long long)r, (long long)k, x, y);
            return false;
        }
    }
    return true; // padding and guards were compared with the image
}

bool case_matches(const Case *got, const Case *want, const Case *naive, char why[512])
{
    for (int i = 0; i < want->n; i++) {
        const Tensor *w = &want->t[i];
        if (w->role == TENSOR_IN) continue;
        if (w->exact && !tensor_same_bits(&got->t[i], w, why)) return false;
        if (!w->exact && !tensor_matches(&got->t[i], w, &naive->t[i], why)) return false;
    }
    return true;
}

bool case_same_bits(const Case *a, const Case *b, char why[512])
{
    for (int i = 0; i < a->n; i++)
        if (a->t[i].role != TENSOR_IN && !tensor_same_bits(&a->t[i], &b->t[i], why)) return false;
    return true;
}
