// fp8.c -- see fp8.h.
//
// SPDX-License-Identifier: MIT
#include "engine/model/fp8.h"
#include "engine/base/assert.h"
#include "engine/base/mem.h"

#include <inttypes.h>

// ---- slots ------------------------------------------------------------------------------------

int64_t fp8_slot(int64_t layer, LinearId linear, Fp8Kind kind)
{
    return (layer * LINEAR_COUNT + (int64_t)linear) * FP8_KINDS + (int64_t)kind;
}

DType fp8_dtype(Fp8Kind kind)
{
    return kind == FP8_DY ? DTYPE_E5M2 : DTYPE_E4M3;
}

int64_t fp8_ld(int64_t n)
{
    return LT_ROUND_UP(n, FP8_SIDE);
}

const char *fp8_linear_name(LinearId linear)
{
    static const char *const names[] = {"qkv", "proj", "fc", "mlp"};
    return names[linear];
}

const char *fp8_kind_name(Fp8Kind kind)
{
    static const char *const names[] = {"x", "w", "dy"};
    return names[kind];
}

// ---- which layers -----------------------------------------------------------------------------

static bool sides_fit(const ModelConfig *c)
{
    return c->n_embd % FP8_SIDE == 0 && c->n_inner % FP8_SIDE == 0;
}

void fp8_layers(const Fp8Recipe *r, const ModelConfig *c, int64_t *first, int64_t *end)
{
    *first = LT_MIN(r->bf16_first, c->n_layer);
    *end = sides_fit(c) ? LT_MAX(c->n_layer - r->bf16_last, *first) : *first;
}

// "layers 0-3" or "layer 3"
static Status range_text(int64_t from, int64_t end, Buf *out, Err *err)
{
    if (end - from == 1) return buf_printf(out, err, "layer %" PRId64, from);
    return buf_printf(out, err, "layers %" PRId64 "-%" PRId64, from, end - 1);
}

static Status bf16_text(int64_t from, int64_t end, const char *option, Buf *out, Err *err)
{
    if (from == end) return ERR_NONE;
    TRY(buf_printf(out, err, "               "));
    TRY(range_text(from, end, out, err));
    return buf_printf(out, err, " in bf16: %s = %" PRId64 "\n", option, end - from);
}

Status fp8_text(const Fp8Recipe *r, const ModelConfig *c, Buf *out, Err *err)
{
    int64_t first, end;
    fp8_layers(r, c, &first, &end);
    TRY(buf_printf(out, err, "  fp8          "));
    if (!sides_fit(c))
        return buf_printf(out, err,
                          "no layer: n_embd = %" PRId64 " and n_inner = %" PRId64
                          " are not both multiples of %d; all %" PRId64 " run in bf16\n",
                          c->n_embd, c->n_inner, FP8_SIDE, c->n_layer);
    if (first < end) {
        TRY(range_text(first, end, out, err));
        TRY(buf_printf(out, err, ": qkv, proj, fc, mlp, %" PRId64 " products a micro-batch\n",
                       (end - first) * FP8_SLOTS_A_LAYER));
    } else {
        TRY(buf_printf(out, err, "no layer\n"));
    }
    TRY(bf16_text(0, first, "fp8.bf16_first", out, err));
    TRY(bf16_text(end, c->n_layer, "fp8.bf16_last", out, err));
    TRY(buf_printf(out, err,
                   "               embeddings, norms, attention, output layer in bf16\n"));
    if (first == end) return ERR_NONE;
    if (r->current)
        return buf_printf(out, err, "               scales: current, margin %d\n", r->margin);
    return buf_printf(out, err,
                      "               scales: delayed, %s of %" PRId64
                      " steps, margin %d; the first step's are current\n",
                      r->amax == FP8_AMAX_MAX ? "largest" : "last", r->history, r->margin);
}

// Of a layer that runs in bf16.
static Status why_bf16(const Fp8Recipe *r, const ModelConfig *c, int64_t layer, Buf *out, Err *err)
{
    if (!sides_fit(c))
        return buf_printf(
            out, err, "n_embd = %" PRId64 " and n_inner = %" PRId64 " are not both multiples of %d",
            c->n_embd, c->n_inner, FP8_SIDE);
    const bool first = layer < r->bf16_first;
    return buf_printf(out, err, "fp8.bf16_%s = %" PRId64, first ? "first" : "last",
                      first ? r->bf16_first : r->bf16_last);
}

