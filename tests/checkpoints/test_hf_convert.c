// test_hf_convert.c -- converted folders hold the same model: types, shards, tying, vocabulary
// rows.
//
// SPDX-License-Identifier: MIT
#include "tests/checkpoints/ckpt_fixture.h"

#include "checkpoints/hf_convert.h"
#include "checkpoints/hf_files.h"

#include <stdio.h>
#include <string.h>

static void set_up(HfConvert *h, const char *dir, const char *golden, const char *to)
{
    *h = (HfConvert){.dtype = HF_AS_IS, .tie = HF_AS_IS};
    fixture_golden(h->from, golden);
    fixture_path(h->to, dir, to);
}

static bool same_model(const char *a, const char *b)
{
    Fixture x, y;
    fixture_load(&x, a);
    fixture_load(&y, b);
    const bool same = fixture_equal(&x, &y);
    fixture_free(&x);
    fixture_free(&y);
    return same;
}

static void splitting_and_joining_keep_every_bit(void **state)
{
    (void)state;
    HfConvert h;
    HfConverted out;
    Err err;
    char dir[PATH_CAP], path[PATH_CAP], joined[PATH_CAP];
    fixture_mkdir(dir);
    static const struct {
        uint64_t bytes;
        int files;
    } cases[] = {{0, 1}, {1, 28}, {3000, 4}, {1u << 30, 1}};
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        set_up(&h, dir, "single", "split");
        h.shard_bytes = cases[i].bytes;
        fixture_must(hf_convert(&h, &out, &err), &err);
        assert_int_equal(out.files, cases[i].files);
        assert_int_equal(out.tensors, 28);
        assert_true(same_model(h.from, h.to));
        const bool index = file_exists(fixture_path(path, h.to, "model.safetensors.index.json"));
        assert_int_equal(index, cases[i].files > 1);
        HfConvert back = {.dtype = HF_AS_IS, .tie = HF_AS_IS};
        snprintf(back.from, sizeof back.from, "%s", h.to);
        fixture_path(back.to, dir, "joined");
        fixture_must(hf_convert(&back, &out, &err), &err);
        assert_int_equal(out.files, 1);
        assert_true(same_model(h.from, fixture_path(joined, dir, "joined")));
        fixture_rmdir(h.to);
        fixture_rmdir(joined);
    }
    fixture_rmdir(dir);
}

static void types_change_as_dtype_convert_says(void **state)
{
    (void)state;
    HfConvert h;
    HfConverted out;
    Err err;
    char dir[PATH_CAP], golden[PATH_CAP];
    fixture_mkdir(dir);
    set_up(&h, dir, "single", "bf16");
    h.dtype = DTYPE_BF16;
    fixture_must(hf_convert(&h, &out, &err), &err);
    assert_string_equal(out.config.dtype, "bfloat16");
    assert_true(same_model(h.to, fixture_golden(golden, "bf16"))); // PyTorch rounds the same
    set_up(&h, dir, "single", "f16");
    h.dtype = DTYPE_F16;
    fixture_must(hf_convert(&h, &out, &err), &err);
    assert_true(same_model(h.to, fixture_golden(golden, "f16")));
    set_up(&h, dir, "bf16", "wide");
    h.dtype = DTYPE_F32;
    fixture_must(hf_convert(&h, &out, &err), &err);
    assert_true(same_model(h.to, h.from));
    set_up(&h, dir, "bf16", "same");
    fixture_must(hf_convert(&h, &out, &err), &err);
    assert_string_equal(out.config.dtype, "bfloat16");
    fixture_rmdir(dir);
}

static void every_dress_becomes_the_plain_one(void **state)
{
    (void)state;
    const char *const names[] = {"sharded", "headed", "wrapped", "bare", "inner", "untied"};
    HfConvert h;
    HfConverted out;
    Err err;
    char dir[PATH_CAP];
    fixture_mkdir(dir);
    for (size_t i = 0; i < LT_COUNT(names); i++) {
        set_up(&h, dir, names[i], names[i]);
        fixture_must(hf_convert(&h, &out, &err), &err);
        assert_true(same_model(h.from, h.to));
        HfFiles f;
        fixture_must(hf_files_open(&f, h.to, &err), &err);
        assert_string_equal(hf_files_find(&f, "wte.weight")->e->name, "transformer.wte.weight");
        assert_int_equal(f.n, strcmp(names[i], "untied") == 0 ? 29 : 28);
        hf_files_close(&f);
    }
    fixture_rmdir(dir);
}

