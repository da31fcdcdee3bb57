// test_memory.c -- engine/base: arena.h, buf.h, mem.h, and the wrong calls that assert.h stops.
//
// SPDX-License-Identifier: MIT
#include "engine/base/arena.h"
#include "engine/base/assert.h"
#include "engine/base/buf.h"
#include "engine/base/mem.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

// A program of a few allocations, run twice: measured, then carved.
static void build(Arena *a, void *got[5])
{
    arena_part(a, "weights");
    got[0] = arena_alloc(a, 1);
    got[1] = arena_alloc(a, 1000);
    arena_part(a, "gradients");
    got[2] = arena_alloc(a, 128);
    const size_t mark = arena_mark(a);
    got[3]            = arena_alloc(a, 5000);
    arena_release(a, mark);
    arena_part(a, "weights");
    got[4] = arena_alloc(a, 0);
}

static void arena_measures_then_carves_the_same(void **state)
{
    (void)state;
    Arena count, real;
    void *fake[5], *got[5];
    arena_init_counting(&count, "run");
    assert_true(arena_is_counting(&count));
    build(&count, fake);
    assert_int_equal(count.peak, 128 + 1024 + 128 + 5120);
    assert_int_equal(count.used, 128 + 1024 + 128);

    void *base = mem_map(count.peak);
    assert_non_null(base);
    arena_init(&real, "run", base, count.peak);
    assert_false(arena_is_counting(&real));
    build(&real, got);
    assert_int_equal(real.peak, count.peak);
    assert_int_equal(real.n_part, 3);
    assert_string_equal(real.parts[1].name, "weights");
    assert_int_equal(real.parts[1].bytes, 128 + 1024);
    assert_string_equal(real.parts[2].name, "gradients");
    for (int i = 0; i < 5; i++) {
        assert_int_equal((uintptr_t)got[i] % ARENA_ALIGN, 0);
        assert_non_null(fake[i]);
        assert_int_equal((char *)got[i] - (char *)base, (char *)fake[i] - (char *)fake[0]);
    }
    memset(got[1], 1, 1000); // writable to the end
    assert_ptr_equal(got[4], got[3]); // released memory is handed out again
    mem_unmap(base, count.peak);
}

static void arena_counts_175b_shapes(void **state)
{
    (void)state;
    Arena a;
    arena_init_counting(&a, "plan");
    for (int i = 0; i < 96; i++) (void)arena_alloc(&a, (size_t)12 * 12288 * 12288 * 4);
    assert_true(a.used == (size_t)96 * 12 * 12288 * 12288 * 4);
}

static int death_of(void (*body)(void))
{
    fflush(NULL);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        signal(SIGABRT, SIG_DFL);
        body();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void alloc_after_seal(void)
{
    Arena a;
    arena_init_counting(&a, "run");
    arena_seal(&a);
    (void)arena_alloc(&a, 1);
}

static void alloc_past_the_end(void)
{
    Arena a;
    arena_init(&a, "run", mem_map(256), 256);
    (void)arena_alloc(&a, 200); // 256 with rounding
    (void)arena_alloc(&a, 1);
}

static void release_forward(void)
{
    Arena a;
    arena_init_counting(&a, "run");
    arena_release(&a, 1);
}

static void harmless(void) { ASSERT(1 + 1 == 2, "numbers"); }

static void wrong_calls_stop_the_program(void **state)
{
    (void)state;
    assert_int_equal(death_of(alloc_after_seal), SIGABRT);
    assert_int_equal(death_of(alloc_past_the_end), SIGABRT);
    assert_int_equal(death_of(release_forward), SIGABRT);
    assert_int_equal(death_of(harmless), 0);
}

static void buf_grows_and_stays_a_string(void **state)
{
    (void)state;
    Buf b = {0};
    buf_clear(&b); // of an empty one
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(buf_printf(&b, NULL, "%04d", i), ERR_NONE);
        assert_int_equal(b.data[b.len], 0);
    }
    assert_int_equal(b.len, 40000);
    assert_memory_equal(b.data + 4 * 1234, "1234", 4);
    buf_clear(&b);
    assert_string_equal(b.data, "");
    assert_int_equal(buf_puts(&b, "a", NULL), ERR_NONE);
    assert_int_equal(buf_append(&b, "\0b", 2, NULL), ERR_NONE);
    assert_int_equal(buf_append(&b, NULL, 0, NULL), ERR_NONE);
    assert_int_equal(b.len, 3);
    assert_memory_equal(b.data, "a\0b", 4);
    buf_free(&b);
    assert_null(b.data);
    buf_free(&b);
}

static void absurd_sizes_are_out_of_memory(void **state)
{
    (void)state;
    Err err;
    Buf b = {0};
    assert_int_equal(buf_reserve(&b, SIZE_MAX - 3, &err), ERR_NOMEM);
    assert_non_null(strstr(err.text, "a buffer"));
    assert_null(mem_calloc(SIZE_MAX / 2, 3));
    assert_null(mem_map(SIZE_MAX / 2));
}

static void mem_gives_what_it_says(void **state)
{
    (void)state;
    void *zero = mem_alloc(0);
    assert_non_null(zero);
    mem_free(zero);
    mem_free(NULL);
    char *s = mem_strndup("abcdef", 3);
    assert_string_equal(s, "abc");
    mem_free(s);
    unsigned char *p = mem_map(100000);
    assert_non_null(p);
    for (int i = 0; i < 100000; i++) assert_int_equal(p[i], 0);
    mem_unmap(p, 100000);
    mem_unmap(NULL, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_measures_then_carves_the_same),
        cmocka_unit_test(arena_counts_175b_shapes),
        cmocka_unit_test(wrong_calls_stop_the_program),
        cmocka_unit_test(buf_grows_and_stays_a_string),
        cmocka_unit_test(absurd_sizes_are_out_of_memory),
        cmocka_unit_test(mem_gives_what_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
