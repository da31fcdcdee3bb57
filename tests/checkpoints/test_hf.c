// test_hf.c -- model folders: those of transformers load with the right numbers, ours come back as
// they were, and every wrong one is refused by name.
//
// SPDX-License-Identifier: MIT
#include "tests/checkpoints/ckpt_fixture.h"

#include "checkpoints/hf_slots.h"
#include "checkpoints/safetensors.h"
#include "engine/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/checkpoints/golden/values.h"

static const char *const folders[] = {"single", "sharded", "bf16", "f16", "untied",
                                      "headed", "bare",    "wrapped", "inner"};

static void folders_of_transformers_load_with_their_numbers(void **state)
{
    (void)state;
    fixture_check_folders(folders, LT_COUNT(folders), golden_tensors, LT_COUNT(golden_tensors));
}

static void every_dress_of_one_model_holds_the_same_bits(void **state)
{
    (void)state;
    const char *const same[] = {"single", "sharded", "headed", "wrapped"};
    fixture_check_same(same, LT_COUNT(same));
}

static void configs_of_transformers_are_understood(void **state)
{
    (void)state;
    char     dir[PATH_CAP];
    HfConfig c;
    Err      err;
    fixture_must(hf_config_read(&c, fixture_golden(dir, "inner"), &err), &err);
    assert_int_equal(c.n_layer, 2);
    assert_int_equal(c.n_head, 2);
    assert_int_equal(c.n_embd, 8);
    assert_int_equal(c.n_inner, 24);
    assert_int_equal(c.n_positions, 12);
    assert_int_equal(c.vocab_size, 20);
    assert_string_equal(c.activation, "relu");
    assert_false(c.scale_attn_weights);
    assert_true(c.tie_word_embeddings);
    assert_true(c.bias);
    assert_true(fabs(c.layer_norm_epsilon - 1e-6) < 1e-15);
    assert_int_equal(c.bos_token_id, -1);
    assert_int_equal(c.eos_token_id, 19);
    fixture_must(hf_config_read(&c, fixture_golden(dir, "bf16"), &err), &err);
    assert_string_equal(c.dtype, "bfloat16");
    assert_int_equal(c.n_inner, 32);
    fixture_must(hf_config_read(&c, fixture_golden(dir, "untied"), &err), &err);
    assert_false(c.tie_word_embeddings);
}

static void our_config_comes_back_as_it_was(void **state)
{
    (void)state;
    char dir[PATH_CAP], path[PATH_CAP];
    Err  err;
    fixture_mkdir(dir);
    HfConfig a, b;
    for (int k = 0; k < 8; k++) {
        fixture_config(&a);
        a.bias                = k & 1;
        a.tie_word_embeddings = k & 2;
        a.scale_attn_weights  = k & 4;
        a.eos_token_id        = k & 1 ? -1 : 3;
        a.embd_pdrop          = 0.1 * k;
        a.attn_pdrop          = 1.0 / 3;
        a.layer_norm_epsilon  = k ? 1e-5 : 1.2345678901234567e-7;
        snprintf(a.activation, sizeof a.activation, "%s", k & 1 ? "gelu" : "relu");
        snprintf(a.dtype, sizeof a.dtype, "%s", k & 1 ? "bfloat16" : "float32");
        Buf text = {0};
        fixture_must(hf_config_text(&a, &text, &err), &err);
        fixture_put(fixture_path(path, dir, "config.json"), text.data, text.len);
        fixture_must(hf_config_read(&b, dir, &err), &err);
        Buf again = {0};
        fixture_must(hf_config_text(&b, &again, &err), &err);
        assert_string_equal(text.data, again.data);
        assert_memory_equal(&a.layer_norm_epsilon, &b.layer_norm_epsilon, sizeof(double));
        assert_memory_equal(&a.attn_pdrop, &b.attn_pdrop, sizeof(double));
        assert_int_equal(a.bias, b.bias);
        assert_int_equal(a.eos_token_id, b.eos_token_id);
        buf_free(&text);
        buf_free(&again);
    }
    fixture_rmdir(dir);
}

#define SIZES "\"n_layer\":2,\"n_head\":2,\"n_embd\":8,\"vocab_size\":20"
#define GPT2  "{\"model_type\":\"gpt2\"," SIZES

