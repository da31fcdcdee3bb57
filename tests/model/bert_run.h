// bert_run.h -- an encoder with golden weights, and its batch laid out in three ways.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "checkpoints/safetensors.h"
#include "engine/model/model.h"
#include "kernels/cpu/cpu.h"

enum { BERT_ROWS = 512, BERT_SEQS = 3 };

typedef enum BertLayout {
    LAYOUT_PADDED = 0, // a sequence a sample, padding behind it
    LAYOUT_PACKED,     // the first and the last sequence in one sample, the second in another
    LAYOUT_ROW,        // all of them in one sample, without padding
    LAYOUTS
} BertLayout;

typedef struct BertBatch {
    ModelBatch b;
    int64_t counted, counted_seqs;
    int64_t first[BERT_SEQS];   // row of each sequence's first token
    int64_t seq[BERT_SEQS];     // its place in seq_row
    int32_t pick_of[BERT_ROWS]; // row -> its place in pick_row, -1: none
    int32_t input[BERT_ROWS], type[BERT_ROWS], position[BERT_ROWS], lo[BERT_ROWS], hi[BERT_ROWS];
    int32_t pick_row[BERT_ROWS], pick_target[BERT_ROWS];
    int32_t seq_row[2 * BERT_SEQS], seq_target[2 * BERT_SEQS], span[2 * BERT_SEQS];
    int64_t sample[BERT_SEQS];
} BertBatch;

typedef struct BertSetup {
    ModelHead head;
    const char *isa; // "ref": the reference kernels only
    const char *precision;
    int64_t head_rows; // 0: all
    double dropout;
    bool recompute, eval_only, untied;
    Fp8Recipe fp8;
} BertSetup;

typedef struct BertRun {
    BertSetup how;
    Device device;
    Ops ops;
    OpCtx cx;
    ParamSet params;
    float *w, *grads; // [total]
    void *cast;       // [total] as the model computes with them
    Fp8State fp8;
    Model m;
    void *run_mem, *step_mem;
    size_t step_bytes;
} BertRun;

typedef struct Golden {
    SafeFile f;
    int64_t L, H, C, F, P, V, labels, T; // T of the padded batch
    int32_t length[BERT_SEQS];
} Golden;

void must(Status st, const Err *err);
void golden_open(Golden *g);
bool golden_has(const Golden *g, ModelHead head); // some files have one head only
const char *head_name(ModelHead head);
// The tensor "HEAD.name"; head HEAD_NONE: "name".
const SafeEntry *golden_entry(const Golden *g, ModelHead head, const char *name);
float golden_float(const SafeEntry *e, int64_t i);
void bert_batch(BertBatch *d, const Golden *g, ModelHead head, BertLayout layout);
void bert_open(BertRun *r, const Golden *g, const BertSetup *how);
void bert_close(BertRun *r);
void bert_cast(BertRun *r); // after a change of w
// Mean losses, with gradients (in `parts` micro-batches of whole samples) or without.
double bert_loss_of(BertRun *r, const BertBatch *d);
double bert_gradients_of(BertRun *r, const BertBatch *d, int parts);
int all_isas(const char *names[9]); // ref first
