// test_golden.c -- the model against values made with PyTorch and transformers in float64
// (tests/model/golden/README.md): logits, every gradient, ten AdamW steps; with the reference
// kernels and with every instruction set this machine can run; f32 and bf16.
//
// SPDX-License-Identifier: MIT
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "checkpoints/safetensors.h"
#include "engine/model/model_hf.h"
#include "engine/train/trainer.h"
#include "kernels/cpu/cpu.h"

enum { B = 3, T = 24, STEPS = 10 };

typedef struct Golden {
    char dir[PATH_CAP];
    SafeFile f;
} Golden;

static void must(Status st, const Err *err)
{
    if (st != ERR_NONE) fail_msg("%s", err->text);
}

static void golden_open(Golden *g)
{
    Err err;
    const char *src = getenv("LATHE_SOURCE_DIR");
    const char *over = getenv("LATHE_GOLDEN"); // another shape, made by scripts/golden_gpt2.py
    char path[PATH_CAP];
    if (over) {
        snprintf(g->dir, sizeof g->dir, "%s/model", over);
        snprintf(path, sizeof path, "%s/golden.safetensors", over);
    } else {
        snprintf(g->dir, sizeof g->dir, "%s/tests/model/golden/tiny", src ? src : ".");
        snprintf(path, sizeof path, "%s/tests/model/golden/golden.safetensors", src ? src : ".");
    }
    must(safe_open(&g->f, path, &err), &err);
}

static const void *values(const Golden *g, const char *name)
{
    const SafeEntry *e = safe_find(&g->f, name);
    if (!e) fail_msg("golden file has no %s", name);
    return e->data;
}

static float golden_float(const Golden *g, const char *name, int64_t i)
{
    float v;
    memcpy(&v, (const uint8_t *)values(g, name) + 4 * i, 4);
    return v;
}

// The engine's name -> Hugging Face's, and whether the file has it transposed.
static bool hf_name(char out[128], const char *prefix, const char *name)
{
    static const struct {
        const char *engine, *hf;
        bool transposed;
    } rows[] = {{"norm1.weight", "ln_1.weight", false},
                {"norm1.bias", "ln_1.bias", false},
                {"attn.qkv.weight", "attn.c_attn.weight", true},
                {"attn.qkv.bias", "attn.c_attn.bias", false},
                {"attn.proj.weight", "attn.c_proj.weight", true},
                {"attn.proj.bias", "attn.c_proj.bias", false},
                {"norm2.weight", "ln_2.weight", false},
                {"norm2.bias", "ln_2.bias", false},
                {"mlp.fc.weight", "mlp.c_fc.weight", true},
                {"mlp.fc.bias", "mlp.c_fc.bias", false},
                {"mlp.proj.weight", "mlp.c_proj.weight", true},
                {"mlp.proj.bias", "mlp.c_proj.bias", false}};
    int layer, used = 0;
    if (sscanf(name, "block.%d.%n", &layer, &used) == 1) {
        for (size_t i = 0; i < LT_COUNT(rows); i++) {
            if (strcmp(name + used, rows[i].engine) != 0) continue;
            snprintf(out, 128, "%stransformer.h.%d.%s", prefix, layer, rows[i].hf);
            return rows[i].transposed;
        }
        fail_msg("no name for %s", name);
    }
    const char *hf = strcmp(name, "embed.token.weight") == 0      ? "wte.weight"
                     : strcmp(name, "embed.position.weight") == 0 ? "wpe.weight"
                     : strcmp(name, "final.norm.weight") == 0     ? "ln_f.weight"
                                                                  : "ln_f.bias";
    snprintf(out, 128, "%stransformer.%s", prefix, hf);
    return false;
}

typedef struct Distance {
    double max_abs, max_ref, diff2, ref2;
    double rounding2; // sum of squares of what ten roundings to f32 do to the values
} Distance;