static const struct {
    const char *text;
    Status      code;
    const char *says;
} bad_configs[] = {
    {"", ERR_FORMAT, "config.json: the file is empty"},
    {"{", ERR_FORMAT, "not valid JSON"},
    {"[1]", ERR_FORMAT, "holds an array"},
    {"{" SIZES "}", ERR_FORMAT, "model_type is missing"},
    {"{\"model_type\":\"llama\"," SIZES "}", ERR_UNSUPPORTED, "model_type \"llama\""},
    {"{\"model_type\":7," SIZES "}", ERR_FORMAT, "model_type is an integer, expected a string"},
    {GPT2 ",\"architectures\":[\"GPT2ForSequenceClassification\"]}", ERR_UNSUPPORTED,
     "GPT2ForSequenceClassification"},
    {GPT2 ",\"architectures\":\"GPT2\"}", ERR_FORMAT, "architectures is a string"},
    {"{\"model_type\":\"gpt2\",\"n_layer\":2,\"n_head\":2,\"n_embd\":8}", ERR_FORMAT,
     "vocab_size is missing"},
    {"{\"model_type\":\"gpt2\",\"n_layer\":\"2\",\"n_head\":2,\"n_embd\":8,\"vocab_size\":20}",
     ERR_FORMAT, "n_layer is a string, expected an integer"},
    {"{\"model_type\":\"gpt2\",\"n_layer\":2.5,\"n_head\":2,\"n_embd\":8,\"vocab_size\":20}",
     ERR_FORMAT, "n_layer is a real number"},
    {"{\"model_type\":\"gpt2\",\"n_layer\":-2,\"n_head\":2,\"n_embd\":8,\"vocab_size\":20}",
     ERR_FORMAT, "n_layer is -2"},
    {"{\"model_type\":\"gpt2\",\"n_layer\":2,\"n_head\":3,\"n_embd\":8,\"vocab_size\":20}",
     ERR_FORMAT, "n_embd 8 is not a multiple of n_head 3"},
    {"{\"model_type\":\"gpt2\",\"n_layer\":2,\"n_head\":2,\"n_embd\":8,\"vocab_size\":99999999999}",
     ERR_FORMAT, "vocab_size is 99999999999"},
    {"{\"model_type\":\"gpt2\",\"n_layer\":2,\"n_head\":2,\"n_embd\":99999999999999999999,"
     "\"vocab_size\":1}",
     ERR_FORMAT, "not valid JSON"},
    {GPT2 ",\"layer_norm_epsilon\":NaN}", ERR_FORMAT, "not valid JSON"},
    {GPT2 ",\"layer_norm_epsilon\":Infinity}", ERR_FORMAT, "not valid JSON"},
    {GPT2 ",\"layer_norm_epsilon\":1e999}", ERR_FORMAT, "not valid JSON"},
    {GPT2 ",\"layer_norm_epsilon\":0}", ERR_FORMAT, "layer_norm_epsilon is 0"},
    {GPT2 ",\"layer_norm_epsilon\":null}", ERR_FORMAT,
     "layer_norm_epsilon is null, expected a number"},
    {GPT2 ",\"resid_pdrop\":1.5}", ERR_FORMAT, "resid_pdrop is 1.5"},
    {GPT2 ",\"attn_pdrop\":-0.1}", ERR_FORMAT, "attn_pdrop is -0.1"},
    {GPT2 ",\"attn_pdrop\":\"none\"}", ERR_FORMAT, "attn_pdrop is a string, expected a number"},
    {GPT2 ",\"n_inner\":0}", ERR_FORMAT, "n_inner is 0"},
    {GPT2 ",\"n_positions\":[12]}", ERR_FORMAT, "n_positions is an array"},
    {GPT2 ",\"tie_word_embeddings\":1}", ERR_FORMAT, "tie_word_embeddings is an integer"},
    {GPT2 ",\"activation_function\":\"swish\"}", ERR_UNSUPPORTED, "activation_function \"swish\""},
    {GPT2 ",\"scale_attn_by_inverse_layer_idx\":true}", ERR_UNSUPPORTED,
     "scale_attn_by_inverse_layer_idx"},
    {GPT2 ",\"add_cross_attention\":true}", ERR_UNSUPPORTED, "add_cross_attention"},
    {GPT2 ",\"dtype\":\"a name that is much too long\"}", ERR_FORMAT, "dtype is too long"},
    {GPT2 ",\"n_layer\":2}", ERR_FORMAT, "duplicate"},
    {GPT2 "}\n}", ERR_FORMAT, "not valid JSON"},
};

