// fuzz_checkpoints.c -- mutated files against every reader of checkpoints/: any answer but a crash.
//
//     fuzz_checkpoints [ROUNDS [SEED]]
//
// A round takes a golden file, damages it in one to eight places (bits, digits, brackets, stretches
// cut, doubled or moved) and hands it to the tensor file, config, index and manifest readers.
// What a tensor file that was accepted points at is read to the last byte, so that a sanitizer
// sees it.
//
// SPDX-License-Identifier: MIT
#include "tests/checkpoints/ckpt_fixture.h"

#include "checkpoints/hf_files.h"
#include "checkpoints/manifest.h"
#include "checkpoints/safetensors.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_ROUNDS = 20000, GROWTH = 4096 };

static const char *const seeds[] = {
    "single/config.json",
    "bf16/model.safetensors",
    "bare/model.safetensors",
    "sharded/model.safetensors.index.json",
};
static const char manifest[] =
    "lathe-manifest 1\n8f3a0b77 9 a\n00000000 12 model.safetensors\nend\n";

typedef struct Fuzz {
    uint64_t seed, round, draws;
    char     dir[PATH_CAP];
    int64_t  accepted;
} Fuzz;

static size_t below(Fuzz *f, size_t n)
{
    return (size_t)rng_below(f->seed, f->round, f->draws++, n ? n : 1);
}

// One piece of damage in data[0, n); returns the new length, at most n + 64.
static size_t damage(Fuzz *f, char *data, size_t n)
{
    static const char marks[] = "{}[]:,\"\\0123456789-+.eEntf \n\t\x80\xff";
    const size_t      at = below(f, n), len = 1 + below(f, LT_MIN(n - at, (size_t)64));
    if (n == 0) return 0;
    switch (below(f, 6)) {
    case 0: data[at] = (char)(data[at] ^ (1 << below(f, 8))); break;
    case 1: data[at] = marks[below(f, sizeof marks)]; break;
    case 2: data[at] = (char)below(f, 256); break;
    case 3: // cut
        memmove(data + at, data + at + len, n - at - len);
        return n - len;
    case 4: // double
        memmove(data + at + len, data + at, n - at);
        return n + len;
    default: memmove(data + below(f, n - len + 1), data + at, len); break;
    }
    return n;
}

// Everything an accepted file promises must be there.
static uint32_t read_all(const SafeFile *s)
{
    uint32_t sum = 0;
    for (int i = 0; i < s->n; i++)
        for (uint64_t b = 0; b < s->entry[i].bytes; b++) sum += s->entry[i].data[b];
    return sum;
}

static void feed(Fuzz *f, const char *data, size_t n)
{
    static const char *const names[] = {"config.json", "model.safetensors.index.json", "MANIFEST",
                                        "model-00001-of-00004.safetensors"};
    char                     path[PATH_CAP];
    for (size_t i = 0; i < LT_COUNT(names); i++)
        fixture_put(fixture_path(path, f->dir, names[i]), data, n);
    Err       err = {0};
    SafeFile  s;
    HfConfig  c;
    HfFiles   files;
    Manifest *m = mem_calloc(1, sizeof *m);
    assert_non_null(m);
    if (safe_open(&s, path, &err) == ERR_NONE) {
        f->accepted += read_all(&s) < UINT32_MAX;
        safe_close(&s);
    }
    f->accepted += hf_config_read(&c, f->dir, &err) == ERR_NONE;
    f->accepted += manifest_read(m, f->dir, &err) == ERR_NONE;
    if (hf_files_open(&files, f->dir, &err) == ERR_NONE) hf_files_close(&files);
    mem_free(m);
    assert_true(strlen(err.text) < sizeof err.text);
}

static void mutated_files_do_not_crash_a_reader(void **state)
{
    const int64_t rounds = ((const int64_t *)*state)[0];
    Fuzz          f      = {.seed = (uint64_t)((const int64_t *)*state)[1]};
    Buf           seed[LT_COUNT(seeds) + 1] = {0};
    Err           err;
    fixture_mkdir(f.dir);
    for (size_t i = 0; i < LT_COUNT(seeds); i++) {
        char path[PATH_CAP];
        fixture_must(file_read(fixture_golden(path, seeds[i]), &seed[i], &err), &err);
    }
    fixture_must(buf_puts(&seed[LT_COUNT(seeds)], manifest, &err), &err);
    for (f.round = 0; f.round < (uint64_t)rounds; f.round++) {
        f.draws         = 0;
        const Buf *from = &seed[f.round % LT_COUNT(seed)];
        char      *data = mem_alloc(from->len + GROWTH);
        assert_non_null(data);
        memcpy(data, from->data, from->len);
        size_t n = from->len;
        for (size_t k = 1 + below(&f, 8); k; k--) n = damage(&f, data, n);
        feed(&f, data, n);
        mem_free(data);
    }
    print_message("%lld rounds, %lld files accepted\n", (long long)rounds, (long long)f.accepted);
    for (size_t i = 0; i < LT_COUNT(seed); i++) buf_free(&seed[i]);
    fixture_rmdir(f.dir);
}

int main(int argc, char **argv)
{
    int64_t args[2] = {argc > 1 ? atoll(argv[1]) : DEFAULT_ROUNDS, argc > 2 ? atoll(argv[2]) : 1};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(mutated_files_do_not_crash_a_reader, args)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
