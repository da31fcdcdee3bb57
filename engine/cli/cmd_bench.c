// cmd_bench.c -- lathe bench [OP] [--shape=NAME] [--json]: how fast each op is here, and what the
// machine allows.
//
// Every op call of a training step of one model (op_call.h), in the types of the policies fp32 and
// bf16. A time is the median of many calls on the same tensors (bench_calls.h). A row's percentage
// is of what the machine can do. CPU: measured in the same run (machine_speed.h). GPU: computed
// from the clocks and the bus that the device tells of (cuda_clock.h).
//
//     arithmetic   matmul, matmul_fp8, attention. CPU: the register loop of the instruction set
//                  that served; GPU: FMA units for f32, tensor cores for 16 bits
//     memory       all others: bytes the op must move, against streaming from memory (what only
//                  reads: against reading)
//
// Tensors that fit the caches stay there from call to call, as they often do in a step: such a row
// says "in L2" or "in L3", and its share of the memory's speed may pass 100 %.
//
// On a GPU every implementation that serves a call gets a row, the one that a training would use
// first: our kernels beside NVIDIA's libraries. On the CPU only that one.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "engine/cli/bench_calls.h"
#include "engine/cli/cli.h"
#include "engine/cli/machine_speed.h"
#include "engine/cli/op_call.h"
#include "engine/model/backend.h"
#include "kernels/cuda/cuda_clock.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

typedef struct Bench {
    Backend back;
    Ops one; // back.ops with one implementation of the op at hand
    OpCtx cx;
    MachineSpeed speed;
    bool on_gpu;
    CudaLimits gpu;
    const OpShape *shape;
    Precision policy;
    BenchMemory memory; // the tensors of a case, from its start
    json_t *rows;       // NULL: print a table
} Bench;

typedef struct Row {
    OpId id;
    const char *impl;
    BenchTime time;
    double flops, bytes; // of one call
    double footprint;    // bytes of memory it touches
} Row;

// ---- one measurement ----

static Status measure(Bench *b, const OpArgs *a, Row *row, Err *err)
{
    OpPlan plan = {0};
    OpCtx cx = b->cx;
    cx.plan = &plan;
    TRY(op_call_run(row->id, &cx, a, err));
    row->flops = plan.flops;
    row->bytes = plan.bytes;
    row->footprint = LT_MIN(row->footprint, plan.bytes); // of a table only some rows are read
    row->impl = op_call_impl(row->id, &b->cx, a);
    cx = b->cx;
    cx.scratch_bytes = plan.scratch_bytes;
    if (plan.scratch_bytes) TRY(device_alloc(cx.device, plan.scratch_bytes, &cx.scratch, err));
    const Status s = bench_time(row->id, &cx, a, &row->time, err);
    if (plan.scratch_bytes) device_free(cx.device, cx.scratch, plan.scratch_bytes);
    return s;
}

// ---- rows ----

static bool bound_by_arithmetic(OpId id)
{
    return id == OP_matmul || id == OP_matmul_fp8 || id == OP_attention_fwd ||
           id == OP_attention_bwd;
}

static const char *where(const Bench *b, const Row *r)
{
    return r->footprint <= (double)b->speed.l2    ? "in L2"
           : r->footprint <= (double)b->speed.llc ? "in L3"
                                                  : "memory";
}

static bool only_reads(OpId id)
{
    return id == OP_sum_squares || id == OP_bias_bwd;
}

static const char *bound(OpId id)
{
    return bound_by_arithmetic(id) ? "arithmetic" : only_reads(id) ? "reading" : "memory";
}

// What the machine does at best with this row: FLOP or bytes a second; 0: not known.
static double limit(const Bench *b, const Row *r)
{
    if (!bound_by_arithmetic(r->id)) return only_reads(r->id) ? b->speed.read : b->speed.memory;
    if (b->on_gpu) return b->policy.act == DTYPE_F32 ? b->gpu.flops_f32 : b->gpu.flops_half;
    return machine_speed_peak(&b->speed, r->impl, b->back.cpu.isa);
}

