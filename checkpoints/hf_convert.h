// hf_convert.h -- one model folder into another: element type, shards, tying, vocabulary rows.
//
// The result is a plain Hugging Face folder (no trainer state), written beside its final name and
// renamed when it is whole. Tensors stream through: memory does not grow with the model.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "checkpoints/hf.h"
#include "engine/base/file.h"

enum { HF_AS_IS = -1 };

typedef struct HfConvert {
    char from[PATH_CAP];  // a folder with config.json
    char to[PATH_CAP];    // must not exist, or be an empty folder
    int dtype;            // DTYPE_F32, DTYPE_BF16, DTYPE_F16; HF_AS_IS
    int tie;              // 1: drop a head that equals the embedding; 0: write one; HF_AS_IS
    int64_t vocab_size;   // rows of the embedding: more are zeros, fewer are cut; 0: as they are
    OnProgress on;        // hears bytes written, of how many
    uint64_t shard_bytes; // tensors in a file, at most (one tensor may be more); 0: one file
} HfConvert;

typedef struct HfConverted { // what was written
    HfConfig config;
    HfHeads left_out; // .ignored: heads of the source that its architecture does not have
    int files, tensors;
    int64_t parameters;
    uint64_t bytes;
} HfConverted;

LT_C_BEGIN
LT_MUST_CHECK Status hf_convert(const HfConvert *h, HfConverted *out, Err *err);
LT_C_END
