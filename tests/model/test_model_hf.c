// test_model_hf.c -- a ModelConfig as a config.json of transformers, and back: each head is a class
// of its own there, and nothing of the model is lost on the way.
//
// SPDX-License-Identifier: MIT
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "engine/base/buf.h"
#include "engine/base/file.h"
#include "engine/model/model_hf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(Status s, const Err *err)
{
    if (s != ERR_NONE) fail_msg("%s: %s", err_name(s), err->text);
}

// What is written is read again and made a model again.
static void there_and_back(const ModelConfig *c, HfConfig *hf, ModelConfig *again)
{
    char dir[] = "/tmp/lathe-hf-XXXXXX", path[PATH_CAP];
    Err err;
    Buf text = {0};
    assert_non_null(mkdtemp(dir));
    model_to_hf(hf, c, 5, DTYPE_BF16);
    must(hf_config_text(hf, &text, &err), &err);
    must(path_join(path, dir, "config.json", &err), &err);
    must(file_replace(path, text.data, text.len, &err), &err);
    must(hf_config_read(hf, dir, &err), &err);
    must(model_from_hf(again, hf, &err), &err);
    buf_free(&text);
    must(file_remove_tree(dir, &err), &err);
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-15;
}

static bool same_model(const ModelConfig *a, const ModelConfig *b)
{
    return a->n_layer == b->n_layer && a->n_head == b->n_head && a->n_embd == b->n_embd &&
           a->n_inner == b->n_inner && a->n_positions == b->n_positions &&
           a->vocab_size == b->vocab_size && a->n_types == b->n_types &&
           a->norm_position == b->norm_position && a->head == b->head && a->pooler == b->pooler &&
           a->n_labels == b->n_labels && a->causal == b->causal && a->bias_qkv == b->bias_qkv &&
           a->bias_proj == b->bias_proj && a->bias_mlp == b->bias_mlp &&
           a->bias_norm == b->bias_norm && a->tie_embeddings == b->tie_embeddings &&
           a->scale_attention == b->scale_attention && a->activation == b->activation &&
           a->n_window == b->n_window && near(a->norm_eps, b->norm_eps) &&
           near(a->init_std, b->init_std) && near(a->dropout_embed, b->dropout_embed) &&
           near(a->dropout_attention, b->dropout_attention) &&
           near(a->dropout_residual, b->dropout_residual);
}

static void every_head_of_bert_has_its_class(void **state)
{
    (void)state;
    static const struct {
        ModelHead head;
        bool pooler;
        int64_t labels;
        const char *name;
    } cases[] = {
        {HEAD_PRETRAIN, true, 0, "BertForPreTraining"},
        {HEAD_MLM, false, 0, "BertForMaskedLM"},
        {HEAD_NONE, true, 0, "BertModel"},
        {HEAD_CLASSIFY, true, 256, "BertForSequenceClassification"},
        {HEAD_TAG, false, 3, "BertForTokenClassification"},
        {HEAD_QA, false, 0, "BertForQuestionAnswering"},
    };
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        HfConfig hf;
        ModelConfig again, c = model_config_bert(2, 4, 64, 48, 100);
        c.head = cases[i].head;
        c.pooler = cases[i].pooler;
        c.n_labels = cases[i].labels;
        c.n_inner = 100;
        c.n_types = 3;
        c.activation = i & 1 ? ACT_GELU_TANH : ACT_GELU_ERF;
        c.tie_embeddings = i & 2;
        c.norm_eps = 1e-7;
        c.dropout_embed = c.dropout_residual = 0.1;
        c.dropout_attention = 0.2;
        there_and_back(&c, &hf, &again);
        assert_string_equal(hf.architecture, cases[i].name);
        assert_string_equal(hf.dtype, "bfloat16");
        assert_int_equal(hf.n_labels, cases[i].labels);
        if (hf.n_labels) assert_string_equal(hf.label[2], "LABEL_2");
        if (!same_model(&c, &again)) fail_msg("%s: another model", cases[i].name);
    }
}

static void gpt2_stays_what_it_is(void **state)
{
    (void)state;
    HfConfig hf;
    ModelConfig again, c = model_config_gpt2(2, 4, 64, 48, 100);
    c.bias_qkv = c.bias_proj = c.bias_mlp = c.bias_norm = false;
    c.tie_embeddings = false;
    c.dropout_residual = 0.1;
    there_and_back(&c, &hf, &again);
    assert_string_equal(hf.architecture, "GPT2LMHeadModel");
    assert_int_equal(hf.eos_token_id, 5);
    assert_true(same_model(&c, &again));
}

static void types_lathe_does_not_run_are_refused(void **state)
{
    (void)state;
    HfConfig hf;
    Err err;
    ModelConfig again, c = model_config_bert(2, 4, 64, 48, 100);
    model_to_hf(&hf, &c, -1, DTYPE_F32);
    snprintf(hf.model_type, sizeof hf.model_type, "roberta");
    assert_int_equal(model_from_hf(&again, &hf, &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "model_type roberta"));
    model_to_hf(&hf, &c, -1, DTYPE_F32);
    snprintf(hf.architecture, sizeof hf.architecture, "BertForMultipleChoice");
    assert_int_equal(model_from_hf(&again, &hf, &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "BertForMultipleChoice"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_head_of_bert_has_its_class),
        cmocka_unit_test(gpt2_stays_what_it_is),
        cmocka_unit_test(types_lathe_does_not_run_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
