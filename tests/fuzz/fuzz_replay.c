// fuzz_replay.c -- a fuzz target without libFuzzer: feeds it files, or damaged copies of them.
//
//     fuzz_NAME [--rounds=N] [--seed=S] FILE|FOLDER...
//
// Each file once; with --rounds, N times more with one to eight places damaged (bits, digits,
// brackets, stretches cut, doubled or moved). An input that takes over ten seconds ends the
// program. What ended it is left as /dev/shm/lathe-fuzz-*/input (or in /tmp).
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz.h"

#include "engine/base/mem.h"
#include "engine/base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);

enum { SECONDS = 10, MAX_DAMAGE = 8, MAX_STRETCH = 64, ROOM = MAX_DAMAGE * MAX_STRETCH };

typedef struct Replay {
    int64_t files, rounds;
    uint64_t seed, round, draws;
} Replay;

static size_t below(Replay *r, size_t n)
{
    return (size_t)rng_below(r->seed, r->round, r->draws++, n ? n : 1);
}

// One piece of damage in data[0, n); returns the new length, at most n + MAX_STRETCH.
static size_t damage(Replay *r, uint8_t *data, size_t n)
{
    static const char marks[] = "{}[]:,\"\\0123456789-+.eEntf \n\t\x80\xff";
    if (n == 0) return 0;
    const size_t at = below(r, n), len = 1 + below(r, LT_MIN(n - at, (size_t)MAX_STRETCH));
    switch (below(r, 6)) {
    case 0: data[at] ^= (uint8_t)(1 << below(r, 8)); break;
    case 1: data[at] = (uint8_t)marks[below(r, sizeof marks)]; break;
    case 2: data[at] = (uint8_t)below(r, 256); break;
    case 3: // cut
        memmove(data + at, data + at + len, n - at - len);
        return n - len;
    case 4: // double
        memmove(data + at + len, data + at, n - at);
        return n + len;
    default: memmove(data + below(r, n - len + 1), data + at, len); break;
    }
    return n;
}

// In a block of exactly that size, so that a sanitizer sees its ends.
static void feed_copy(const uint8_t *data, size_t n)
{
    uint8_t *copy = mem_alloc(n);
    fuzz_must(copy != NULL, "no memory");
    if (n) memcpy(copy, data, n);
    alarm(SECONDS);
    fuzz_run(copy, n);
    alarm(0);
    mem_free(copy);
}

static void feed_file(Replay *r, const char *path, int64_t rounds)
{
    Buf text = {0};
    Err err;
    fuzz_must(file_read(path, &text, &err) == ERR_NONE, "%s", err.text);
    feed_copy((const uint8_t *)text.data, text.len);
    r->files++;
    uint8_t *work = mem_alloc(text.len + ROOM);
    fuzz_must(work != NULL, "no memory");
    for (int64_t i = 0; i < rounds; i++, r->round++) {
        r->draws = 0;
        size_t n = text.len;
        if (n) memcpy(work, text.data, n);
        for (size_t k = 1 + below(r, MAX_DAMAGE); k; k--) n = damage(r, work, n);
        char input[PATH_CAP];
        fuzz_put(input, "input", work, n);
        feed_copy(work, n);
    }
    mem_free(work);
    buf_free(&text);
}

static void feed_path(Replay *r, const char *path)
{
    if (!file_is_dir(path)) {
        feed_file(r, path, r->rounds);
        return;
    }
    FileList list;
    Err err;
    fuzz_must(file_list(path, &list, &err) == ERR_NONE, "%s", err.text);
    for (int i = 0; i < list.n; i++) {
        char file[PATH_CAP];
        fuzz_must(path_join(file, path, list.name[i], &err) == ERR_NONE, "%s", err.text);
        feed_file(r, file, r->rounds / list.n + (i < r->rounds % list.n));
    }
    file_list_free(&list);
}

int main(int argc, char **argv)
{
    Replay r = {.seed = 1};
    LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--rounds=", 9) == 0)
            r.rounds = atoll(argv[i] + 9);
        else if (strncmp(argv[i], "--seed=", 7) == 0)
            r.seed = (uint64_t)atoll(argv[i] + 7);
        else
            feed_path(&r, argv[i]);
    }
    printf("%lld files, %llu rounds of damage\n", (long long)r.files, (unsigned long long)r.round);
    return r.files ? 0 : 1;
}
