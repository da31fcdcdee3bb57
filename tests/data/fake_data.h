// fake_data.h -- data folders with known ids, written through shard.h and meta.h, no tokenizer.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "support.h"
#include "engine/data/shard.h"

typedef struct FakeData {
    const int32_t *id;
    int64_t        n;
    int64_t        shard_tokens;
    int            token_bytes;
    const int64_t *document; // [documents] first tokens, rising from 0; none: one document
    int            documents;
    const uint8_t *counts; // [n] 0 for prompts; NULL: all count
    int64_t        vocab_size;
    uint64_t       tokenizer;
} FakeData;

static inline MetaSplit fake_split(const TestPath *dir, const char *name, const FakeData *f)
{
    Err          err = {0};
    SplitWriter *w;
    MetaSplit    out;
    int          next = 0;
    must(split_writer_open(&w, dir->s, name, f->token_bytes, f->shard_tokens, &err), &err);
    for (int64_t i = 0; i < f->n; i++) {
        const bool begins = f->documents ? next < f->documents && f->document[next] == i : i == 0;
        if (begins) must(split_writer_document(w, &err), &err);
        next += begins;
        must(split_writer_put(w, f->id + i, 1, f->counts ? f->counts[i] : true, &err), &err);
    }
    must(split_writer_finish(w, &out, &err), &err);
    split_writer_close(w);
    out.text_bytes = 4 * f->n;
    return out;
}

// DIR/name with these splits; NULL: an empty one.
static inline TestPath fake_data(const TestDir *d, const char *name, const FakeData *train,
                                 const FakeData *val)
{
    const TestPath  p   = test_folder(d, name);
    Err             err = {0};
    const FakeData *any = train ? train : val;
    DataMeta        m   = {.tokenizer   = any->tokenizer,
                           .kind        = "bpe",
                           .vocab_size  = any->vocab_size,
                           .end_token   = 0,
                           .token_bytes = any->token_bytes};
    if (train) m.split[0] = fake_split(&p, "train", train);
    if (val) m.split[1] = fake_split(&p, "val", val);
    must(data_meta_write(&m, p.s, &err), &err);
    data_meta_free(&m);
    return p;
}
