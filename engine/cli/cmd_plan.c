// cmd_plan.c -- `lathe plan`: parameters, memory by part and FLOPs of a configuration, without
// taking the memory. The code that measures is the code that trains.
//
// SPDX-License-Identifier: MIT
#include "engine/cli/cli.h"
#include "engine/model/backend.h"
#include "engine/train/train_setup.h"

#include <stdio.h>

static Status plan_text(const Options *o, Buf *out, Err *err)
{
    Backend b;
    TRY(backend_open(&b, "auto", "auto", 0, err));
    enum { GPT2_VOCABULARY = 50257 };
    ModelConfig c;
    TrainSetup s;
    TrainPlan p;
    TRY(train_setup_model(&c, o, o->vocab_size ? o->vocab_size : GPT2_VOCABULARY, err));
    TRY(train_setup(&s, &c, o, &b.device, 1, err));
    TRY(train_plan(&p, &s, &b.ops, &b.device, err));
    return o->json ? train_setup_json(&s, &p, out, err) : train_setup_text(&s, &p, out, err);
}

Status cmd_plan(const Options *o, Err *err)
{
    Buf out = {0};
    const Status st = plan_text(o, &out, err);
    if (st == ERR_NONE) fputs(out.data, stdout);
    buf_free(&out);
    return st;
}
