// ckpt_fixture.c -- see ckpt_fixture.h.
//
// SPDX-License-Identifier: MIT
#include "tests/checkpoints/ckpt_fixture.h"

#include "checkpoints/hf_slots.h"
#include "engine/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fixture_must(Status s, const Err *err)
{
    if (s != ERR_NONE) fail_msg("%s: %s", err_name(s), err->text);
}

void fixture_mkdir(char out[PATH_CAP])
{
    const char *base = getenv("TMPDIR");
    snprintf(out, PATH_CAP, "%s/lathe-ckpt-XXXXXX", base && *base ? base : "/tmp");
    assert_non_null(mkdtemp(out));
}

void fixture_rmdir(const char *dir) { assert_int_equal(file_remove_tree(dir, NULL), ERR_NONE); }

const char *fixture_path(char out[PATH_CAP], const char *dir, const char *name)
{
    assert_int_equal(path_join(out, dir, name, NULL), ERR_NONE);
    return out;
}

const char *fixture_golden(char out[PATH_CAP], const char *name)
{
    const char *source = getenv("LATHE_SOURCE_DIR");
    snprintf(out, PATH_CAP, "%s/tests/checkpoints/golden/%s", source ? source : ".", name);
    return out;
}

void fixture_put(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

void fixture_copy(const char *to_dir, const char *from_dir)
{
    FileList l;
    Err      err;
    fixture_must(file_mkdirs(to_dir, &err), &err);
    fixture_must(file_list(from_dir, &l, &err), &err);
    for (int i = 0; i < l.n; i++) {
        char a[PATH_CAP], b[PATH_CAP];
        Buf  text = {0};
        fixture_must(file_read(fixture_path(a, from_dir, l.name[i]), &text, &err), &err);
        fixture_put(fixture_path(b, to_dir, l.name[i]), text.data, text.len);
        buf_free(&text);
    }
    file_list_free(&l);
}

void fixture_config(HfConfig *c)
{
    *c = (HfConfig){.architecture = "GPT2LMHeadModel",
                    .model_type = "gpt2",
                    .n_layer = 2,
                    .n_head = 2,
                    .n_embd = 8,
                    .n_inner = 32,
                    .n_positions = 12,
                    .vocab_size = 20,
                    .layer_norm_epsilon = 1e-5,
                    .initializer_range = 0.02,
                    .activation = "gelu_new",
                    .tie_word_embeddings = true,
                    .scale_attn_weights = true,
                    .bias = true,
                    .bos_token_id = -1,
                    .eos_token_id = 19,
                    .dtype = "float32"};
}

void fixture_bert(HfConfig *c, const char *architecture)
{
    fixture_config(c);
    c->n_inner            = 16;
    c->n_types            = 2;
    c->layer_norm_epsilon = 1e-12;
    c->bos_token_id = c->eos_token_id = -1;
    c->pad_token_id                   = 0;
    c->classifier_dropout             = -1;
    c->has_pooler = strcmp(architecture, "BertForMaskedLM") != 0 &&
                    strcmp(architecture, "BertForTokenClassification") != 0 &&
                    strcmp(architecture, "BertForQuestionAnswering") != 0;
    snprintf(c->architecture, sizeof c->architecture, "%s", architecture);
    snprintf(c->model_type, sizeof c->model_type, "bert");
    snprintf(c->activation, sizeof c->activation, "gelu");
    if (!strstr(architecture, "Classification")) return;
    const char *const labels[] = {"O", "B-PER", "na\xc3\xafve"}; // as in the golden folders
    c->n_labels                = LT_COUNT(labels);
    for (size_t i = 0; i < LT_COUNT(labels); i++)
        snprintf(c->label[i], sizeof c->label[i], "%s", labels[i]);
}

void fixture_model(Fixture *f, const HfConfig *c, uint64_t seed)
{
    HfSlot *slot = NULL;
    int     n    = 0;
    *f           = (Fixture){.config = *c};
    assert_int_equal(hf_slots_make(c, &slot, &n, NULL), ERR_NONE);
    int64_t total = 0;
    for (int i = 0; i < n; i++) {
        if ((slot[i].is_bias && !c->bias) || hf_slots_again(&slot[i])) continue;
        assert_true(f->n < FIXTURE_TENSORS);
        Tensor *t = &f->t[f->n++];
        snprintf(t->name, sizeof t->name, "%s", slot[i].engine);
        t->rank = slot[i].rank;
        for (int d = 0; d < t->rank; d++) t->shape[d] = slot[i].shape[d];
        t->shape[0] *= slot[i].parts;
        total += tensor_count(t);
    }
    mem_free(slot);
    f->block = mem_alloc((size_t)total * sizeof *f->block);
    assert_non_null(f->block);
    float *at = f->block;
    for (int k = 0; k < f->n; k++) {
        f->t[k].data = at;
        for (int64_t i = 0; i < tensor_count(&f->t[k]); i++)
            at[i] =
                (float)((seed * 131 + (uint64_t)k * 17 + (uint64_t)i * 7) % 251) / 251.0f - 0.5f;
        at += tensor_count(&f->t[k]);
    }
}

void fixture_load(Fixture *f, const char *dir)
{
    HfConfig c;
    Err      err;
    fixture_must(hf_config_read(&c, dir, &err), &err);
    fixture_model(f, &c, 1);
    fixture_must(hf_load(dir, &c, f->t, f->n, &err), &err);
}

void fixture_free(Fixture *f) { mem_free(f->block); }

static size_t bytes_of(const Fixture *f)
{
    size_t n = 0;
    for (int k = 0; k < f->n; k++) n += (size_t)tensor_count(&f->t[k]) * sizeof(float);
    return n;
}

void fixture_zero(Fixture *f) { memset(f->block, 0, bytes_of(f)); }

bool fixture_equal(const Fixture *a, const Fixture *b)
{
    return bytes_of(a) == bytes_of(b) && memcmp(a->block, b->block, bytes_of(a)) == 0;
}

const Tensor *fixture_tensor(const Fixture *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->t[i].name, name) == 0) return &f->t[i];
    return NULL;
}