// Distance of parameter-shaped values from the golden tensor `prefix` + name; a bias of keys (whose
// gradient is rounding noise) is left out. base: subtracted from both sides, or NULL.
static Distance distance(const Golden *g, const char *prefix, const Param *p, const float *got,
                         const float *base, int64_t C)
{
    char name[128];
    const bool tr = hf_name(name, prefix, p->name);
    const uint8_t *data = values(g, name);
    const bool keys = strstr(p->name, "attn.qkv.bias") != NULL;
    Distance d = {0};
    for (int64_t i = 0; i < p->count; i++) {
        if (keys && i >= C && i < 2 * C) continue;
        const int64_t cols = p->rank == 2 ? p->shape[1] : 1;
        const int64_t at = tr ? (i % cols) * p->shape[0] + i / cols : i;
        float want;
        memcpy(&want, data + 4 * at, 4);
        const double w = (double)want - (base ? (double)base[i] : 0);
        const double e = (double)got[i] - (double)want;
        d.max_abs = fmax(d.max_abs, fabs(e));
        d.max_ref = fmax(d.max_ref, fabs(w));
        d.diff2 += e * e;
        d.ref2 += w * w;
        d.rounding2 += (double)want * (double)want * 0x1p-46;
    }
    return d;
}

typedef struct Setup {
    const char *isa; // "ref": the reference kernels only
    const char *precision;
    bool recompute;
    int64_t batch_size;
    int64_t head_rows;
} Setup;

typedef struct Bench { // a trainer with the golden weights in it
    Device device;
    Ops ops;
    Trainer t;
} Bench;

static void bench_open(Bench *b, const Golden *g, const Setup *how)
{
    Err err;
    device_cpu_init(&b->device, 2);
    ops_init(&b->ops);
    CpuChoice choice;
    if (strcmp(how->isa, "ref") != 0) must(cpu_open(&b->ops, how->isa, &choice, &err), &err);
    HfConfig hf;
    ModelConfig c;
    must(hf_config_read(&hf, g->dir, &err), &err);
    must(model_from_hf(&c, &hf, &err), &err);
    c.dropout_embed = c.dropout_attention = c.dropout_residual = 0;
    const SafeEntry *ids = safe_find(&g->f, "input_ids");
    TrainSetup s = {.model = c,
                    .block_size = ids->shape[1],
                    .batch_size = how->batch_size ? how->batch_size : ids->shape[0],
                    .samples = ids->shape[0],
                    .head_rows = how->head_rows ? how->head_rows : 1024,
                    .recompute = how->recompute,
                    .beta1 = 0.9,
                    .beta2 = 0.95,
                    .eps = 1e-8,
                    .weight_decay = 0.1,
                    .grad_clip = 1.0};
    must(precision_from_name(&s.prec, how->precision, "f32", &err), &err);
    const double lr = (double)golden_float(g, "lr", 0);
    must(schedule_init(&s.schedule, "constant", lr, 0, 0, STEPS, 0, &err), &err);
    must(trainer_open(&b->t, &s, &b->ops, &b->device, &err), &err);
    must(trainer_load_model(&b->t, g->dir, &err), &err);
}

// Gradients of the golden batch, however it is split.
static double gradients(Bench *b, const Golden *g)
{
    Err err;
    const Trainer *t = &b->t;
    const int64_t S = t->setup.samples, W = t->setup.block_size, step = t->setup.batch_size;
    const int32_t *in = values(g, "input_ids"), *target = values(g, "target");
    int64_t counted = 0;
    double sum = 0;
    for (int64_t i = 0; i < S * W; i++) counted += target[i] != TOKEN_IGNORE;
    for (int64_t k = 0; k < S; k += step) {
        const int64_t sample[16] = {0};
        const ModelBatch mb = {
            .B = step, .T = W, .input = in + k * W, .target = target + k * W, .sample = sample};
        const ModelLossScale scale = {.row = (float)(1.0 / (double)counted)};
        must(model_gradients(&b->t.model, &b->t.cx, &mb, scale, k == 0, &err), &err);
        for (int64_t i = 0; i < step * W; i++) sum += (double)b->t.model.loss[i];
    }
    return sum / (double)counted;
}

