// hf_match.h -- where a folder and a model meet: which tensor of the files fills which slot.
//
// Every complaint about a missing, an extra or a misshapen tensor comes from here.
//
// A BERT's heads are met with more patience than its trunk. What the file has beyond the model is
// ignored and named: real checkpoints often carry the heads they were trained with. With `file`
// given, the model may also have heads that the file lacks (its trunk goes on under another task);
// their slots stay empty. Half a head is an error all the same.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "checkpoints/hf_files.h"

typedef struct HfMatch {
    const HfConfig *model; // borrowed
    HfSlot *slot;
    const HfEntry **found; // NULL: a bias when the model has none; a head that is lacking
    int n;
    bool lacks[HF_PARTS];
    HfHeads heads;
} HfMatch;

LT_C_BEGIN
// The slots of a model; nothing is found yet.
LT_MUST_CHECK Status hf_match_begin(HfMatch *m, const HfConfig *model, Err *err);
// file: the folder's own config.json where its heads may be others than the model's; NULL: all
// tensors of the model must be there.
LT_MUST_CHECK Status hf_match_files(HfMatch *m, const HfFiles *f, const HfConfig *file, Err *err);
void hf_match_end(HfMatch *m); // also of a zeroed one
LT_C_END
