// cmd_plan.c -- `lathe plan`: parameters, memory by part and FLOPs of a configuration, without
// taking the memory. The code that measures is the code that trains.
//
// SPDX-License-Identifier: MIT
#include "engine/cli/cli.h"
#include "engine/model/backend.h"
#include "engine/base/log.h"
#include "engine/data/stream.h"
#include "engine/train/train_setup.h"

#include <stdio.h>
#include <string.h>

// As it is given, as the data says, or GPT-2's or BERT's.
static Status vocabulary(const Options *o, int64_t *out, Err *err)
{
    enum { GPT2_VOCABULARY = 50257, BERT_VOCABULARY = 30522 };
    *out = o->vocab_size;
    if (*out == 0 && o->data[0]) {
        const StreamOptions so = {.data = o->data, .ranks = 1};
        StreamInfo info;
        TRY(stream_facts(&info, &so, err));
        *out = info.vocab_size;
    }
    if (*out) return ERR_NONE;
    const bool bert = strcmp(o->architecture, "bert") == 0;
    const char *const family = bert ? "bert" : "gpt2";
    *out = bert ? BERT_VOCABULARY : GPT2_VOCABULARY;
    if (!options_given(o, OPT_preset) || strncmp(o->preset, family, strlen(family)) != 0)
        log_warn("the vocabulary is taken for %s, %d; give --vocab_size or --data",
                 bert ? "bert-base-uncased's" : "GPT-2's", (int)*out);
    return ERR_NONE;
}

// What data for BERT would have in a sample.
static void picks(TrainSetup *s, const Options *o)
{
    if (s->model.head == HEAD_LM) return;
    const StreamOptions so = {.content = STREAM_PAIRS,
                              .block_size = s->block_size,
                              .pack = o->data_pack,
                              .mask_prob = o->mask_prob,
                              .max_predictions = o->max_predictions};
    s->picks = stream_picks(&so);
    s->seqs = o->data_pack;
}

static Status plan_text(const Options *o, Backend *b, Buf *out, Err *err)
{
    int64_t vocab = 0;
    TRY(vocabulary(o, &vocab, err));
    ModelConfig c;
    TrainSetup s;
    TrainPlan p;
    TRY(train_setup_model(&c, o, vocab, err));
    TRY(train_setup(&s, &c, o, &b->device, 1, err));
    picks(&s, o);
    TRY(train_plan(&p, &s, &b->ops, &b->device, err));
    return o->json ? train_setup_json(&s, &p, out, err) : train_setup_text(&s, &p, out, err);
}

Status cmd_plan(const Options *o, Err *err)
{
    Buf out = {0};
    Backend b;
    TRY(backend_open(&b, "auto", "auto", 0, err));
    const Status st = plan_text(o, &b, &out, err);
    backend_close(&b);
    if (st == ERR_NONE) fputs(out.data, stdout);
    buf_free(&out);
    return st;
}
