// cudnn_attention.h -- attention by NVIDIA's cuDNN 9: implementation "cudnn" of attention_fwd and
// attention_bwd.
//
// It serves only when it is asked for by name (--ops.attention_fwd=cudnn,
// --ops.attention_bwd=cudnn): it is there to compare with. The library is opened when a device
// first asks; without it the row says why. cudnn_attention.c implements this header; where cudnn.h
// was missing when lathe was built, cudnn_none.c does, which knows no such implementation.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stddef.h>
#include "kernels/ops.h"

// Of one device: the library's handle and the plans of the shapes seen. Not for several threads.
typedef struct Cudnn Cudnn;

LT_C_BEGIN
// "cuDNN 9.19.0", or why there is none. Opens the library, but touches no GPU.
void cudnn_attention_describe(char *out, size_t size);
// Enters "cudnn"; before the other implementations, so that it comes last.
void cudnn_attention_register(Ops *ops);
void cudnn_attention_close(Cudnn *c); // NULL is fine
LT_C_END
