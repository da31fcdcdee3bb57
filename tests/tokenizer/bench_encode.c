// bench_encode.c -- how fast text becomes ids, and a vocabulary; for scripts/bench_tokenizer.py.
//
//   tokenizer_bench encode TOKENIZER FILE THREADS REPEAT     {"seconds": of the best, "ids", "crc"}
//   tokenizer_bench train  VOCAB_SIZE FILE THREADS           {"seconds", "ids"}
//
// With one thread the time is the processor's, so that other work on the machine disturbs less;
// with more it is the clock's. crc: CRC-32 of the ids as int32.
//
// SPDX-License-Identifier: MIT
#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

static double seconds(int threads)
{
    return threads > 1 ? clock_seconds() : (double)clock() / CLOCKS_PER_SEC;
}

static Status bench_encode(const char *path, const Buf *text, int threads, int repeat, Err *err)
{
    Tokenizer *t = NULL;
    TRY(tokenizer_load(&t, path, NULL, err));
    TokenIds ids = {0};
    Status s = ERR_NONE;
    double best = 1e30;
    for (int round = 0; round < repeat && s == ERR_NONE; round++) {
        ids.n = 0;
        const double start = seconds(threads);
        s = tokenizer_encode(t, text->data, text->len, false, threads, &ids, err);
        const double took = seconds(threads) - start;
        best = took < best ? took : best;
    }
    if (s == ERR_NONE)
        printf("{\"seconds\": %.6f, \"ids\": %lld, \"crc\": %lu}\n", best, (long long)ids.n,
               crc32(0, (const Bytef *)ids.id, (uInt)((size_t)ids.n * sizeof *ids.id)));
    token_ids_free(&ids);
    tokenizer_close(t);
    return s;
}

static Status bench_train(int64_t vocab_size, const Buf *text, int threads, Err *err)
{
    const TokenizerTrain how = {.type = "bpe", .vocab_size = vocab_size, .threads = threads};
    Tokenizer *t = NULL;
    const double start = seconds(threads);
    TRY(tokenizer_train(&t, &how, text->data, text->len, err));
    printf("{\"seconds\": %.6f, \"ids\": %lld}\n", seconds(threads) - start,
           (long long)tokenizer_vocab_size(t));
    tokenizer_close(t);
    return ERR_NONE;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "tokenizer_bench encode TOKENIZER FILE [THREADS [REPEAT]] | "
                        "train VOCAB_SIZE FILE [THREADS]\n");
        return 2;
    }
    const int threads = argc > 4 ? atoi(argv[4]) : 1, repeat = argc > 5 ? atoi(argv[5]) : 9;
    Err err = {0};
    Buf text = {0};
    Status s = file_read(argv[3], &text, &err);
    if (s == ERR_NONE)
        s = strcmp(argv[1], "train") == 0 ? bench_train(atoll(argv[2]), &text, threads, &err)
                                          : bench_encode(argv[2], &text, threads, repeat, &err);
    if (s != ERR_NONE) fprintf(stderr, "tokenizer_bench: %s\n", err.text);
    buf_free(&text);
    return err_exit_code(s);
}
