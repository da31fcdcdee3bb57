// hf_slots.h -- the tensors an architecture has, by both names: the table behind hf.h.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "checkpoints/hf.h"

enum { HF_NAME_CAP = 64 };

typedef struct HfSlot {
    char engine[HF_NAME_CAP]; // "block.0.attn.qkv.weight"
    char name[HF_NAME_CAP];   // as in the file, prefixes stripped: "h.0.attn.c_attn.weight"
    int rank;
    int64_t shape[2]; // in the engine's orientation
    bool transposed;  // in the file
    bool is_bias;
    bool on_body; // written with "transformer." in front
} HfSlot;

LT_C_BEGIN
// Every tensor of the model `c` describes, biases always, the head only when it is not tied. In the
// order files are written. The caller frees *out with mem_free.
LT_MUST_CHECK Status hf_slots_make(const HfConfig *c, HfSlot **out, int *n, Err *err);
// A buffer that old files carry and nobody needs: h.N.attn.bias, h.N.attn.masked_bias.
bool hf_slots_ignored(const char *name);
// Behind transformer., module. and _orig_mod., in any combination.
const char *hf_slots_strip(const char *name);
LT_C_END