static double percent(const Bench *b, const Row *r)
{
    const double work = bound_by_arithmetic(r->id) ? r->flops : r->bytes, most = limit(b, r);
    return most > 0 ? 100 * work / r->time.seconds / most : 0;
}

static void print_row(const Bench *b, const OpCall *c, const Row *r)
{
    const bool arithmetic = bound_by_arithmetic(r->id);
    const double rate = (arithmetic ? r->flops : r->bytes) / r->time.seconds;
    printf("%-13s %-16s %-5s %-11s %10.3f %8.1f %-7s %4.0f %% of %-10s %s\n", ops_name(r->id),
           c->name, dtype_name(b->policy.act), r->impl, r->time.seconds * 1e3, rate * 1e-9,
           arithmetic ? "GFLOP/s" : "GB/s", percent(b, r), bound(r->id),
           arithmetic ? "" : where(b, r));
    fflush(stdout);
}

static Status add_row(Bench *b, const OpCall *c, const Row *r, Err *err)
{
    json_t *row = json_pack(
        "{s:s, s:s, s:s, s:s, s:f, s:f, s:i, s:f, s:f, s:s, s:f, s:s, s:f, s:I}", "op",
        ops_name(r->id), "case", c->name, "dtype", dtype_name(b->policy.act), "impl", r->impl,
        "seconds", r->time.seconds, "fastest_seconds", r->time.best, "times", r->time.times,
        "gflops", r->flops / r->time.seconds * 1e-9, "gb_per_s", r->bytes / r->time.seconds * 1e-9,
        "bound", bound(r->id), "percent", percent(b, r), "where", where(b, r), "working_set_mb",
        r->footprint * 1e-6, "calls_per_step", (json_int_t)c->calls);
    int lost = row ? 0 : -1;
    if (row && c->K > 0) {
        json_t *sizes = json_pack("{s:I, s:I, s:I}", "m", (json_int_t)c->M, "n", (json_int_t)c->N,
                                  "k", (json_int_t)c->K);
        lost = sizes ? json_object_update(row, sizes) : -1;
        json_decref(sizes);
    }
    if (lost) json_decref(row);
    if (lost || json_array_append_new(b->rows, row) != 0) return mem_err(err, 0, "the table");
    return ERR_NONE;
}

static Status bench_row(Bench *b, const OpCall *c, OpId id, const OpArgs *a, size_t used, Err *err)
{
    Row row = {.id = id, .footprint = (double)used};
    TRY(measure(b, a, &row, err));
    if (b->rows) return add_row(b, c, &row, err);
    print_row(b, c, &row);
    return ERR_NONE;
}

static Status bench_call(Bench *b, const OpCall *c, OpId id, const OpArgs *a, size_t used, Err *err)
{
    int served = 0;
    for (int k = b->back.ops.info[id].n - 1; k >= 0 && (b->on_gpu || served == 0); k--) {
        b->one = b->back.ops;
        TRY(ops_force(&b->one, ops_name(id), ops_impl_name(&b->one, id, k), err));
        if (!op_call_impl(id, &b->cx, a)) continue;
        TRY(bench_row(b, c, id, a, used, err));
        served++;
    }
    if (served == 0 && !b->rows)
        printf("%-13s %-16s %-5s no implementation serves it\n", ops_name(id), c->name,
               dtype_name(b->policy.act));
    return ERR_NONE;
}