static void check_gradients(const Golden *g, const Setup *how, double by_max, double by_norm)
{
    Bench b;
    bench_open(&b, g, how);
    const double loss = gradients(&b, g), want = (double)golden_float(g, "loss", 0);
    if (!(fabs(loss - want) <= (by_max < 1e-3 ? 1e-5 : 2e-2)))
        fail_msg("%s %s: loss %.7f, want %.7f", how->isa, how->precision, loss, want);
    double worst = 0;
    for (int i = 0; i < b.t.params.n; i++) {
        const Param *p = &b.t.params.param[i];
        const Distance d =
            distance(g, "grad.", p, b.t.grads + p->offset, NULL, b.t.setup.model.n_embd);
        const double m = d.max_abs / d.max_ref, n = sqrt(d.diff2 / d.ref2);
        worst = fmax(worst, by_max < 1e-3 ? m : n);
        if (!(m <= by_max) || !(n <= by_norm))
            fail_msg("%s %s: gradient of %s: max %.3g, norm %.3g", how->isa, how->precision,
                     p->name, m, n);
    }
    print_message("  %-12s %s batch %d rows %d: worst gradient %.2g\n", how->isa, how->precision,
                  (int)b.t.setup.batch_size, (int)b.t.model.o.head_rows, worst);
    trainer_close(&b.t);
}

static int all_isas(const char *names[9])
{
    names[0] = "ref";
    return 1 + cpu_list(names + 1);
}

static void gradients_equal_pytorchs(void **state)
{
    const Golden *g = *state;
    const char *isa[9];
    const int n = all_isas(isa);
    for (int i = getenv("LATHE_GOLDEN") ? 1 : 0; i < n; i++) {
        check_gradients(g, &(Setup){.isa = isa[i], .precision = "fp32"}, 1e-4, 1e-4);
        check_gradients(g, &(Setup){.isa = isa[i], .precision = "bf16"}, 1.0, 2e-2);
    }
    check_gradients(g, &(Setup){.isa = isa[n - 1], .precision = "fp32", .batch_size = 1}, 1e-4,
                    1e-4);
    check_gradients(g, &(Setup){.isa = isa[n - 1], .precision = "fp32", .head_rows = 7}, 1e-4,
                    1e-4);
}

static void logits_equal_pytorchs(void **state)
{
    const Golden *g = *state;
    const char *isa[9];
    const int n = all_isas(isa);
    Err err;
    for (int i = getenv("LATHE_GOLDEN") ? 1 : 0; i < n; i++) {
        Bench b;
        bench_open(&b, g, &(Setup){.isa = isa[i], .precision = "fp32"});
        const int64_t W = b.t.setup.block_size, S = b.t.setup.samples,
                      V = b.t.setup.model.vocab_size;
        const int64_t Vp = model_config_vocab_padded(&b.t.setup.model);
        const int64_t sample[16] = {0};
        const void *logits;
        const ModelBatch mb = {.B = S,
                               .T = W,
                               .input = values(g, "input_ids"),
                               .target = values(g, "target"),
                               .sample = sample};
        must(model_logits(&b.t.model, &b.t.cx, &mb, &logits, &err), &err);
        const float *want = values(g, "logits");
        double big = 0, off = 0;
        for (int64_t r = 0; r < S * W; r++)
            for (int64_t v = 0; v < V; v++) {
                float w;
                memcpy(&w, want + r * V + v, 4);
                big = fmax(big, fabs((double)w));
                off = fmax(off, fabs((double)w - (double)((const float *)logits)[r * Vp + v]));
            }
        if (!(off / big <= 1e-4)) fail_msg("%s: logits off by %.3g of %.3g", isa[i], off, big);
        trainer_close(&b.t);
    }
}

