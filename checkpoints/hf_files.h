// hf_files.h -- the tensors of a model folder, whichever files they lie in.
//
// model.safetensors, or model.safetensors.index.json and its shards. Names are looked up without
// their prefixes. hf_files_match is where a folder and a config meet: every complaint about a
// missing, an extra or a misshapen tensor comes from there.
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
// found[i] = the entry of slot[i]; NULL only for a bias when c->bias is false.
LT_MUST_CHECK Status hf_files_match(const HfFiles *f, const HfConfig *c, const HfSlot *slot, int n,
                                    const HfEntry **found, Err *err);
LT_C_END
