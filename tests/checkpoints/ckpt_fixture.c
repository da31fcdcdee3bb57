// ckpt_fixture.c -- see ckpt_fixture.h.
//
// SPDX-License-Identifier: MIT
#include "tests/checkpoints/ckpt_fixture.h"

#include "checkpoints/hf_slots.h"
#include "engine/base/mem.h"

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

void fixture_model(Fixture *f, const HfConfig *c, uint64_t seed)
{
    HfSlot *slot = NULL;
    int     n    = 0;
    *f           = (Fixture){.config = *c};
    assert_int_equal(hf_slots_make(c, &slot, &n, NULL), ERR_NONE);
    int64_t total = 0;
    for (int i = 0; i < n; i++) {
        if (slot[i].is_bias && !c->bias) continue;
        assert_true(f->n < FIXTURE_TENSORS);
        Tensor *t = &f->t[f->n++];
        snprintf(t->name, sizeof t->name, "%s", slot[i].engine);
        t->rank = slot[i].rank;
        for (int d = 0; d < t->rank; d++) t->shape[d] = slot[i].shape[d];
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
