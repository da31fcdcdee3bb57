// finetune.h -- a BERT learns to label or to answer: what is different from learning text.
//
// The model is the trunk of a folder with a new output layer (or the folder's own, when it has the
// same task and labels); the data are two files of labelled examples, in memory; the best
// checkpoint is the one with the best score: accuracy of classes, F1 of tags, exact match of
// answers, the loss where scores are equal. Everything else is a run like any other.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "checkpoints/hf.h"
#include "engine/base/file.h"
#include "engine/data/verdict.h"
#include "engine/train/trainer.h"

typedef struct Finetune { // zeroed: the run is none
    bool on;
    ExampleTask task;
    char dir[PATH_CAP]; // the model folder it starts from, or goes on from
    Tokenizer *tokenizer;
    Examples train, val;              // val: of a file of its own
    ExampleView train_view, val_view; // val_view.of NULL: none
    HfHeads heads;                    // what the folder lacked, and what was too much
} Finetune;

LT_C_BEGIN
bool finetune_asked(const Options *o);
// Reads the tokenizer and the examples. hf: the config of `dir`; resumed: of this run, its labels
// count. Options that nobody gave get the task's values, block_size what the examples need.
LT_MUST_CHECK Status finetune_open(Finetune *f, Options *o, const HfConfig *hf, const char *dir,
                                   bool resumed, Err *err);
void finetune_close(Finetune *f); // also of a zeroed one
// The model of the folder gets the task's output layer; its config the labels.
void finetune_model(const Finetune *f, ModelConfig *c);
void finetune_config(const Finetune *f, HfConfig *hf);
// What there is to learn from, in place of a data folder's facts.
void finetune_facts(const Finetune *f, StreamInfo *out);
// Loss and score of up to `batches` batches of val, which starts at its beginning; 0: of all.
LT_MUST_CHECK Status finetune_eval(const Finetune *f, Trainer *t, Stream *val, int64_t batches,
                                   TrainEval *out, Score *score, Err *err);
LT_C_END
