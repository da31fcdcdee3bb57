// cpu.c -- picks an instruction set of this machine and registers its kernels; see cpu.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/cpu_isa.h"
#include "kernels/cpu/gemm_fp8.h"

#include <stdio.h>
#include <string.h>

static const double CPU_TIMING_SECONDS = 0.001;
static const double CPU_WORTH_IT = 1.15; // rate over f32's from which an engine is taken

// The best of three short runs: a neighbour on the core can only make one slower.
static double rate(const CpuIsa *row)
{
    double best = 0;
    for (int i = 0; i < 3; i++) {
        const double r = row->peak(CPU_TIMING_SECONDS);
        best = LT_MAX(best, r);
    }
    return best;
}

// The best f32 row at or below `top`: what a bf16 engine builds on.
static const CpuIsa *f32_row(const CpuIsa *rows, int top)
{
    while (top > 0 && !(rows[top].add_f32 && rows[top].can())) top--;
    return &rows[top];
}

static void choose_auto(const CpuIsa *rows, int n, CpuChoice *out, const CpuIsa **engine)
{
    const CpuIsa *f32 = f32_row(rows, n - 1);
    snprintf(out->why, sizeof out->why, "%s is the widest here", f32->name);
    *engine = f32;
    for (int i = n - 1; i >= 0; i--) {
        const CpuIsa *row = &rows[i];
        if (!row->add_bf16 || !row->can()) continue;
        if (row->claim && !row->claim()) continue;
        if (!row->timed) {
            snprintf(out->why, sizeof out->why, "bf16 products on %s, everything else on %s",
                     row->name, f32->name);
            *engine = row;
            return;
        }
        const double times = rate(row) / rate(f32);
        const bool worth = times >= CPU_WORTH_IT;
        snprintf(out->why, sizeof out->why, "%s multiplies at %.2f times the rate of f32 on %s: %s",
                 row->name, times, f32->name, worth ? "used for bf16 products" : "not used");
        if (!worth) continue;
        *engine = row;
        return;
    }
}

static Status choose_named(const CpuIsa *rows, int n, const char *wish, CpuChoice *out,
                           const CpuIsa **engine, Err *err)
{
    const char *have[8];
    const int count = cpu_list(have);
    char list[128] = "";
    for (int i = 0; i < count; i++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", have[i]);
    }
    for (int i = 0; i < n; i++) {
        if (strcmp(rows[i].name, wish) != 0) continue;
        if (!rows[i].can())
            return err_set(err, ERR_UNSUPPORTED, "cpu.isa = %s: this machine lacks it; it has %s",
                           wish, list);
        if (rows[i].claim && !rows[i].claim())
            return err_set(err, ERR_UNSUPPORTED,
                           "cpu.isa = %s: the kernel refuses its registers; there is %s", wish,
                           list);
        *engine = &rows[i];
        if (rows[i].add_bf16)
            snprintf(out->why, sizeof out->why, "bf16 products on %s, everything else on %s",
                     rows[i].name, f32_row(rows, i)->name);
        else
            snprintf(out->why, sizeof out->why, "everything on %s", rows[i].name);
        return ERR_NONE;
    }
    return err_set(err, ERR_UNSUPPORTED, "cpu.isa = %s: not known here; this machine has %s", wish,
                   list);
}

Status cpu_open(Ops *ops, const char *wish, CpuChoice *out, Err *err)
{
    const CpuIsa *rows, *engine = NULL;
    const int n = cpu_isa_rows(&rows);
    memset(out, 0, sizeof *out);
    if (strcmp(wish, "auto") == 0)
        choose_auto(rows, n, out, &engine);
    else
        TRY(choose_named(rows, n, wish, out, &engine, err));
    snprintf(out->isa, sizeof out->isa, "%s", engine->name);

    const CpuIsa *f32 = f32_row(rows, (int)(engine - rows));
    cpu_matmul_fp8_register_hopper_sums(ops);
    f32->add_vec(ops);
    f32->add_f32(ops);
    if (engine->add_bf16) engine->add_bf16(ops);
    f32->add_gemv(ops); // last: where it serves a call, it is preferred
    return ERR_NONE;
}

int cpu_list(const char *names[8])
{
    const CpuIsa *rows;
    const int n = cpu_isa_rows(&rows);
    int count = 0;
    for (int i = 0; i < n; i++)
        if (rows[i].can()) names[count++] = rows[i].name;
    return count;
}

double cpu_peak(const char *isa, int threads, double seconds)
{
    const CpuIsa *rows;
    const int n = cpu_isa_rows(&rows);
    for (int i = 0; i < n; i++) {
        if (strcmp(rows[i].name, isa) != 0 || !rows[i].can()) continue;
        double sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
        sum += rows[i].peak(seconds);
        return sum;
    }
    return 0;
}
