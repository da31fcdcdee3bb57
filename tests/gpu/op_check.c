// op_check.c -- the ops of a device against their references: tests/kernels/test_op_matrix.c as a
// program of its own, for machines without cmocka and for looking at one op.
//
//     op_check [--first] [--once] [--most=N] [OP [IMPL [MIX [VARIANT...]]]]
//
// Every implementation of every backend (tests/kernels/backends*.c) is forced in turn and runs all
// cases of the op harness that it serves, twice: the bits must be equal. One line an
// implementation; exit code 1 when a case failed, 77 when there is no device, and 2 when nothing
// matches the words. One that needs a library is skipped where it serves nothing.
//   --first  stop at the first failure      --once  no second run
//   --most   only cases of at most N bytes and FLOP together (smaller than 1e6: the small half)
//   OP       an op's name, or all           MIX     f32, bf16, ... or all: element types
//   IMPL     an implementation, or all      VARIANT numbers of shapes
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "tests/kernels/backends.h"
#include "tests/support/op_harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 10 }; // failures to print for one implementation

typedef struct Check {
    bool first, once;
    double most; // bytes and FLOP of a case; 0: any
    const char *op, *impl, *mix;
    char **variants;
    int n_variants;
    Truth truth;
    OpBackend backend, forced;
    char seen[OP_COUNT][256]; // implementations that an earlier backend has shown
    int rows, failed;
} Check;

static bool matches(const char *word, const char *name)
{
    return !word || strcmp(word, "all") == 0 || strcmp(word, name) == 0;
}

static bool wanted_variant(const Check *c, int variant)
{
    for (int i = 0; i < c->n_variants; i++)
        if (atoi(c->variants[i]) == variant) return true;
    return c->n_variants == 0;
}

// Once more: equal bits.
static bool repeats(const Check *c, const Case *first, int variant, const Mix *m, char why[512])
{
    if (c->once) return true;
    Device d = c->forced.device;
    Case again;
    case_build(&again, first->op, variant, m, &d);
    const bool same = case_run(&again, &c->forced.ops, why) && case_same_bits(first, &again, why);
    case_free(&again);
    return same;
}

// `wrong`: did it run, and was wrong? False: it is not served.
static bool one_case(Check *c, OpId op, int variant, const Mix *m, bool *wrong, char why[512])
{
    Case want, naive, got;
    case_build(&got, op, variant, m, &c->forced.device);
    const bool wanted = c->most == 0 || case_cost(&got) <= c->most;
    const bool serves = wanted && case_impl(&got, &c->forced.ops) != NULL;
    if (serves) {
        case_build(&want, op, variant, m, &c->truth.host);
        case_build(&naive, op, variant, m, &c->truth.host);
        *wrong = !(case_run(&want, &c->truth.ref, why) && case_run(&naive, &c->truth.naive, why) &&
                   case_run(&got, &c->forced.ops, why) && case_matches(&got, &want, &naive, why) &&
                   repeats(c, &got, variant, m, why));
        case_free(&want);
        case_free(&naive);
    }
    case_free(&got);
    return serves;
}

// An implementation by a library may serve nothing, where the library or its GPU is missing.
static bool skipped(Check *c, OpId op, const char *impl)
{
    if (strcmp(impl, "cublaslt") != 0 && strcmp(impl, "cudnn") != 0) return false;
    Case first;
    case_build(&first, op, 0, case_mix(0), &c->forced.device);
    printf("%-12s %-14s %-12s SKIP: %s\n", c->backend.name, ops_name(op), impl,
           case_refusal(&first, &c->forced.ops));
    fflush(stdout);
    case_free(&first);
    c->rows++;
    return true;
}

static void one_implementation(Check *c, OpId op, const char *impl)
{
    int cases = 0, failed = 0;
    bool stop = false;
    for (int variant = 0; variant < case_table(op)->variants && !stop; variant++) {
        if (!wanted_variant(c, variant)) continue;
        for (int i = 0; case_mix(i) && !stop; i++) {
            const Mix *m = case_mix(i);
            char why[512] = "";
            bool wrong = false;
            if (!matches(c->mix, m->name) || !one_case(c, op, variant, m, &wrong, why)) continue;
            cases++;
            if (!wrong) continue;
            stop = c->first;
            if (++failed <= MANY)
                printf("  %s, %s (%s), variant %d, %s: %s\n", c->backend.name, ops_name(op), impl,
                       variant, m->name, why);
        }
    }
    if (cases == 0 && (c->mix || c->n_variants)) return;
    if (cases == 0 && skipped(c, op, impl)) return;
    printf("%-12s %-14s %-12s %3d cases, %d failed\n", c->backend.name, ops_name(op), impl, cases,
           failed);
    fflush(stdout);
    c->rows++;
    c->failed += failed + (cases == 0);
}

static void one_backend(Check *c)
{
    for (int op = 0; op < OP_COUNT; op++) {
        if (!matches(c->op, ops_name((OpId)op))) continue;
        for (int k = 0; k < c->backend.ops.info[op].n; k++) {
            const char *impl = ops_impl_name(&c->backend.ops, (OpId)op, k);
            if (!matches(c->impl, impl) || impl_seen(c->seen[op], impl)) continue;
            Err err;
            c->forced = c->backend;
            if (ops_force(&c->forced.ops, ops_name((OpId)op), impl, &err) == ERR_NONE)
                one_implementation(c, (OpId)op, impl);
            if (c->first && c->failed) return;
        }
    }
}

static int run(Check *c)
{
    int opened = 0;
    for (int i = 0; i < op_backend_count() && !(c->first && c->failed); i++) {
        char why[512] = "";
        if (!op_backend_open(i, &c->backend, why)) {
            printf("backend %d: %s\n", i, why);
            continue;
        }
        opened++;
        one_backend(c);
    }
    if (opened == 0) {
        printf("SKIP: no device\n");
        return 77;
    }
    if (c->rows == 0) {
        printf("nothing matches these words\n");
        return 2;
    }
    return c->failed ? 1 : 0;
}

static void read_words(Check *c, int argc, char **argv)
{
    const char **words[] = {&c->op, &c->impl, &c->mix};
    int n = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--first") == 0)
            c->first = true;
        else if (strcmp(argv[i], "--once") == 0)
            c->once = true;
        else if (strncmp(argv[i], "--most=", 7) == 0)
            c->most = atof(argv[i] + 7);
        else if (n < (int)LT_COUNT(words))
            *words[n++] = argv[i];
        else {
            c->variants = argv + i;
            c->n_variants = argc - i;
            return;
        }
    }
}

int main(int argc, char **argv)
{
    Check *c = mem_calloc(1, sizeof *c);
    if (!c) return 1;
    read_words(c, argc, argv);
    truth_init(&c->truth);
    const int code = run(c);
    mem_free(c);
    return code;
}
