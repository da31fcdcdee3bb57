// trainer_fixture.h -- what the tests of trainer.h share: a small training, opened.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "engine/model/backend.h"
#include "engine/train/trainer.h"

LT_INLINE void must(Status st, const Err *err)
{
    if (st != ERR_NONE) fail_msg("%s", err->text);
}

// AdamW at 1e-3, all the way. `loss_scale` is fp16's.
LT_INLINE TrainSetup trainer_fixture_setup(const ModelConfig *c, const char *precision,
                                           double dropout, float loss_scale)
{
    TrainSetup s = {.model = *c,
                    .beta1 = 0.9,
                    .beta2 = 0.95,
                    .eps = 1e-8,
                    .weight_decay = 0.1,
                    .grad_clip = 1.0,
                    .seed = 5};
    s.model.dropout_embed = s.model.dropout_attention = s.model.dropout_residual = dropout;
    Err err;
    must(precision_from_name(&s.prec, precision, "f32", &err), &err);
    if (s.prec.act == DTYPE_F16) {
        s.loss_scale = loss_scale;
        s.rule = (LossScaleRule){.growth = 2, .backoff = 0.5f, .interval = 2000, .hysteresis = 1};
    }
    must(schedule_init(&s.schedule, "constant", 1e-3, 0, 0, 10, 0, &err), &err);
    return s;
}

// Two threads of the CPU, initial weights.
LT_INLINE void open_trainer(Trainer *t, Backend *b, const TrainSetup *s)
{
    Err err;
    must(backend_open(b, "cpu", "auto", 2, &err), &err);
    must(trainer_open(t, s, &b->ops, &b->device, &err), &err);
    must(trainer_init_weights(t, &err), &err);
}