static void ten_steps_equal_pytorchs(void **state)
{
    const Golden *g = *state;
    const char *isa[9];
    const int n = all_isas(isa);
    Err err;
    for (int i = getenv("LATHE_GOLDEN") ? n - 1 : 0; i < n; i++) {
        Bench b;
        bench_open(&b, g, &(Setup){.isa = isa[i], .precision = "fp32"});
        const int64_t rows = b.t.setup.samples * b.t.setup.block_size;
        float *start = malloc((size_t)b.t.params.total * 4);
        assert_non_null(start);
        memcpy(start, b.t.opt.w, (size_t)b.t.params.total * 4);
        for (int s = 1; s <= STEPS; s++) {
            char name[64];
            snprintf(name, sizeof name, "step.%d.input_ids", s);
            const int32_t *in = values(g, name);
            snprintf(name, sizeof name, "step.%d.target", s);
            const int32_t *target = values(g, name);
            int64_t counted = 0;
            for (int64_t r = 0; r < rows; r++) counted += target[r] != TOKEN_IGNORE;
            const int64_t sample[16] = {0};
            const StreamBatch sb = {.samples = b.t.setup.samples,
                                    .input = in,
                                    .target = target,
                                    .sample = sample,
                                    .counted = counted};
            TrainStep out;
            must(trainer_step(&b.t, &sb, &out, &err), &err);
            snprintf(name, sizeof name, "step.%d.loss", s);
            const double loss = (double)golden_float(g, name, 0);
            snprintf(name, sizeof name, "step.%d.norm", s);
            const double norm = (double)golden_float(g, name, 0);
            if (!(fabs(out.loss - loss) <= 1e-5 * fmax(1, loss)) ||
                !(fabs(out.grad_norm - norm) <= 1e-4 * norm))
                fail_msg("%s step %d: loss %.7f want %.7f, norm %.6f want %.6f", isa[i], s,
                         out.loss, loss, out.grad_norm, norm);
        }
        double worst = 0;
        for (int k = 0; k < b.t.params.n; k++) {
            const Param *p = &b.t.params.param[k];
            const Distance d = distance(g, "final.", p, b.t.opt.w + p->offset, start + p->offset,
                                        b.t.setup.model.n_embd);
            const double e = sqrt(d.diff2 / d.ref2);
            worst = fmax(worst, e);
            if (!(d.diff2 <= 1e-8 * d.ref2 + d.rounding2))
                fail_msg("%s: %s off by %.3g of its update", isa[i], p->name, e);
        }
        print_message("  %-12s weights after ten steps: worst tensor off by %.2g of its update\n",
                      isa[i], worst);
        free(start);
        trainer_close(&b.t);
    }
}

static void recomputing_changes_no_bit(void **state)
{
    const Golden *g = *state;
    const char *isa[9];
    const int n = all_isas(isa);
    for (int i = getenv("LATHE_GOLDEN") ? n - 1 : 0; i < n; i++) {
        Bench a, b;
        bench_open(&a, g, &(Setup){.isa = isa[i], .precision = "fp32"});
        bench_open(&b, g, &(Setup){.isa = isa[i], .precision = "fp32", .recompute = true});
        assert_true(gradients(&a, g) == gradients(&b, g));
        assert_memory_equal(a.t.grads, b.t.grads, (size_t)a.t.params.total * 4);
        trainer_close(&a.t);
        trainer_close(&b.t);
    }
}

static void same_bits_for_any_number_of_threads(void **state)
{
    const Golden *g = *state;
    const char *isa[9], *precision[2] = {"fp32", "bf16"};
    const int n = all_isas(isa);
    if (getenv("LATHE_GOLDEN")) return;
    for (int i = 0; i < n; i++)
        for (int p = 0; p < 2; p++) {
            Bench a, b;
            bench_open(&a, g, &(Setup){.isa = isa[i], .precision = precision[p]});
            bench_open(&b, g, &(Setup){.isa = isa[i], .precision = precision[p]});
            a.device.threads = 1; // scratch was measured for two, which is enough for one
            assert_true(gradients(&a, g) == gradients(&b, g));
            assert_memory_equal(a.t.grads, b.t.grads, (size_t)a.t.params.total * 4);
            trainer_close(&a.t);
            trainer_close(&b.t);
        }
}

int main(void)
{
    static Golden g;
    golden_open(&g);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(logits_equal_pytorchs, &g),
        cmocka_unit_test_prestate(gradients_equal_pytorchs, &g),
        cmocka_unit_test_prestate(ten_steps_equal_pytorchs, &g),
        cmocka_unit_test_prestate(recomputing_changes_no_bit, &g),
        cmocka_unit_test_prestate(same_bits_for_any_number_of_threads, &g),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    safe_close(&g.f);
    return failed;
}
