// run_state.h -- what a run must remember besides tensors (trainer.json), and saving both.
//
// A save takes a snapshot of weights and moments (with save_async) and lets the checkpoint writer
// write it beside training; the next save waits for the one before.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "checkpoints/checkpoint.h"
#include "engine/model/fp8_saved.h"
#include "engine/train/trainer.h"

typedef struct RunFp8 { // of the tensors that fp8_saved.h describes
    int64_t slots;      // 0: the run is not in FP8
    int64_t history;
    bool started;
} RunFp8;

typedef struct RunState {
    int64_t step;           // optimizer steps done
    int64_t samples;        // position of the training stream, over all ranks
    int64_t skipped;        // steps skipped because a number was not finite
    int64_t tokens;         // tokens of all steps done
    int64_t sequences;      // BERT: of all steps done
    int64_t eval_sequences; // BERT: sequences at the newest evaluation
    double accuracy;        // BERT: of masked tokens, in the newest evaluation; NaN: none
    int64_t last_eval;      // step of the newest evaluation, -1: none
    int64_t best_step;      // -1: none
    double best_loss;       // infinity: none
    double best_score;      // of a fine-tuning: what the best is chosen by; NaN: none
    double seconds;         // spent training
    int64_t data_tokens;    // of the training split; samples counts in data of this length
    LossScale scale;        // of fp16; else scale 1, and it is not saved
    RunFp8 fp8;
} RunState;

typedef struct RunSaver {
    Trainer *trainer; // borrowed
    CkptWriter *writer;
    CkptSave job;            // what the writer is at
    Tensor *model, *moments; // moments: and what else trainer.safetensors has
    int n_moments;
    Fp8Saved fp8;
    Buf json;
    int64_t last_step; // of the newest save that was started, -1: none
} RunSaver;

LT_C_BEGIN
RunState run_state_new(void);
// trainer.json: its text (replaces *out), and reading it. `path` is for messages; a file that was
// saved with another precision is ERR_USAGE.
LT_MUST_CHECK Status run_state_text(const RunState *st, uint64_t seed, const char *precision,
                                    Buf *out, Err *err);
LT_MUST_CHECK Status run_state_parse(RunState *st, const char *text, size_t bytes,
                                     const char *precision, const char *path, Err *err);

// run_dir, tokenizer_dir ("" for none): copied. keep, keep_every: retention.
LT_MUST_CHECK Status run_saver_open(RunSaver *s, Trainer *t, const char *run_dir,
                                    const char *tokenizer_dir, int64_t end_token, int64_t keep,
                                    int64_t keep_every, Err *err);
// Start a save of the current weights and moments. With a snapshot it goes on beside the caller,
// and an error of the save before comes out here.
LT_MUST_CHECK Status run_saver_save(RunSaver *s, const RunState *state, bool best, Err *err);
LT_MUST_CHECK Status run_saver_wait(RunSaver *s, Err *err);
void run_saver_close(RunSaver *s); // also of a zeroed one

// Weights, moments and state from a step folder.
LT_MUST_CHECK Status run_state_load(RunState *state, Trainer *t, const char *step_dir, Err *err);
LT_C_END
