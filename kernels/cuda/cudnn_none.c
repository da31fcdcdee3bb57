// cudnn_none.c -- cudnn_attention.h in a build without cudnn.h.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cudnn_attention.h"

#include <stdio.h>

void cudnn_attention_describe(char *out, size_t size)
{
    snprintf(out, size, "no cuDNN: this build was made without cudnn.h");
}

void cudnn_attention_register(Ops *ops)
{
    (void)ops;
}

void cudnn_attention_close(Cudnn *c)
{
    (void)c;
}