static void wrong_configs_are_refused_by_key(void **state)
{
    (void)state;
    char dir[PATH_CAP], path[PATH_CAP];
    fixture_mkdir(dir);
    fixture_path(path, dir, "config.json");
    HfConfig c;
    Err      err;
    for (size_t i = 0; i < LT_COUNT(bad_configs); i++) {
        fixture_put(path, bad_configs[i].text, strlen(bad_configs[i].text));
        const Status s = hf_config_read(&c, dir, &err);
        if (s != bad_configs[i].code || !strstr(err.text, bad_configs[i].says) ||
            !strstr(err.text, path) || strchr(err.text, '\n'))
            fail_msg("%s\n%s: %s", bad_configs[i].text, err_name(s), err.text);
    }
    fixture_put(path, GPT2 "}", strlen(GPT2 "}")); // everything else has a default
    fixture_must(hf_config_read(&c, dir, &err), &err);
    assert_int_equal(c.n_positions, 1024);
    assert_int_equal(c.n_inner, 32);
    assert_string_equal(c.dtype, "float32");
    assert_int_equal(file_remove(path, NULL), ERR_NONE);
    assert_int_equal(hf_config_read(&c, dir, &err), ERR_IO);
    fixture_rmdir(dir);
}

static void what_we_save_loads_again(void **state)
{
    (void)state;
    char dir[PATH_CAP];
    Err  err;
    fixture_mkdir(dir);
    const DType types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    for (int k = 0; k < 12; k++) {
        HfConfig c;
        Fixture  a, b;
        fixture_config(&c);
        const DType as        = types[k % 3];
        c.tie_word_embeddings = k & 1;
        c.bias                = k / 6;
        fixture_model(&a, &c, (uint64_t)k);
        fixture_model(&b, &c, 99);
        uint32_t crc = 0, crc2 = 0;
        uint64_t bytes = 0, bytes2 = 0;
        char     path[PATH_CAP];
        fixture_must(hf_save(dir, &c, a.t, a.n, as, &crc, &bytes, &err), &err);
        fixture_must(file_crc(fixture_path(path, dir, "model.safetensors"), &crc2, &bytes2, &err),
                     &err);
        assert_int_equal(crc, crc2);
        assert_int_equal(bytes, bytes2);
        fixture_must(hf_load(dir, &c, b.t, b.n, &err), &err);
        for (int i = 0; i < a.n; i++) // what the file's precision leaves of the numbers
            for (int64_t e = 0; e < tensor_count(&a.t[i]); e++) {
                float *x = (float *)a.t[i].data + e;
                float  h;
                dtype_store(&h, as, 0, *x);
                *x = dtype_load(&h, as, 0);
            }
        assert_true(fixture_equal(&a, &b));
        SafeFile f;
        fixture_must(safe_open(&f, path, &err), &err);
        assert_string_equal(safe_meta(&f, "format"), "pt");
        assert_non_null(safe_find(&f, "transformer.h.1.attn.c_attn.bias")); // zeros without biases
        assert_int_equal(safe_find(&f, "transformer.h.1.mlp.c_fc.weight")->shape[0], 8);
        assert_int_equal(safe_find(&f, "lm_head.weight") != NULL, !c.tie_word_embeddings);
        safe_close(&f);
        fixture_free(&a);
        fixture_free(&b);
    }
    fixture_rmdir(dir);
}

// One change to a good folder; load must refuse it.
typedef struct Change {
    const char *what;
    const char *drop;          // tensor left out
    const char *add;           // tensor put in
    const char *shape_of;      // tensor given one more row
    const char *as_ids;        // tensor written as I32
    bool        tied, no_bias; // of the config
    const char *says, *hint;
} Change;

