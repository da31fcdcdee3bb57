// fuzz_examples.c -- labelled examples: tsv, jsonl, columns of words.
//
// The first byte of an input says what the rest is: 'c', 't', 'q' labelled examples to classify, to
// tag, to answer; 'C', 'T', 'Q' the same without labels. What was accepted is put into rows, and a
// model that finds everything equally likely is judged by it.
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz.h"

#include "engine/data/verdict.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 16, LABELS = 3 };

static const char words[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n##b\ncat\n##s\n.\n,\n1\n##9\n\xc3\xa9\n";

static void check_row(const Examples *e, int64_t sample)
{
    int32_t row[7][BLOCK], one[4];
    const ExampleRow to = {.input = row[0],
                           .type = row[1],
                           .position = row[2],
                           .seg_lo = row[3],
                           .seg_hi = row[4],
                           .pick_row = row[5],
                           .pick_target = row[6],
                           .seq_row = one,
                           .seq_target = one + 1,
                           .span_target = one + 2};
    const ExampleSample *s = &e->sample[sample];
    fuzz_must(s->n >= 2 && s->n <= BLOCK && s->picks <= BLOCK, "%d tokens", s->n);
    examples_put(e, sample, BLOCK, BLOCK, &to);
    for (int t = 0; t < BLOCK; t++)
        fuzz_must(row[0][t] >= 0 && row[0][t] < tokenizer_vocab_size(e->o.tokenizer), "an id");
    for (int p = 0; p < s->picks; p++)
        fuzz_must(row[5][p] > 0 && row[5][p] < s->n - 1, "a word at row %d of %d", row[5][p], s->n);
    for (int k = 0; k < 2; k++)
        fuzz_must(s->span[k] >= 0 && s->span[k] < s->n - 1, "an answer at row %d", s->span[k]);
    const Example *x = &e->example[s->example];
    for (int t = 0; t < s->n && e->o.task == EXAMPLE_QA; t++) {
        const int32_t lo = e->lo.id[s->id + t], hi = e->hi.id[s->id + t];
        fuzz_must(lo >= 0 && lo <= hi && hi <= x->bytes, "bytes %d to %d of a context", lo, hi);
    }
}

static void judge_all(const Examples *e)
{
    static const float even[BLOCK * LABELS_MAX]; // logits of 0
    const int labels = LT_MAX(e->labels.n, 1);
    Judge j;
    Score score;
    judge_open(&j, e, labels);
    score_init(&score, e);
    int64_t verdicts = 0;
    for (int64_t i = 0; i < e->samples; i++) {
        Verdict v;
        Err err = {0};
        bool done;
        check_row(e, i);
        fuzz_must(judge_logits(&j, i) <= (int64_t)LT_COUNT(even), "too many logits");
        fuzz_must(judge_sample(&j, i, even, &v, &done, &err) == ERR_NONE, "%s", err.text);
        verdicts += done;
        if (!e->o.labelled) continue;
        score_loss(&score, &j, i, even);
        if (done) fuzz_must(score_verdict(&score, e, &v, &err) == ERR_NONE, "%s", err.text);
    }
    fuzz_must(verdicts == e->n, "%lld verdicts on %lld examples", (long long)verdicts,
              (long long)e->n);
    judge_close(&j);
}

static Status read_plain(Examples *e, const char *path, Err *err)
{
    ExampleFile *f;
    ExampleRecord r;
    bool more = true;
    TRY(example_file_open(&f, path, e->o.task, false, err));
    Status st = ERR_NONE;
    while (st == ERR_NONE && more) {
        st = example_file_next(f, &r, &more, err);
        if (st == ERR_NONE && more) st = examples_add(e, &r, path, err);
    }
    example_file_close(f);
    return st;
}

static void feed(const uint8_t *data, size_t size)
{
    static const char kinds[] = "ctqCTQ";
    char path[PATH_CAP];
    Err err = {0};
    Tokenizer *t;
    Examples e;
    if (size == 0) return;
    const char *kind = strchr(kinds, *data ? *data : 'x');
    const int which = kind ? (int)(kind - kinds) : *data % 6;
    fuzz_must(tokenizer_load(&t, fuzz_put(path, "vocab.txt", words, strlen(words)), NULL, &err) ==
                  ERR_NONE,
              "%s", err.text);
    const ExampleOptions o = {.task = (ExampleTask)(which % 3),
                              .tokenizer = t,
                              .block = BLOCK,
                              .labelled = which < 3,
                              .keep_text = true};
    fuzz_must(examples_open(&e, &o, &err) == ERR_NONE, "%s", err.text);
    fuzz_put(path, "examples", data + 1, size - 1);
    const Status st = o.labelled ? examples_read(&e, path, &err) : read_plain(&e, path, &err);
    if (fuzz_good(st, &err)) judge_all(&e);
    examples_close(&e);
    tokenizer_close(t);
}

// gzip makes at most 1032 bytes of one.
const FuzzTarget fuzz_target = {feed, .memory_factor = 1032 * 512, .memory_base = 8 << 20};
