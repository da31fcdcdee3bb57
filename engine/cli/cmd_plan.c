// cmd_plan.c -- `lathe plan`: parameters, memory by part and FLOPs of a configuration, without taking
// the memory. The code that measures is the code that trains.
//
// SPDX-License-Identifier: MIT
#include "engine/cli/cli.h"
#include "engine/train/train_setup.h"
#include "kernels/cpu/cpu.h"

#include <stdio.h>

static Status plan_text(const Options *o, Buf *out, Err *err)
{
    Device    device;
    Ops       ops;
    CpuChoice cpu;
    device_cpu_init(&device, 0);
    ops_init(&ops);
    TRY(cpu_open(&ops, "auto", &cpu, err));
    enum { GPT2_VOCABULARY = 50257 };
    ModelConfig c;
    TrainSetup  s;
    TrainPlan   p;
    TRY(train_setup_model(&c, o, o->vocab_size ? o->vocab_size : GPT2_VOCABULARY, err));
    TRY(train_setup(&s, &c, o, &device, 1, err));
    TRY(train_plan(&p, &s, &ops, &device, err));
    return o->json ? train_setup_json(&s, &p, out, err) : train_setup_text(&s, &p, out, err);
}

Status cmd_plan(const Options *o, Err *err)
{
    Buf          out = {0};
    const Status st  = plan_text(o, &out, err);
    if (st == ERR_NONE) fputs(out.data, stdout);
    buf_free(&out);
    return st;
}
