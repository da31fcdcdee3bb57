// test_op_matrix.c -- every op x implementation x shape x element types against the reference.
//
// Each implementation of each backend is forced in turn (ops_force), so that a kernel cannot hide
// behind a better one. What a run checks beside the numbers: op_harness.h. Then the promises of the
// contracts' Repeat lines: equal bits when run twice and with 1, 2 and 3 threads.
//
// SPDX-License-Identifier: MIT
#include "engine/base/mem.h"
#include "kernels/ref/ref.h"
#include "tests/kernels/backends.h"
#include "tests/support/op_harness.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MANY = 10 }; // failures to print for one implementation

// Same case, other thread counts and once more: equal bits. The reference has one thread.
static bool repeats(const Case *first, OpId op, int variant, const Mix *m, OpBackend *b,
                    char why[512])
{
    static const int threads[] = {1, 2, 3, 3};
    bool             same      = true;
    const int        runs      = strcmp(b->name, "ref") == 0 ? 1 : (int)LT_COUNT(threads);
    for (int i = 0; i < runs && same; i++) {
        Device d  = b->device;
        d.threads = threads[i];
        Case again;
        case_build(&again, op, variant, m, &d);
        same = case_run(&again, &b->ops, why) && case_same_bits(first, &again, why);
        case_free(&again);
        if (same) continue;
        char text[512];
        memcpy(text, why, sizeof text);
        snprintf(why, 512, "with %d threads: %.480s", threads[i], text);
    }
    return same;
}

// Once more where a read behind the last element of a tensor cannot stay unseen.
static bool reads_no_further(const Case *want, const Case *naive, int variant, const Mix *m,
                             OpBackend *b, char why[512])
{
    if (!b->device.is_host) return true;
    Device fenced;
    Case   c;
    fenced_device_init(&fenced, b->device.threads);
    case_build(&c, want->op, variant, m, &fenced);
    const bool ok = case_run(&c, &b->ops, why) && case_matches(&c, want, naive, why);
    case_free(&c);
    return ok;
}

static bool one_case(OpId op, int variant, const Mix *m, OpBackend *b, Truth *t, char why[512])
{
    Case want, naive, got;
    case_build(&want, op, variant, m, &t->host);
    case_build(&naive, op, variant, m, &t->host);
    case_build(&got, op, variant, m, &b->device);
    const bool ok = case_run(&want, &t->ref, why) && case_run(&naive, &t->naive, why) &&
                    case_run(&got, &b->ops, why) && case_matches(&got, &want, &naive, why) &&
                    repeats(&got, op, variant, m, b, why) &&
                    reads_no_further(&want, &naive, variant, m, b, why);
    case_free(&want);
    case_free(&naive);
    case_free(&got);
    return ok;
}

// All cases of one op with the one implementation that is left in b->ops. Returns failures.
static int all_cases(OpId op, OpBackend *b, Truth *t, int *served)
{
    int failed = 0;
    for (int variant = 0; variant < case_table(op)->variants; variant++) {
        for (int i = 0; case_mix(i); i++) {
            Case probe;
            case_build(&probe, op, variant, case_mix(i), &b->device);
            const bool serves = case_impl(&probe, &b->ops) != NULL;
            case_free(&probe);
            if (!serves) continue;
            char why[512] = "";
            ++*served;
            if (one_case(op, variant, case_mix(i), b, t, why)) continue;
            if (++failed <= MANY)
                print_message("  %s, %s, variant %d, %s: %s\n", b->name, ops_name(op), variant,
                              case_mix(i)->name, why);
        }
    }
    return failed;
}

static void every_implementation_matches_its_reference(void **state)
{
    (void)state;
    Truth *t = mem_alloc(sizeof *t);
    assert_non_null(t);
    truth_init(t);
    int  failed                = 0;
    char shown[OP_COUNT][256] = {""};
    for (int i = 0; i < op_backend_count(); i++) {
        OpBackend *b = mem_alloc(sizeof *b), *forced = mem_alloc(sizeof *b);
        assert_non_null(b);
        assert_non_null(forced);
        char why[512] = "";
        if (!op_backend_open(i, b, why)) fail_msg("backend %d: %s", i, why);
        for (int op = 0; op < OP_COUNT; op++) {
            for (int k = 0; k < b->ops.info[op].n; k++) {
                const char *impl = ops_impl_name(&b->ops, (OpId)op, k);
                if (impl_seen(shown[op], impl)) continue;
                if (strcmp(impl, "hopper_sums") == 0) continue; // is wrong on purpose: its own test
                *forced          = *b;
                assert_int_equal(ops_force(&forced->ops, ops_name((OpId)op), impl, NULL), ERR_NONE);
                int       served = 0;
                const int bad    = all_cases((OpId)op, forced, t, &served);
                print_message("%-12s %-14s %-12s %3d cases, %d failed\n", b->name,
                              ops_name((OpId)op), impl, served, bad);
                failed += bad + (served == 0);
            }
        }
        mem_free(b);
        mem_free(forced);
    }
    mem_free(t);
    assert_int_equal(failed, 0);
}