static Status bench_case(Bench *b, OpId id, int i, bool *more, Err *err)
{
    Arena memory;
    OpArgs a;
    memset(&a, 0, sizeof a);
    OpCall c = {.shape = b->shape, .prec = &b->policy, .memory = &memory};
    arena_init_counting(&memory, "tensors");
    *more = op_call_make(&c, id, i, &a);
    if (!*more) return ERR_NONE;
    TRY(bench_memory_fill(&b->memory, memory.used, err));
    arena_init(&memory, "tensors", b->memory.image, b->memory.bytes);
    op_call_make(&c, id, i, &a);
    TRY(bench_memory_send(&b->memory, memory.used, err));
    arena_init(&memory, "tensors", b->memory.memory, b->memory.bytes);
    c.sent = b->on_gpu;
    op_call_make(&c, id, i, &a);
    return bench_call(b, &c, id, &a, memory.used, err);
}

// `only`: an op, or OP_COUNT for all.
static Status bench_ops(Bench *b, OpId only, Err *err)
{
    static const char *const policies[] = {"fp32", "bf16"};
    for (int id = 0; id < OP_COUNT; id++) {
        if (only != OP_COUNT && only != (OpId)id) continue;
        for (size_t p = 0; p < LT_COUNT(policies); p++) {
            TRY(precision_from_name(&b->policy, policies[p], "f32", err));
            bool more = true;
            for (int i = 0; more; i++) TRY(bench_case(b, (OpId)id, i, &more, err));
        }
    }
    return ERR_NONE;
}

// ---- the command ----

static void print_cpu(const Bench *b)
{
    const MachineSpeed *m = &b->speed;
    printf("%s, %d threads (%s)\n", b->back.cpu.isa, b->back.device.threads, b->back.cpu.why);
    printf("arithmetic, GFLOP/s:");
    for (int i = 0; i < m->isas; i++)
        printf("%s %s %.0f", i ? "," : "", m->isa[i], m->flops[i] * 1e-9);
    printf(
        "\nmemory: %.1f GB/s (reading %.1f) in %.0f MB; caches: L2 %.1f MB, last level %.0f MB\n",
        m->memory * 1e-9, m->read * 1e-9, (double)machine_speed_array(m) * 1e-6,
        (double)m->l2 * 1e-6, (double)m->llc * 1e-6);
}

static void print_gpu(const Bench *b)
{
    const CudaLimits *g = &b->gpu;
    printf("%s: %d SMs of compute capability %d.%d, %.2f GHz at most\n", b->back.device.name,
           g->sm_count, g->cc / 10, g->cc % 10, g->clock_hz * 1e-9);
    printf("at that clock: f32 %.1f TFLOP/s, 16 bits on tensor cores %.1f TFLOP/s\n",
           g->flops_f32 * 1e-12, g->flops_half * 1e-12);
    printf("memory: %.1f GB/s; L2 %.1f MB\n", g->bytes_per_second * 1e-9,
           (double)g->l2_bytes * 1e-6);
}

static void print_machine(const Bench *b)
{
    const OpShape *s = b->shape;
    if (b->on_gpu)
        print_gpu(b);
    else
        print_cpu(b);
    printf("shape %s: B %lld, T %lld, C %lld, H %lld, L %lld, V %lld (%lld)\n\n", s->name,
           (long long)s->B, (long long)s->T, (long long)s->C, (long long)s->H, (long long)s->L,
           (long long)s->V, (long long)s->Vp);
    printf("%-13s %-16s %-5s %-11s %10s %8s %-7s %s\n", "op", "case", "dtype", "impl", "ms", "rate",
           "", "   % of what the machine can do");
}

// The rows are added by the caller; NULL: out of memory.
static json_t *cpu_json(const Bench *b)
{
    const MachineSpeed *m = &b->speed;
    json_t *peaks = json_object();
    int lost = peaks ? 0 : -1;
    for (int i = 0; i < m->isas && !lost; i++)
        lost = json_object_set_new(peaks, m->isa[i], json_real(m->flops[i] * 1e-9));
    json_t *all = json_pack("{s:s, s:s, s:s, s:i, s:s, s:o, s:f, s:f, s:f, s:f, s:f}", "device",
                            "cpu", "isa", b->back.cpu.isa, "why", b->back.cpu.why, "threads",
                            b->back.device.threads, "shape", b->shape->name, "peak_gflops", peaks,
                            "memory_gb_per_s", m->memory * 1e-9, "read_gb_per_s", m->read * 1e-9,
                            "memory_array_mb", (double)machine_speed_array(m) * 1e-6, "l2_mb",
                            (double)m->l2 * 1e-6, "llc_mb", (double)m->llc * 1e-6);
    if (!lost) return all;
    json_decref(all);
    return NULL;
}

