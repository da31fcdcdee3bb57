// checkpoint.h -- a run's folder of checkpoints: atomic saves, checksums, retention, recovery.
//
//   RUN/checkpoints/best                    one line: the name of a step folder
//   RUN/checkpoints/step-00001000/
//       config.json  model.safetensors  tokenizer.json ...   loads in transformers as it is
//       trainer.safetensors  trainer.json                    what resuming needs besides
//       MANIFEST                                             size and CRC-32 of every file, last
//
// A save writes into RUN/checkpoints/.tmp-step-..., syncs every file and the folder, writes
// MANIFEST, and renames. A folder without a MANIFEST that matches is not a checkpoint.
//
// MANIFEST is text: "lathe-manifest 1", then "CRC32HEX SIZE NAME" a line, then "end".
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "checkpoints/hf.h"
#include "checkpoints/tensor.h"
#include "engine/base/err.h"
#include "engine/base/file.h"

typedef struct CkptSave { // everything borrowed until the save has ended
    char run_dir[PATH_CAP];
    int64_t step;
    HfConfig config;
    DType model_dtype;   // of model.safetensors
    const Tensor *model; // engine names
    int n_model;
    const Tensor *trainer; // names as given, dtypes as they are
    int n_trainer;
    const char *trainer_json;     // text of trainer.json
    char tokenizer_dir[PATH_CAP]; // its files are copied in; "" for none
    bool best;                    // point `best` at this step once it is complete
    int64_t keep;                 // newest complete steps to keep; 0 = all
    int64_t keep_every;           // and every step divisible by this; 0 = none
    const FileLock *lock;         // on RUN/lock: where that is another file, RUN is another's and
                                  // stays as it is; NULL: none
} CkptSave;

typedef struct CkptWriter CkptWriter; // one background save at a time

LT_C_BEGIN
// Write one checkpoint, then prune. A step that exists already and is complete is left alone.
LT_MUST_CHECK Status ckpt_save(const CkptSave *s, Err *err);

// The same beside the caller. `start` waits for the save before it and returns its error; what `s`
// points to must stay as it is until `wait` or the next `start` has returned.
LT_MUST_CHECK Status ckpt_writer_open(CkptWriter **w, Err *err);
LT_MUST_CHECK Status ckpt_writer_start(CkptWriter *w, const CkptSave *s, Err *err);
LT_MUST_CHECK Status ckpt_writer_wait(CkptWriter *w, Err *err); // the error of the last save
void ckpt_writer_close(CkptWriter *w);                          // waits; NULL is fine

// Resolve what a user may name: a run folder (`which` NULL: its newest complete step; "best"; or a
// step folder's name), a step folder, or any Hugging Face folder. Damaged steps are skipped with a
// warning that names the damage. *step is -1 for a foreign folder. ERR_IO when there is nothing.
LT_MUST_CHECK Status ckpt_find(const char *path, const char *which, char out_dir[PATH_CAP],
                               int64_t *step, Err *err);
// Newest complete step of a run; *found false when there is none (not an error).
LT_MUST_CHECK Status ckpt_newest(const char *run_dir, char out_dir[PATH_CAP], int64_t *step,
                                 bool *found, Err *err);
// Is every file of MANIFEST there, of its size, and (full) of its checksum? ERR_FORMAT names the
// file.
LT_MUST_CHECK Status ckpt_verify(const char *step_dir, bool full, Err *err);
// The same; `on` hears for how many bytes checksums were computed, and of how many.
LT_MUST_CHECK Status ckpt_verify_on(const char *step_dir, bool full, const OnProgress *on,
                                    Err *err);

// trainer.json (appended to *json) and trainer.safetensors: every tensor of `t` must be there with
// that dtype and shape.
LT_MUST_CHECK Status ckpt_load_trainer(const char *step_dir, Buf *json, Tensor *t, int n, Err *err);
// Does the folder have trainer state?
bool ckpt_has_trainer(const char *step_dir);
// A run goes on from an older step: the steps behind `step` belong to a past that is given up. They
// are renamed to aside-step-..., and nothing resumes from them; *n counts them. With keep > 0, the
// newest `keep` and the best of them stay, and those of earlier times go. `best` is removed when it
// names a step behind `step`.
LT_MUST_CHECK Status ckpt_set_aside(const char *run_dir, int64_t step, int64_t keep, int *n,
                                    Err *err);
// A run goes on from a step at which `step` (-1: none) was the best: point `best` at it, if it is
// whole. (It is not when a kill came between a save and its mark, or when a newer best was set
// aside.)
LT_MUST_CHECK Status ckpt_restore_best(const char *run_dir, int64_t step, Err *err);
// Make RUN/checkpoints, and see that something can be made in it.
LT_MUST_CHECK Status ckpt_prepare(const char *run_dir, Err *err);
// Remove leftovers of interrupted saves (.tmp-*). Called at the start of a run, under its lock.
LT_MUST_CHECK Status ckpt_clean(const char *run_dir, Err *err);
LT_C_END
