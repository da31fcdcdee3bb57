// hf_files.h -- the tensors of a model folder, whichever files they lie in.
//
// model.safetensors, or model.safetensors.index.json and its shards. Names are looked up without
// their prefixes.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "checkpoints/hf_slots.h"
#include "checkpoints/safetensors.h"
#include "checkpoints/strip.h"

typedef struct HfEntry {
    const char *name; // prefixes stripped; part of the SafeEntry's name
    const SafeEntry *e;
    const SafeFile *file;
} HfEntry;

typedef struct HfFiles {
    char dir[PATH_CAP];
    SafeFile *file;
    int n_file;
    HfEntry *entry; // sorted by name
    int n;
    bool sharded;
} HfFiles;

LT_C_BEGIN
LT_MUST_CHECK Status hf_files_open(HfFiles *f, const char *dir, Err *err);
void hf_files_close(HfFiles *f);                                  // also of a zeroed one
const HfEntry *hf_files_find(const HfFiles *f, const char *name); // NULL: not there
LT_C_END