static json_t *gpu_json(const Bench *b)
{
    const CudaLimits *g = &b->gpu;
    return json_pack("{s:s, s:i, s:i, s:f, s:s, s:{s:f, s:f}, s:f, s:f}", "device",
                     b->back.device.name, "compute_capability", g->cc, "sm_count", g->sm_count,
                     "clock_ghz", g->clock_hz * 1e-9, "shape", b->shape->name, "peak_gflops", "f32",
                     g->flops_f32 * 1e-9, "half", g->flops_half * 1e-9, "memory_gb_per_s",
                     g->bytes_per_second * 1e-9, "l2_mb", (double)g->l2_bytes * 1e-6);
}

static Status print_json(const Bench *b, Err *err)
{
    json_t *all = b->on_gpu ? gpu_json(b) : cpu_json(b);
    int lost = all ? json_object_set(all, "rows", b->rows) : -1;
    if (!lost) lost = json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    json_decref(all);
    if (lost) return err_set(err, ERR_IO, "the table could not be written");
    puts("");
    return ERR_NONE;
}

static Status bench_cpu(Bench *b, Err *err)
{
    const int threads = b->back.device.threads;
    machine_speed_arithmetic(&b->speed, b->back.cpu.isa, threads);
    machine_speed_caches(&b->speed, threads);
    const size_t bytes = machine_speed_array(&b->speed);
    TRY(bench_memory_fill(&b->memory, bytes, err));
    machine_speed_memory(&b->speed, (float *)(void *)b->memory.memory, bytes, threads);
    return ERR_NONE;
}

static Status bench_machine(Bench *b, Err *err)
{
    b->memory.device = &b->back.device;
    b->on_gpu = !b->back.device.is_host;
    if (!b->on_gpu) return bench_cpu(b, err);
    if (!cuda_limits(&b->back.device, &b->gpu))
        return err_set(err, ERR_DEVICE, "%s does not tell its clocks", b->back.device.name);
    b->speed.memory = b->speed.read = b->gpu.bytes_per_second;
    b->speed.l2 = b->speed.llc = b->gpu.l2_bytes;
    return ERR_NONE;
}

static Status bench_run(Bench *b, const Options *o, Err *err)
{
    OpId only = OP_COUNT;
    if (o->n_args > 0) TRY(op_call_find(o->args[0], &only, err));
    TRY(op_call_shape(o->shape, &b->shape, err));
    TRY(backend_of_options(&b->back, o, err));
    b->cx = (OpCtx){.ops = &b->one, .device = &b->back.device};
    TRY(bench_machine(b, err));
    if (o->json) {
        b->rows = json_array();
        if (!b->rows) return mem_err(err, 0, "the table");
    } else {
        print_machine(b);
    }
    TRY(bench_ops(b, only, err));
    return o->json ? print_json(b, err) : ERR_NONE;
}

Status cmd_bench(const Options *o, Err *err)
{
    if (o->n_args > 1) return err_set(err, ERR_USAGE, "one op at a time: %.100s", o->args[1]);
    Bench *b = mem_calloc(1, sizeof *b);
    if (!b) return mem_err(err, sizeof *b, "the benchmark");
    const Status s = bench_run(b, o, err);
    bench_memory_free(&b->memory);
    backend_close(&b->back);
    json_decref(b->rows);
    mem_free(b);
    return s;
}
