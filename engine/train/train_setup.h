// train_setup.h -- from options to a TrainSetup, and the text that says what a run will be.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/buf.h"
#include "engine/train/trainer.h"

LT_C_BEGIN
// The model the options describe, for a vocabulary of `vocab_size` ids.
LT_MUST_CHECK Status train_setup_model(ModelConfig *c, const Options *o, int64_t vocab_size,
                                       Err *err);
// Options that the user gave and that a model read from a folder contradicts: all at once.
LT_MUST_CHECK Status train_setup_agree(const ModelConfig *c, const Options *o, const char *folder,
                                       Err *err);
// What a model read from a folder, and not the user, decided goes into the options: the run's
// config says what the run is, and a later start needs no folder to know it.
LT_MUST_CHECK Status train_setup_record(const TrainSetup *s, Options *o, Err *err);
// Everything else. `precision` "auto" is fp32 on a host device, bf16 elsewhere.
LT_MUST_CHECK Status train_setup(TrainSetup *s, const ModelConfig *c, const Options *o,
                                 const Device *device, int ranks, Err *err);
// Parameters, tokens a step, memory by part, FLOPs: one fact a line, ends with a newline.
LT_MUST_CHECK Status train_setup_text(const TrainSetup *s, const TrainPlan *p, Buf *out, Err *err);
// "312.4 G" in front of FLOP: powers of ten with the prefixes of units, where progress_count has
// words.
void train_si(double n, char out[32]);
// The same as one JSON object.
LT_MUST_CHECK Status train_setup_json(const TrainSetup *s, const TrainPlan *p, Buf *out, Err *err);
LT_C_END
