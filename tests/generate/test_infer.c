// test_infer.c -- engine/generate/infer.h: with the cache or without, the same logits.
//
// SPDX-License-Identifier: MIT
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "engine/base/rng.h"
#include "engine/generate/infer.h"
#include "engine/model/model.h"

enum { T = 300, V = 83 };

static void must(Status st, const Err *err)
{
    if (st != ERR_NONE) fail_msg("%s", err->text);
}

// A random model in memory, as if it had been loaded.
static void make_model(Loaded *m, Backend *b, const char *precision, bool window, bool bias,
                       bool tied)
{
    Err err;
    *m = (Loaded){.device = &b->device, .c = model_config_gpt2(3, 2, 32, T, V)};
    m->c.tie_embeddings = tied;
    m->c.bias_qkv = m->c.bias_proj = m->c.bias_mlp = m->c.bias_norm = bias;
    if (window) {
        m->c.n_window = 2;
        m->c.window[1] = 17;
    }
    must(precision_from_name(&m->prec, precision, "f32", &err), &err);
    must(params_layout(&m->params, &m->c, &err), &err);
    m->bytes = (size_t)m->params.total * dtype_bytes(m->prec.param);
    must(device_alloc(m->device, m->bytes, &m->weights, &err), &err);
    float *w = calloc((size_t)m->params.total, sizeof *w);
    assert_non_null(w);
    params_init(&m->params, w, 9);
    for (int64_t i = 0; i < m->params.total; i++) w[i] *= 5; // far from zero, so that errors show
    dtype_convert(m->weights, m->prec.param, w, DTYPE_F32, m->params.total);
    free(w);
}

static void check(const char *precision, bool window, bool bias, bool tied, double tolerance)
{
    Backend b;
    Loaded m;
    Err err;
    must(backend_open(&b, "cpu", "auto", 2, &err), &err);
    make_model(&m, &b, precision, window, bias, tied);
    int32_t ids[T];
    for (int i = 0; i < T; i++) ids[i] = (int32_t)rng_below(4, 0, (uint64_t)i, V);

    // Without the cache: the whole text at once.
    Model model;
    Arena arena;
    OpPlan plan = {0};
    OpCtx cx = {.ops = &b.ops, .device = &b.device};
    const ModelOptions mo = {.batch = 1, .block = T, .head_rows = T};
    const int64_t sample[1] = {0};
    const ModelBatch mb = {.B = 1, .T = T, .input = ids, .target = ids, .sample = sample};
    const void *all;
    arena_init_counting(&arena, "test");
    must(model_build(&model, &m.c, &m.prec, &mo, &m.params, m.weights, NULL, &arena, &err), &err);
    cx.plan = &plan;
    must(model_logits(&model, &cx, &mb, &all, &err), &err);
    model_free(&model);
    const size_t bytes = arena.used;
    void *mem, *scratch;
    must(device_alloc(&b.device, bytes, &mem, &err), &err);
    must(device_alloc(&b.device, plan.scratch_bytes, &scratch, &err), &err);
    arena_init(&arena, "test", mem, bytes);
    must(model_build(&model, &m.c, &m.prec, &mo, &m.params, m.weights, NULL, &arena, &err), &err);
    cx = (OpCtx){.ops = &b.ops,
                 .device = &b.device,
                 .scratch = scratch,
                 .scratch_bytes = plan.scratch_bytes};
    must(model_logits(&model, &cx, &mb, &all, &err), &err);

    // With it: in pieces of many sizes, one of them longer than a chunk, after a rewind.
    Infer f;
    must(infer_open(&f, &m, &b, &err), &err);
    const float *logits;
    const int64_t Vp = model_config_vocab_padded(&m.c);
    must(infer_append(&f, ids + 5, 20, &logits, &err), &err);
    infer_rewind(&f, 0);
    static const int64_t pieces[] = {1, 2, 7, 1, 270, 1, 17, 1};
    int64_t pos = 0;
    for (size_t i = 0; i < LT_COUNT(pieces); i++) {
        must(infer_append(&f, ids + pos, pieces[i], &logits, &err), &err);
        pos += pieces[i];
        assert_int_equal(f.pos, pos);
        for (int64_t v = 0; v < V; v++) {
            const float want =
                dtype_load((const char *)all + (size_t)((pos - 1) * Vp) * dtype_bytes(m.prec.act),
                           m.prec.act, v);
            if (!(fabs((double)(logits[v] - want)) <= tolerance))
                fail_msg("%s: token %d, id %d: %.7f against %.7f", precision, (int)pos, (int)v,
                         (double)logits[v], (double)want);
        }
    }
    assert_int_equal(pos, T);
    infer_close(&f);
    model_free(&model);
    device_free(&b.device, mem, bytes);
    device_free(&b.device, scratch, plan.scratch_bytes);
    loaded_close(&m);
}

static void cached_logits_equal_those_of_the_whole_text(void **state)
{
    (void)state;
    check("fp32", false, true, true, 2e-4);
    check("fp32", true, true, true, 2e-4);
    check("fp32", false, false, false, 2e-4);
    check("bf16", false, true, true, 0.25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cached_logits_equal_those_of_the_whole_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
