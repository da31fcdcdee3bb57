// fp8.h -- training in FP8: the recipe, and everything it must remember from step to step.
//
// The four linear layers of a block compute their three products with FP8 operands (12 products a
// layer); everything else stays as in bf16. What that means for one layer: linear.h. What an FP8
// tensor is, its scale, what is counted: kernels/ops/fp8.h. This page: whose scales, and when.
//
// A slot is one FP8 tensor: input, weight or output gradient of one linear layer of one block.
// Its number is a function of the model alone, whatever runs in FP8, so that arrays of slots mean
// the same on every rank and in every checkpoint.
//
// Delayed scaling (Micikevicius et al. 2022, section 3; as Transformer Engine does it): a tensor is
// scaled by what its largest element was in earlier steps, so that the op that makes it can write
// FP8 at once. Current scaling: by its own largest element, which costs a pass over it.
//
//   when                what
//   a micro-batch       every FP8 tensor raises its slot's amax (never lowers it: the largest of
//                       all micro-batches counts)
//   after the last one  amax goes into the slot's history, the next scale comes out of it
//                       (fp8_update.h). A step that is skipped leaves both
//   the update          writes the new weights in FP8, too, in both layouts, with the next step's
//                       scales, and finds their amax (adamw.h)
//   first step ever     there is no history: current scaling. With a scale of 1, gradients of 1e-6
//                       would all be 0 (the least E5M2 is 1.5e-5)
//   recompute           the second forward pass uses the scales of the first, and counts nothing
//   evaluation          in bf16; nothing here is touched
//
// So the amax of weights is of the step to come, and waits: a skipped step changes no weight, and
// what waits for it waits for the next one (`held`). Where no update has written them, a pass makes
// the FP8 weights in front of a step's first micro-batch: at the start, after loading, and always
// with current scaling and with LAMB. Bits, scales and amax are the same either way.
//
// Delayed scales stay the same through a step, so its micro-batches see one scale, and how a step
// is cut changes rounding only in sums. Current scales are of the tensor at hand: with another
// batch_size they are others.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/arena.h"
#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/model/model_config.h"
#include "engine/model/params.h"
#include "kernels/ops.h"

// Input, weight (both E4M3), gradient of the output (E5M2).
typedef enum Fp8Kind { FP8_X = 0, FP8_W, FP8_DY, FP8_KINDS } Fp8Kind;

enum { FP8_SLOTS_A_LAYER = LINEAR_COUNT * FP8_KINDS, FP8_SIDE = 16 };

typedef struct Fp8Recipe {
    bool current;
    int64_t history; // steps that a delayed scale looks back; 0 when current
    Fp8Amax amax;    // what it makes of them
    int margin;      // powers of two between the largest element and the format's largest number
    int64_t bf16_first, bf16_last; // so many layers at each end stay in bf16
} Fp8Recipe;

typedef struct Fp8State {
    Fp8Recipe recipe;
    int64_t n_layer, C, F;
    int64_t first, end; // these layers run in FP8: [first, end)
    int64_t n;          // slots, of all layers
    // device memory, run arena
    Fp8Scale *scale;      // [n]
    float *amax;          // [n]
    Fp8Count *count;      // [n]          since they were last reported
    float *history;       // [n,history]  NULL when current
    int32_t *at;          // [n]          NULL when current
    int32_t *held;        // [n]          1: of weights
    float *last_amax;     // [n]     of the newest step, and the scales it had: for reports
    Fp8Scale *last_scale; // [n]
    char *weights;        // FP8, both layouts; see fp8_weight
    // host
    bool started; // a step was done: every slot's scale comes from numbers
    bool cast;    // `weights` are the model's, in the scales that are in force
    bool apart;   // no op writes FP8 beside its result, fp8_quantize does it all (for tests)
} Fp8State;

typedef struct Fp8Weight { // W [out,in] and its transpose
    void *q, *qt;
} Fp8Weight;

LT_C_BEGIN
int64_t fp8_slot(int64_t layer, LinearId linear, Fp8Kind kind);
DType fp8_dtype(Fp8Kind kind); // E4M3 or E5M2
int64_t fp8_ld(int64_t n);     // row length of a transpose of n rows: n up to FP8_SIDE
const char *fp8_linear_name(LinearId linear); // "qkv"
const char *fp8_kind_name(Fp8Kind kind);      // "x"

// Which layers run in FP8: [*first, *end). No layer does when a side of its weights is no multiple
// of FP8_SIDE: the products want rows of that many bytes.
void fp8_layers(const Fp8Recipe *r, const ModelConfig *c, int64_t *first, int64_t *end);
// What runs in FP8 and what does not, and why: lines of `lathe plan` and of a run's start.
LT_MUST_CHECK Status fp8_text(const Fp8Recipe *r, const ModelConfig *c, Buf *out, Err *err);
// The same as an object: {"layers":[1,2],"linear":["qkv",..],"bf16":[{"layer":0,"why":".."},..],..}
LT_MUST_CHECK Status fp8_json(const Fp8Recipe *r, const ModelConfig *c, Buf *out, Err *err);
// Lay everything into `run`.
void fp8_build(Fp8State *s, const Fp8Recipe *r, const ModelConfig *c, Arena *run);
// The state of a run that begins.
LT_MUST_CHECK Status fp8_reset(Fp8State *s, Device *d, Err *err);
bool fp8_runs(const Fp8State *s, int64_t layer); // in FP8? NULL: no
// Does what is quantised now get its scale from itself?
bool fp8_current(const Fp8State *s);
Fp8Weight fp8_weight(const Fp8State *s, int64_t layer, LinearId linear);
// What an op is told of a slot; the caller adds where q and its transpose go. `counts`: amax and
// count, too.
Fp8Out fp8_out(const Fp8State *s, int64_t slot, bool counts);
// Where FP8 copies of a layer's weight [out,in] go, and what is seen of them. *rows: out.
Fp8Out fp8_weight_out(const Fp8State *s, int64_t layer, LinearId linear, int64_t *rows);
// Does the op that updates weights write them in FP8?
bool fp8_written_by_update(const Fp8State *s);
// All weights to FP8, unless they are. Before the first micro-batch of a step.
LT_MUST_CHECK Status fp8_cast_weights(Fp8State *s, OpCtx *cx, const Weights *w, Err *err);
// After the last one, before weights are updated. *skip (device) != 0: the step is void. Who then
// writes the weights in FP8 sets s->cast.
LT_MUST_CHECK Status fp8_end_step(Fp8State *s, OpCtx *cx, const int32_t *skip, Err *err);
LT_C_END