void fixture_check_golden(const Fixture *f, const char *folder, const GoldenTensor *golden,
                          size_t n)
{
    int seen = 0;
    for (const GoldenTensor *g = golden; g < golden + n; g++) {
        if (strcmp(g->folder, folder) != 0) continue;
        const Tensor *t = fixture_tensor(f, g->name);
        if (!t) fail_msg("%s: no %s", g->folder, g->name);
        assert_int_equal(t->rank, g->rank);
        double sum = 0, weighted = 0;
        for (int d = 0; d < t->rank; d++) assert_int_equal(t->shape[d], g->shape[d]);
        for (int64_t e = 0; e < tensor_count(t); e++) {
            const double x = (double)((const float *)t->data)[e];
            sum += x;
            weighted += x * (double)(1 + e % 7);
        }
        if (fabs(sum - g->sum) > 1e-9 || fabs(weighted - g->weighted) > 1e-9)
            fail_msg("%s: %s: sums %.17g %.17g, expected %.17g %.17g", g->folder, g->name, sum,
                     weighted, g->sum, g->weighted);
        seen++;
    }
    assert_int_equal(seen, f->n);
}

void fixture_load_golden(Fixture *f, const char *folder)
{
    char dir[PATH_CAP];
    fixture_load(f, fixture_golden(dir, folder));
}

void fixture_check_folders(const char *const *folder, size_t n_folder, const GoldenTensor *golden,
                           size_t n)
{
    for (size_t i = 0; i < n_folder; i++) {
        Fixture f;
        fixture_load_golden(&f, folder[i]);
        fixture_check_golden(&f, folder[i], golden, n);
        fixture_free(&f);
    }
}

void fixture_check_same(const char *const *folder, size_t n_folder)
{
    Fixture first, other;
    fixture_load_golden(&first, folder[0]);
    for (size_t i = 1; i < n_folder; i++) {
        fixture_load_golden(&other, folder[i]);
        if (!fixture_equal(&first, &other)) fail_msg("%s and %s differ", folder[0], folder[i]);
        fixture_free(&other);
    }
    fixture_free(&first);
}
