// hf_slots.h -- the tensors an architecture has, by both names: the table behind hf.h.
//
// A slot is one tensor of the file. Mostly it is one tensor of the engine, too; but
//   - query, key and value of BERT are three slots, the engine's qkv is one tensor: `part` of
//     `parts` says which rows of it a slot is;
//   - an untied BERT has the bias of its output layer in the file twice: transformers 4 keeps both
//     equal, transformers 5 uses cls.predictions.decoder.bias alone. The other one is a `twin`: it
//     is written with the same numbers, and read only in the place of the first.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "checkpoints/hf.h"

enum { HF_NAME_CAP = 64 };

// A trunk, and what may stand on it. Heads are there whole or not at all.
typedef enum HfPart {
    HF_TRUNK = 0,
    HF_POOLER,
    HF_PREDICTIONS, // masked tokens, with the decoder
    HF_NEXT,        // next sentence
    HF_CLASSIFIER,  // of sequences or tokens
    HF_QA,
    HF_PARTS
} HfPart;

typedef struct HfSlot {
    char engine[HF_NAME_CAP]; // "block.0.attn.qkv.weight"
    char name[HF_NAME_CAP];   // as in the file, prefixes stripped: "h.0.attn.c_attn.weight"
    char other[HF_NAME_CAP];  // another name files have for it, or ""
    const char *prefix;       // written in front of name: "transformer.", "bert." or ""
    int rank;
    int64_t shape[2]; // of the slot, in the engine's orientation
    int part, parts;  // rows [part, part+1) * shape[0] of the engine's tensor of parts * shape[0]
    HfPart of;
    bool transposed; // in the file
    bool is_bias;
    bool is_output; // makes the logits; the embedding does when tied, without a slot
    bool twin;
} HfSlot;

LT_C_BEGIN
// Every tensor of the model `c` describes, biases always, the output layer only when it is not
// tied. In the order files are written. The caller frees *out with mem_free.
LT_MUST_CHECK Status hf_slots_make(const HfConfig *c, HfSlot **out, int *n, Err *err);
// Just another part or copy of a tensor of the engine that another slot stands for?
bool hf_slots_again(const HfSlot *s);
// The names, without prefix, of the token embedding and of the layer that makes logits (NULL: the
// architecture has none).
const char *hf_slots_embedding(const HfConfig *c);
const char *hf_slots_output(const HfConfig *c);
const char *hf_slots_output_text(const HfConfig *c); // "tied", "untied", "no output layer"
// The part that a tensor of a BERT's file belongs to, by its name without prefix; HF_PARTS: none.
HfPart hf_slots_part(const char *name);
const char *hf_slots_part_name(HfPart p); // "cls.predictions"
// A buffer that old files carry and nobody needs: h.N.attn.bias, embeddings.position_ids.
bool hf_slots_ignored(const char *name);
// Behind transformer., bert., module. and _orig_mod., in any combination.
const char *hf_slots_strip(const char *name);
LT_C_END