// The harness itself must be able to fail: an op that writes one element too far, leaves one out,
// or is wrong in one place is caught.
static Status spoilt_cast(const CastArgs *a, OpCtx *cx, Err *err)
{
    const Status s = cast_naive(a, cx, err);
    if (a->n == 65) ((float *)a->dst)[65] = 0;
    if (a->n == 63) dtype_store(a->dst, a->dst_dtype, 62, 1.5f);
    if (a->n == 64) dtype_store(a->dst, a->dst_dtype, 10, dtype_float(0x7fffffffu));
    return s;
}

static void harness_catches_wrong_kernels(void **state)
{
    (void)state;
    Truth *t = mem_alloc(sizeof *t);
    Ops   *ops = mem_calloc(1, sizeof *ops);
    assert_non_null(t);
    assert_non_null(ops);
    truth_init(t);
    ops_add_cast(ops, (Impl_cast){.impl = "spoilt", .run = spoilt_cast});
    int caught = 0;
    for (int variant = 0; variant < case_table(OP_cast)->variants; variant++) {
        char why[512];
        Case want, got;
        case_build(&want, OP_cast, variant, case_mix(0), &t->host);
        case_build(&got, OP_cast, variant, case_mix(0), &t->host);
        assert_true(case_run(&want, &t->ref, why));
        if (!case_run(&got, ops, why) || !case_matches(&got, &want, &want, why)) {
            print_message("caught: %s\n", why);
            caught++;
        }
        case_free(&want);
        case_free(&got);
    }
    mem_free(t);
    mem_free(ops);
    assert_int_equal(caught, 3);
}

static Status greedy_cast(const CastArgs *a, OpCtx *cx, Err *err)
{
    volatile float beyond = ((const float *)a->src)[a->n];
    (void)beyond;
    return cast_naive(a, cx, err);
}

static void fence_stops_a_read_too_far(void **state)
{
    (void)state;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        static Ops ops;
        Device     fenced;
        Case       c;
        char       why[512];
        signal(SIGSEGV, SIG_DFL);
        ops_add_cast(&ops, (Impl_cast){.impl = "greedy", .run = greedy_cast});
        fenced_device_init(&fenced, 1);
        case_build(&c, OP_cast, 2, case_mix(0), &fenced);
        _exit(case_run(&c, &ops, why) ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

// Moves one element in the middle of C by 5e-5 (f32), or by four neighbours (16 bits).
static Status spoilt_matmul(const MatmulArgs *a, OpCtx *cx, Err *err)
{
    const Status  s  = matmul_ref(a, cx, err);
    const int64_t at = a->M / 2 * a->ldc + a->N / 2;
    if (a->c_dtype == DTYPE_F32)
        ((float *)a->C)[at] += 5e-5f;
    else
        ((uint16_t *)a->C)[at] = (uint16_t)(((uint16_t *)a->C)[at] + 4);
    return s;
}

static void tolerance_is_tight(void **state)
{
    (void)state;
    Truth *t   = mem_alloc(sizeof *t);
    Ops   *ops = mem_calloc(1, sizeof *ops);
    assert_non_null(t);
    assert_non_null(ops);
    truth_init(t);
    ops_add_matmul(ops, (Impl_matmul){.impl = "spoilt", .run = spoilt_matmul});
    for (int variant = 0; variant < case_table(OP_matmul)->variants; variant++) {
        for (int i = 0; i < 2; i++) { // f32 and bf16
            char why[512] = "";
            Case want, naive, got;
            case_build(&want, OP_matmul, variant, case_mix(i), &t->host);
            case_build(&naive, OP_matmul, variant, case_mix(i), &t->host);
            case_build(&got, OP_matmul, variant, case_mix(i), &t->host);
            const MatmulArgs *a = &want.args.matmul;
            if (a->M > 0 && a->N > 0 && a->epilogue == MATMUL_PLAIN) {
                assert_true(case_run(&want, &t->ref, why));
                assert_true(case_run(&naive, &t->naive, why));
                assert_true(case_run(&got, ops, why));
                if (case_matches(&got, &want, &naive, why))
                    fail_msg("variant %d, %s: the error was not seen", variant, case_mix(i)->name);
            }
            case_free(&want);
            case_free(&naive);
            case_free(&got);
        }
    }
    mem_free(t);
    mem_free(ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(harness_catches_wrong_kernels),
        cmocka_unit_test(tolerance_is_tight),
        cmocka_unit_test(fence_stops_a_read_too_far),
        cmocka_unit_test(every_implementation_matches_its_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