static const Change changes[] = {
    {"missing", "transformer.h.1.ln_1.weight", NULL, NULL, NULL, true, false,
     "tensor \"transformer.h.1.ln_1.weight\" is missing", ""},
    {"missing embedding", "transformer.wte.weight", NULL, NULL, NULL, true, false,
     "tensor \"transformer.wte.weight\" is missing", ""},
    {"extra", NULL, "score.weight", NULL, NULL, true, false,
     "tensor \"score.weight\" is not part of a GPT2LMHeadModel with 2 layers", ""},
    {"extra block", NULL, "transformer.h.2.ln_1.weight", NULL, NULL, true, false,
     "\"transformer.h.2.ln_1.weight\" is not part", ""},
    {"twice", NULL, "ln_f.weight", NULL, NULL, true, false, "are the same one, twice", ""},
    {"shape", NULL, NULL, "transformer.wpe.weight", NULL, true, false,
     "tensor \"transformer.wpe.weight\" has shape [13, 8], the model wants [12, 8]", ""},
    {"shape of a transposed one", NULL, NULL, "transformer.h.0.mlp.c_fc.weight", NULL, true, false,
     "has shape [9, 32], the model wants [8, 32]", ""},
    {"dtype", NULL, NULL, NULL, "transformer.ln_f.bias", true, false, "has dtype I32", ""},
    {"head missing", NULL, NULL, NULL, NULL, false, false, "tensor \"lm_head.weight\" is missing",
     "tie_word_embeddings"},
    {"tied, with another head", NULL, "lm_head.weight", NULL, NULL, true, false,
     "lm_head.weight differs from wte.weight", "tie_word_embeddings"},
    {"no biases, but there they are", NULL, NULL, NULL, NULL, true, true,
     "says the model has no biases, but tensor", ""},
};

static void write_changed(const char *dir, const Change *c)
{
    char     from[PATH_CAP], golden[PATH_CAP], path[PATH_CAP];
    SafeFile f;
    Err      err;
    fixture_golden(golden, "single");
    fixture_must(safe_open(&f, fixture_path(from, golden, "model.safetensors"), &err), &err);
    static const float zeros[4096];
    Tensor             t[FIXTURE_TENSORS];
    int                n = 0;
    for (int i = 0; i < f.n; i++) {
        const SafeEntry *e = &f.entry[i];
        if (c->drop && strcmp(e->name, c->drop) == 0) continue;
        t[n] = (Tensor){.dtype = e->dtype, .rank = e->rank, .data = (void *)(uintptr_t)e->data};
        snprintf(t[n].name, sizeof t[n].name, "%s", e->name);
        for (int d = 0; d < e->rank; d++) t[n].shape[d] = e->shape[d];
        if (c->shape_of && strcmp(e->name, c->shape_of) == 0) {
            t[n].shape[0]++;
            t[n].data = (void *)(uintptr_t)zeros;
        }
        if (c->as_ids && strcmp(e->name, c->as_ids) == 0) t[n].dtype = DTYPE_I32;
        n++;
    }
    if (c->add) {
        t[n] = (Tensor){.rank = 2, .shape = {20, 8}, .data = (void *)(uintptr_t)zeros};
        snprintf(t[n++].name, sizeof t[0].name, "%s", c->add);
    }
    fixture_must(
        safe_write(fixture_path(path, dir, "model.safetensors"), t, n, -1, NULL, NULL, NULL, &err),
        &err);
    safe_close(&f);
}

static void wrong_tensors_are_refused_by_name(void **state)
{
    (void)state;
    char dir[PATH_CAP];
    fixture_mkdir(dir);
    for (size_t i = 0; i < LT_COUNT(changes); i++) {
        const Change *c = &changes[i];
        HfConfig      config;
        Fixture       f, before;
        Err           err;
        fixture_config(&config);
        config.tie_word_embeddings = c->tied;
        config.bias                = !c->no_bias;
        fixture_model(&f, &config, 3);
        fixture_model(&before, &config, 3);
        write_changed(dir, c);
        const Status s = hf_load(dir, &config, f.t, f.n, &err);
        if (s != ERR_FORMAT || !strstr(err.text, c->says) || !strstr(err.hint, c->hint) ||
            !strstr(err.text, dir) || strchr(err.text, '\n'))
            fail_msg("%s: %s: %s", c->what, err_name(s), err.text);
        assert_true(fixture_equal(&f, &before)); // nothing was touched
        fixture_free(&f);
        fixture_free(&before);
    }
    fixture_rmdir(dir);
}

static const struct {
    const char *what, *index, *says; // index NULL: the file stays as it is
    const char *remove;
} bad_indexes[] = {
    {"shard absent", NULL, "shard \"model-00002-of-00004.safetensors\" is missing",
     "model-00002-of-00004.safetensors"},
    {"empty", "", "the file is empty", NULL},
    {"no map", "{}", "weight_map is nothing", NULL},
    {"empty map", "{\"weight_map\":{}}", "weight_map is empty", NULL},
    {"map is a list", "{\"weight_map\":[]}", "weight_map is an array", NULL},
    {"shard is a number", "{\"weight_map\":{\"a\":1}}", "is an integer, expected a file name",
     NULL},
    {"path out of the folder", "{\"weight_map\":{\"a\":\"../x.safetensors\"}}",
     "not the name of a file", NULL},
    {"tensor not in its shard", "{\"weight_map\":{\"a\":\"model-00001-of-00004.safetensors\"}}",
     "tensor \"a\" is not in shard", NULL},
    {"shard lists more",
     "{\"weight_map\":{\"transformer.ln_f.bias\":\"model-00004-of-00004.safetensors\"}}",
     "is not listed", NULL},
    {"cut short", "{\"weight_map\":{\"a\":", "not valid JSON", NULL},
};