static Status layers_json(const Fp8Recipe *r, const ModelConfig *c, Buf *out, Err *err)
{
    int64_t first, end, n = 0;
    fp8_layers(r, c, &first, &end);
    TRY(buf_printf(out, err, "\"layers\":["));
    for (int64_t l = first; l < end; l++)
        TRY(buf_printf(out, err, "%s%" PRId64, l > first ? "," : "", l));
    TRY(buf_printf(out, err, "],\"bf16\":["));
    for (int64_t l = 0; l < c->n_layer; l++) {
        if (l >= first && l < end) continue;
        TRY(buf_printf(out, err, "%s{\"layer\":%" PRId64 ",\"why\":\"", n++ ? "," : "", l));
        TRY(why_bf16(r, c, l, out, err));
        TRY(buf_printf(out, err, "\"}"));
    }
    return buf_printf(out, err, "],\"products\":%" PRId64, (end - first) * FP8_SLOTS_A_LAYER);
}

Status fp8_json(const Fp8Recipe *r, const ModelConfig *c, Buf *out, Err *err)
{
    TRY(buf_printf(out, err, "{"));
    TRY(layers_json(r, c, out, err));
    TRY(buf_printf(out, err, ",\"linear\":["));
    for (int i = 0; i < LINEAR_COUNT; i++)
        TRY(buf_printf(out, err, "%s\"%s\"", i ? "," : "", fp8_linear_name((LinearId)i)));
    TRY(buf_printf(out, err, "],\"recipe\":\"%s\",\"margin\":%d",
                   r->current ? "current" : "delayed", r->margin));
    if (!r->current)
        TRY(buf_printf(out, err, ",\"history\":%" PRId64 ",\"amax\":\"%s\"", r->history,
                       r->amax == FP8_AMAX_MAX ? "max" : "most_recent"));
    return buf_printf(out, err, "}");
}

bool fp8_runs(const Fp8State *s, int64_t layer)
{
    return s && layer >= s->first && layer < s->end;
}

bool fp8_current(const Fp8State *s)
{
    return s->recipe.current || !s->started;
}

// ---- memory -----------------------------------------------------------------------------------

static size_t bytes_of(const Fp8State *s, LinearId linear) // of one layout
{
    const size_t C = (size_t)s->C, F = (size_t)s->F;
    const size_t is[] = {
        [LINEAR_QKV] = 3 * C * C, [LINEAR_PROJ] = C * C, [LINEAR_FC] = F * C, [LINEAR_MLP] = C * F};
    return is[linear];
}

static size_t bytes_before(const Fp8State *s, LinearId end)
{
    size_t sum = 0;
    for (int i = 0; i < (int)end; i++) sum += 2 * bytes_of(s, (LinearId)i);
    return sum;
}

Fp8Weight fp8_weight(const Fp8State *s, int64_t layer, LinearId linear)
{
    ASSERT(fp8_runs(s, layer), "layer %lld has no FP8 weights", (long long)layer);
    char *const at = s->weights + (size_t)(layer - s->first) * bytes_before(s, LINEAR_COUNT) +
                     bytes_before(s, linear);
    return (Fp8Weight){.q = at, .qt = at + bytes_of(s, linear)};
}

void fp8_build(Fp8State *s, const Fp8Recipe *r, const ModelConfig *c, Arena *run)
{
    *s = (Fp8State){.recipe = *r, .n_layer = c->n_layer, .C = c->n_embd, .F = c->n_inner};
    s->n = c->n_layer * FP8_SLOTS_A_LAYER;
    fp8_layers(r, c, &s->first, &s->end);
    const size_t n = (size_t)s->n;
    arena_part(run, "FP8 weights");
    s->weights = arena_alloc(run, (size_t)(s->end - s->first) * bytes_before(s, LINEAR_COUNT));
    arena_part(run, "FP8 scales");
    s->scale = arena_alloc(run, n * sizeof *s->scale);
    s->amax = arena_alloc(run, n * sizeof *s->amax);
    s->count = arena_alloc(run, n * sizeof *s->count);
    if (!r->current) {
        s->history = arena_alloc(run, n * (size_t)r->history * sizeof *s->history);
        s->at = arena_alloc(run, n * sizeof *s->at);
    }
    s->held = arena_alloc(run, n * sizeof *s->held);
    s->last_amax = arena_alloc(run, n * sizeof *s->last_amax);
    s->last_scale = arena_alloc(run, n * sizeof *s->last_scale);
}