static void berts_become_the_plain_ones(void **state)
{
    (void)state;
    static const struct {
        const char *folder;
        int tensors;
        int64_t parameters;
        const char *left_out;
    } cases[] = {
        {"bert_pretrain", 46, 1694, ""}, {"bert_mlm", 42, 1604, ""},
        {"bert_model", 39, 1568, ""},    {"bert_nopool", 37, 1496, ""},
        {"bert_classify", 41, 1595, ""}, {"bert_tag", 39, 1523, ""},
        {"bert_qa", 39, 1514, ""},       {"bert_sharded", 46, 1694, ""},
        {"bert_bf16", 46, 1694, ""},     {"bert_untied", 48, 1854, ""},
        {"bert_bare", 46, 1694, ""},     {"bert_old", 42, 1604, "cls.seq_relationship, pooler"},
    };
    char dir[PATH_CAP];
    fixture_mkdir(dir);
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        HfConvert h;
        HfConverted out;
        HfFiles f;
        Err err;
        set_up(&h, dir, cases[i].folder, cases[i].folder);
        fixture_must(hf_convert(&h, &out, &err), &err);
        assert_true(same_model(h.from, h.to));
        if (out.tensors != cases[i].tensors || out.parameters != cases[i].parameters)
            fail_msg("%s: %d tensors, %lld parameters", cases[i].folder, out.tensors,
                     (long long)out.parameters);
        assert_string_equal(out.left_out.ignored, cases[i].left_out);
        fixture_must(hf_files_open(&f, h.to, &err), &err);
        const bool bare = strcmp(out.config.architecture, "BertModel") == 0;
        assert_string_equal(hf_files_find(&f, "embeddings.LayerNorm.weight")->e->name,
                            bare ? "embeddings.LayerNorm.weight"
                                 : "bert.embeddings.LayerNorm.weight");
        assert_int_equal(f.n, cases[i].tensors);
        hf_files_close(&f);
    }
    fixture_rmdir(dir);
}

static void a_bert_is_tied_and_untied_and_its_rows_padded(void **state)
{
    (void)state;
    HfConvert h;
    HfConverted out;
    Err err;
    char dir[PATH_CAP], golden[PATH_CAP];
    fixture_mkdir(dir);
    set_up(&h, dir, "bert_pretrain", "untied");
    h.tie = 0;
    h.vocab_size = 32;
    h.shard_bytes = 900;
    fixture_must(hf_convert(&h, &out, &err), &err);
    assert_true(out.files > 3);
    assert_false(out.config.tie_word_embeddings);
    Fixture f, plain;
    fixture_load(&f, h.to);
    fixture_load(&plain, h.from);
    const float *head = fixture_tensor(&f, "head.weight")->data;
    const float *bias = fixture_tensor(&f, "mlm.bias")->data;
    assert_memory_equal(head, fixture_tensor(&plain, "embed.token.weight")->data,
                        20 * 8 * sizeof(float));
    assert_memory_equal(bias, fixture_tensor(&plain, "mlm.bias")->data, 20 * sizeof(float));
    for (int i = 20; i < 32; i++) assert_true(!(bias[i] < 0 || bias[i] > 0));
    fixture_free(&f);
    fixture_free(&plain);
    HfConvert back = {.dtype = HF_AS_IS, .tie = 1, .vocab_size = 20};
    snprintf(back.from, sizeof back.from, "%s", h.to);
    fixture_path(back.to, dir, "tied");
    fixture_must(hf_convert(&back, &out, &err), &err);
    assert_true(same_model(fixture_golden(golden, "bert_pretrain"), back.to));
    set_up(&h, dir, "bert_untied", "no");
    h.tie = 1;
    assert_int_equal(hf_convert(&h, &out, &err), ERR_FORMAT);
    assert_non_null(strstr(err.text, "cls.predictions.decoder.weight differs from"));
    for (int tie = 0; tie < 2; tie++) {
        set_up(&h, dir, "bert_tag", "no");
        h.tie = tie;
        assert_int_equal(hf_convert(&h, &out, &err), ERR_USAGE);
        assert_non_null(strstr(err.text, "a BertForTokenClassification has no output layer"));
    }
    fixture_rmdir(dir);
}