static void wrong_indexes_are_refused_by_name(void **state)
{
    (void)state;
    char dir[PATH_CAP], sub[PATH_CAP], path[PATH_CAP], golden[PATH_CAP];
    fixture_mkdir(dir);
    for (size_t i = 0; i < LT_COUNT(bad_indexes); i++) {
        HfConfig c;
        Fixture  f;
        Err      err;
        fixture_copy(fixture_path(sub, dir, "m"), fixture_golden(golden, "sharded"));
        if (bad_indexes[i].index)
            fixture_put(fixture_path(path, sub, "model.safetensors.index.json"),
                        bad_indexes[i].index, strlen(bad_indexes[i].index));
        if (bad_indexes[i].remove)
            assert_int_equal(file_remove(fixture_path(path, sub, bad_indexes[i].remove), NULL), 0);
        fixture_must(hf_config_read(&c, sub, &err), &err);
        fixture_model(&f, &c, 1);
        const Status s = hf_load(sub, &c, f.t, f.n, &err);
        if (s != ERR_FORMAT || !strstr(err.text, bad_indexes[i].says) || strchr(err.text, '\n'))
            fail_msg("%s: %s: %s", bad_indexes[i].what, err_name(s), err.text);
        fixture_free(&f);
        fixture_rmdir(sub);
    }
    fixture_rmdir(dir);
}

static void a_folder_without_weights_says_what_is_needed(void **state)
{
    (void)state;
    char dir[PATH_CAP], path[PATH_CAP], golden[PATH_CAP];
    fixture_mkdir(dir);
    HfConfig c;
    Fixture  f;
    Err      err;
    fixture_must(hf_config_read(&c, fixture_golden(golden, "single"), &err), &err);
    fixture_model(&f, &c, 1);
    fixture_put(fixture_path(path, dir, "pytorch_model.bin"), "x", 1);
    assert_int_equal(hf_load(dir, &c, f.t, f.n, &err), ERR_FORMAT);
    assert_non_null(strstr(err.text, "neither model.safetensors nor"));
    assert_non_null(strstr(err.hint, "pytorch_model.bin"));
    fixture_free(&f);
    fixture_rmdir(dir);
}

static void prefixes_come_off_in_any_order(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
        bool        ignored;
    } cases[] = {
        {"wte.weight", "wte.weight", false},
        {"transformer.wte.weight", "wte.weight", false},
        {"module.transformer.wte.weight", "wte.weight", false},
        {"_orig_mod.module.transformer.wte.weight", "wte.weight", false},
        {"module._orig_mod.module.lm_head.weight", "lm_head.weight", false},
        {"transformer.h.11.attn.bias", "h.11.attn.bias", true},
        {"h.0.attn.masked_bias", "h.0.attn.masked_bias", true},
        {"h.0.attn.c_attn.bias", "h.0.attn.c_attn.bias", false},
        {"h.x.attn.bias", "h.x.attn.bias", false},
        {"h.1.mlp.attn.bias", "h.1.mlp.attn.bias", false},
    };
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        assert_string_equal(hf_slots_strip(cases[i].from), cases[i].to);
        assert_int_equal(hf_slots_ignored(cases[i].to), cases[i].ignored);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_of_transformers_load_with_their_numbers),
        cmocka_unit_test(every_dress_of_one_model_holds_the_same_bits),
        cmocka_unit_test(configs_of_transformers_are_understood),
        cmocka_unit_test(our_config_comes_back_as_it_was),
        cmocka_unit_test(wrong_configs_are_refused_by_key),
        cmocka_unit_test(what_we_save_loads_again),
        cmocka_unit_test(wrong_tensors_are_refused_by_name),
        cmocka_unit_test(wrong_indexes_are_refused_by_name),
        cmocka_unit_test(a_folder_without_weights_says_what_is_needed),
        cmocka_unit_test(prefixes_come_off_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