Status fp8_reset(Fp8State *s, Device *d, Err *err)
{
    const size_t n = (size_t)s->n;
    Fp8Scale *scale = mem_calloc(n, sizeof *scale);
    float *amax = mem_calloc(n, sizeof *amax);
    int32_t *held = mem_calloc(n, sizeof *held);
    Status st = scale && amax && held ? ERR_NONE : mem_err(err, n * sizeof *scale, "FP8 scales");
    for (size_t i = 0; i < n && st == ERR_NONE; i++) {
        scale[i] =
            (Fp8Scale){.inv = 1, .scale = 1, .max = fp8_max(fp8_dtype((Fp8Kind)(i % FP8_KINDS)))};
        amax[i] = -1; // did not occur
        held[i] = i % FP8_KINDS == FP8_W;
    }
    if (st == ERR_NONE) st = device_upload(d, s->scale, scale, n * sizeof *scale, err);
    if (st == ERR_NONE) st = device_upload(d, s->last_scale, scale, n * sizeof *scale, err);
    if (st == ERR_NONE) st = device_upload(d, s->amax, amax, n * sizeof *amax, err);
    if (st == ERR_NONE) st = device_upload(d, s->last_amax, amax, n * sizeof *amax, err);
    if (st == ERR_NONE) st = device_upload(d, s->held, held, n * sizeof *held, err);
    mem_free(scale);
    mem_free(amax);
    mem_free(held);
    TRY(st);
    TRY(device_zero(d, s->count, n * sizeof *s->count, err));
    s->started = s->cast = false;
    if (s->recipe.current) return ERR_NONE;
    TRY(device_zero(d, s->history, n * (size_t)s->recipe.history * sizeof *s->history, err));
    return device_zero(d, s->at, n * sizeof *s->at, err);
}

// ---- a step -----------------------------------------------------------------------------------

Fp8Out fp8_out(const Fp8State *s, int64_t slot, bool counts)
{
    ASSERT(slot >= 0 && slot < s->n, "FP8 slot %lld of %lld", (long long)slot, (long long)s->n);
    return (Fp8Out){.scale = s->scale + slot,
                    .amax = counts ? s->amax + slot : NULL,
                    .count = counts ? s->count + slot : NULL,
                    .dtype = fp8_dtype((Fp8Kind)(slot % FP8_KINDS))};
}

Fp8Out fp8_weight_out(const Fp8State *s, int64_t layer, LinearId id, int64_t *rows)
{
    const int64_t C = s->C, F = s->F;
    const Fp8Weight to = fp8_weight(s, layer, id);
    Fp8Out o = fp8_out(s, fp8_slot(layer, id, FP8_W), true);
    *rows = id == LINEAR_QKV ? 3 * C : id == LINEAR_FC ? F : C;
    o.q = to.q;
    o.ld_q = id == LINEAR_MLP ? F : C;
    o.qt = to.qt;
    o.ld_qt = *rows;
    return o;
}

bool fp8_written_by_update(const Fp8State *s)
{
    return !s->recipe.current && !s->apart;
}

static Status cast_weight(Fp8State *s, OpCtx *cx, int64_t layer, LinearId id, const void *w,
                          DType dtype, Err *err)
{
    Fp8QuantizeArgs a = {
        .src = w, .current = fp8_current(s), .margin = s->recipe.margin, .src_dtype = dtype};
    a.out = fp8_weight_out(s, layer, id, &a.R);
    a.C = a.ld = a.out.ld_q;
    return op_fp8_quantize(cx, &a, err);
}

Status fp8_cast_weights(Fp8State *s, OpCtx *cx, const Weights *w, Err *err)
{
    if (s->cast) return ERR_NONE;
    for (int64_t l = s->first; l < s->end; l++) {
        const char *block = weights_take(w, (int)l + 1);
        for (int i = 0; i < LINEAR_COUNT; i++) {
            const int64_t at = layer_matrix(&w->params->layer, (LinearId)i);
            TRY(cast_weight(s, cx, l, (LinearId)i, block + (size_t)at * dtype_bytes(w->dtype),
                            w->dtype, err));
        }
        weights_give(w, (int)l + 1);
    }
    s->cast = !cx->plan;
    return ERR_NONE;
}

Status fp8_end_step(Fp8State *s, OpCtx *cx, const int32_t *skip, Err *err)
{
    const size_t n = (size_t)s->n;
    if (!cx->plan) {
        TRY(device_copy(cx->device, s->last_amax, s->amax, n * sizeof *s->amax, err));
        TRY(device_copy(cx->device, s->last_scale, s->scale, n * sizeof *s->scale, err));
        s->cast = false;
    }
    return op_fp8_update(cx,
                         &(Fp8UpdateArgs){.scale = s->scale,
                                          .amax = s->amax,
                                          .history = s->history,
                                          .at = s->at,
                                          .held = s->held,
                                          .skip = skip,
                                          .n = s->n,
                                          .length = s->recipe.history,
                                          .margin = s->recipe.margin,
                                          .algorithm = s->recipe.amax},
                         err);
}
