// cmd_train.c -- `lathe train`: see engine/train/run.h.
//
// SPDX-License-Identifier: MIT
#include "engine/cli/cli.h"
#include "engine/train/run.h"

Status cmd_train(Options *o, Err *err)
{
    return train_run(o, err);
}
