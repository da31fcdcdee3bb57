// machine_speed.c -- see machine_speed.h.
//
// SPDX-License-Identifier: MIT
#include "engine/cli/machine_speed.h"
#include "engine/base/buf.h"
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "kernels/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t L2_UNKNOWN = 1u << 20, LLC_UNKNOWN = 64u << 20;

// The best of many short ones: a neighbour on the machine can only make one slower. In turn, so
// that the clock rates of a busy moment meet them all.
void machine_speed_arithmetic(MachineSpeed *m, const char *running, int threads)
{
    const char *have[MACHINE_ISAS];
    const int n = cpu_list(have);
    m->isas = 0;
    for (int i = 0; i < n; i++)
        if (strcmp(have[i], "amx") != 0 || strcmp(running, "amx") == 0) m->isa[m->isas++] = have[i];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < m->isas; i++) {
            const double rate = cpu_peak(m->isa[i], threads, 0.003);
            m->flops[i] = LT_MAX(m->flops[i], rate);
        }
    }
}

double machine_speed_peak(const MachineSpeed *m, const char *impl, const char *running)
{
    double peak = 0;
    for (int i = 0; i < m->isas; i++) {
        if (strcmp(m->isa[i], impl) == 0) return m->flops[i];
        if (strcmp(m->isa[i], running) == 0) peak = m->flops[i];
    }
    return peak;
}

// "2048K" of one of cpu0's caches; 0: there is none, or it is not told.
static size_t cache_bytes(int index, const char *file)
{
    char path[96];
    Buf text = {0};
    Err err;
    err_clear(&err);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, file);
    size_t n = 0;
    if (file_exists(path) && file_read(path, &text, &err) == ERR_NONE) {
        char *end;
        n = strtoul(text.data, &end, 10);
        if (*end == 'K') n <<= 10;
        if (*end == 'M') n <<= 20;
    }
    buf_free(&text);
    return n;
}

void machine_speed_caches(MachineSpeed *m, int threads)
{
    size_t l2 = L2_UNKNOWN, llc = LLC_UNKNOWN;
    for (int i = 0; i < 5; i++) {
        const size_t level = cache_bytes(i, "level"), bytes = cache_bytes(i, "size");
        if (level == 2 && bytes) l2 = bytes;
        if (level >= 3 && bytes) llc = bytes;
    }
    m->l2 = l2 * (size_t)threads;
    m->llc = LT_MAX(llc, m->l2);
}

size_t machine_speed_array(const MachineSpeed *m)
{
    return (2 * m->llc + 4095) / 4096 * 4096;
}

// The sum of an array, in sixteen chains, so that the additions do not set the pace.
static float read_all(const float *x, int64_t n, int threads)
{
    float sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
    {
        float part[16] = {0};
#pragma omp for schedule(static)
        for (int64_t j = 0; j < n; j += 16)
            for (int k = 0; k < 16; k++) part[k] += x[j + k];
        for (int k = 0; k < 16; k++) sum += part[k];
    }
    return sum;
}

static void scale(float *x, int64_t n, int threads)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t j = 0; j < n; j++) x[j] *= 0.999f;
}

static void add_scaled(float *z, const float *x, const float *y, int64_t n, int threads)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t j = 0; j < n; j++) z[j] = x[j] + 0.5f * y[j];
}

void machine_speed_memory(MachineSpeed *m, float *array, size_t bytes, int threads)
{
    const int64_t third = (int64_t)(bytes / sizeof(float)) / 48 * 16, n = 3 * third;
    volatile float sum = 0; // so that the reading is needed
    for (int round = 0; round < 4; round++) {
        const double start = clock_seconds();
        sum = sum + read_all(array, n, threads);
        const double after_read = clock_seconds();
        scale(array, n, threads);
        const double after_scale = clock_seconds();
        add_scaled(array, array + third, array + 2 * third, third, threads);
        const double end = clock_seconds(), once = (double)n * sizeof(float);
        m->read = LT_MAX(m->read, once / (after_read - start));
        m->memory = LT_MAX(m->memory, 2 * once / (after_scale - after_read));
        m->memory = LT_MAX(m->memory, once / (end - after_scale));
    }
    m->memory = LT_MAX(m->memory, m->read);
}