static void heads_are_written_and_dropped_when_they_may_be(void **state)
{
    (void)state;
    HfConvert h;
    HfConverted out;
    Err err;
    char dir[PATH_CAP], golden[PATH_CAP], path[PATH_CAP];
    fixture_mkdir(dir);
    set_up(&h, dir, "single", "untied");
    h.tie = 0;
    fixture_must(hf_convert(&h, &out, &err), &err);
    assert_false(out.config.tie_word_embeddings);
    assert_int_equal(out.tensors, 29);
    Fixture f;
    fixture_load(&f, h.to);
    assert_string_equal(f.t[f.n - 1].name, "head.weight");
    assert_memory_equal(f.t[f.n - 1].data, f.t[0].data, 20 * 8 * sizeof(float));
    fixture_free(&f);
    HfConvert back = {.dtype = HF_AS_IS, .tie = 1};
    snprintf(back.from, sizeof back.from, "%s", h.to);
    fixture_path(back.to, dir, "tied");
    fixture_must(hf_convert(&back, &out, &err), &err);
    assert_true(same_model(fixture_golden(golden, "single"), back.to));
    set_up(&h, dir, "untied", "no");
    h.tie = 1;
    assert_int_equal(hf_convert(&h, &out, &err), ERR_FORMAT);
    assert_non_null(strstr(err.text, "lm_head.weight differs from wte.weight"));
    assert_false(file_exists(h.to));
    assert_false(file_exists(fixture_path(path, dir, "no.partial")));
    fixture_rmdir(dir);
}

static void rows_are_padded_with_zeros_and_stripped_again(void **state)
{
    (void)state;
    HfConvert h;
    HfConverted out;
    Err err;
    char dir[PATH_CAP], golden[PATH_CAP];
    const float zeros[12 * 8] = {0};
    fixture_mkdir(dir);
    set_up(&h, dir, "untied", "padded");
    h.vocab_size = 32;
    fixture_must(hf_convert(&h, &out, &err), &err);
    assert_int_equal(out.config.vocab_size, 32);
    Fixture f, plain;
    fixture_load(&f, h.to);
    fixture_load(&plain, h.from);
    for (int k = 0; k < f.n; k += f.n - 1) { // embedding and head
        assert_int_equal(f.t[k].shape[0], 32);
        assert_memory_equal(f.t[k].data, plain.t[k].data, 20 * 8 * sizeof(float));
        assert_memory_equal((float *)f.t[k].data + 20 * 8, zeros, sizeof zeros);
    }
    fixture_free(&f);
    fixture_free(&plain);
    HfConvert back = {.dtype = HF_AS_IS, .tie = HF_AS_IS, .vocab_size = 20};
    snprintf(back.from, sizeof back.from, "%s", h.to);
    fixture_path(back.to, dir, "stripped");
    fixture_must(hf_convert(&back, &out, &err), &err);
    assert_true(same_model(fixture_golden(golden, "untied"), back.to));
    back.vocab_size = 19; // takes the end token with it
    fixture_path(back.to, dir, "shorter");
    fixture_must(hf_convert(&back, &out, &err), &err);
    assert_int_equal(out.config.eos_token_id, -1);
    fixture_rmdir(dir);
}

static void tokenizer_files_travel_and_targets_are_not_overwritten(void **state)
{
    (void)state;
    HfConvert h;
    HfConverted out;
    Err err;
    char dir[PATH_CAP], golden[PATH_CAP], path[PATH_CAP], from[PATH_CAP];
    fixture_mkdir(dir);
    fixture_copy(fixture_path(from, dir, "from"), fixture_golden(golden, "single"));
    fixture_put(fixture_path(path, from, "tokenizer.json"), "{}", 2);
    set_up(&h, dir, "single", "deep/er/to");
    snprintf(h.from, sizeof h.from, "%s", from);
    strcat(h.to, "//");
    fixture_must(hf_convert(&h, &out, &err), &err);
    fixture_path(path, dir, "deep/er/to/tokenizer.json");
    assert_true(file_exists(path));
    assert_int_equal(hf_convert(&h, &out, &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "the folder is not empty"));
    set_up(&h, dir, "single", "file");
    fixture_put(h.to, "x", 1);
    assert_int_equal(hf_convert(&h, &out, &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "not a folder"));
    set_up(&h, dir, "single", "file/below");
    assert_int_equal(hf_convert(&h, &out, &err), ERR_IO);
    set_up(&h, dir, "single", "empty"); // an empty folder is as good as none
    fixture_must(file_mkdirs(h.to, &err), &err);
    fixture_must(hf_convert(&h, &out, &err), &err);
    fixture_rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splitting_and_joining_keep_every_bit),
        cmocka_unit_test(types_change_as_dtype_convert_says),
        cmocka_unit_test(every_dress_becomes_the_plain_one),
        cmocka_unit_test(berts_become_the_plain_ones),
        cmocka_unit_test(a_bert_is_tied_and_untied_and_its_rows_padded),
        cmocka_unit_test(heads_are_written_and_dropped_when_they_may_be),
        cmocka_unit_test(rows_are_padded_with_zeros_and_stripped_again),
        cmocka_unit_test(tokenizer_files_travel_and_targets_are_not_overwritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
