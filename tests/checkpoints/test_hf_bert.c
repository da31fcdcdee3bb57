// test_hf_bert.c -- BERT's folders: those of transformers load with the right numbers under every
// name they have had, ours come back as they were, wrong ones are refused by name, and a trunk goes
// under another head.
//
// SPDX-License-Identifier: MIT
#include "tests/checkpoints/ckpt_fixture.h"

#include "checkpoints/hf_slots.h"
#include "checkpoints/safetensors.h"
#include "engine/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/checkpoints/golden/values_bert.h"

static const char *const folders[] = {"bert_pretrain", "bert_mlm",    "bert_model", "bert_nopool",
                                      "bert_classify", "bert_tag",    "bert_qa",    "bert_sharded",
                                      "bert_bf16",     "bert_untied", "bert_bare",  "bert_old"};

static const char *const architectures[] = {
    "BertForPreTraining",
    "BertForMaskedLM",
    "BertModel",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertForQuestionAnswering",
};

static void folders_of_transformers_load_with_their_numbers(void **state)
{
    (void)state;
    fixture_check_folders(folders, LT_COUNT(folders), golden_bert_tensors,
                          LT_COUNT(golden_bert_tensors));
}

static void every_dress_of_one_model_holds_the_same_bits(void **state)
{
    (void)state;
    const char *const same[] = {"bert_pretrain", "bert_sharded", "bert_bare"};
    fixture_check_same(same, LT_COUNT(same));
}

static void read_golden(HfConfig *c, const char *folder)
{
    char dir[PATH_CAP];
    Err err;
    fixture_must(hf_config_read(c, fixture_golden(dir, folder), &err), &err);
}

static void configs_of_transformers_are_understood(void **state)
{
    (void)state;
    HfConfig c;
    read_golden(&c, "bert_pretrain");
    assert_string_equal(c.architecture, "BertForPreTraining");
    assert_int_equal(c.n_layer, 2);
    assert_int_equal(c.n_head, 2);
    assert_int_equal(c.n_embd, 8);
    assert_int_equal(c.n_inner, 16);
    assert_int_equal(c.n_positions, 12);
    assert_int_equal(c.vocab_size, 20);
    assert_int_equal(c.n_types, 3);
    assert_string_equal(c.activation, "gelu");
    assert_true(fabs(c.layer_norm_epsilon - 1e-12) < 1e-20);
    assert_true(fabs(c.embd_pdrop - 0.1) < 1e-12 && fabs(c.resid_pdrop - 0.1) < 1e-12);
    assert_true(c.classifier_dropout < 0);
    assert_int_equal(c.pad_token_id, 0);
    assert_int_equal(c.eos_token_id, -1);
    assert_int_equal(c.n_labels, 0);
    assert_true(c.has_pooler && c.tie_word_embeddings && c.bias && c.scale_attn_weights);
    read_golden(&c, "bert_tag");
    assert_int_equal(c.n_labels, 3);
    assert_string_equal(c.label[1], "B-PER");
    assert_string_equal(c.label[2], "na\xc3\xafve");
    assert_string_equal(c.activation, "gelu_new");
    assert_int_equal(c.pad_token_id, -1);
    assert_true(fabs(c.classifier_dropout - 0.25) < 1e-12);
    assert_false(c.has_pooler);
    read_golden(&c, "bert_model");
    assert_true(c.has_pooler);
    read_golden(&c, "bert_nopool"); // the same config.json; the weights say it
    assert_string_equal(c.architecture, "BertModel");
    assert_false(c.has_pooler);
    read_golden(&c, "bert_untied");
    assert_false(c.tie_word_embeddings);
    read_golden(&c, "bert_qa");
    assert_true(fabs(c.layer_norm_epsilon - 1e-6) < 1e-14);
}

static void our_config_comes_back_as_it_was(void **state)
{
    (void)state;
    char dir[PATH_CAP], path[PATH_CAP];
    Err err;
    fixture_mkdir(dir);
    for (size_t k = 0; k < LT_COUNT(architectures); k++) {
        HfConfig a, b;
        fixture_bert(&a, architectures[k]);
        a.n_types = 1 + (int64_t)k;
        a.pad_token_id = k & 1 ? -1 : 7;
        a.classifier_dropout = k & 1 ? -1 : 0.3;
        a.resid_pdrop = a.embd_pdrop = 1.0 / 3;
        a.attn_pdrop = 0.05 * (double)k;
        a.tie_word_embeddings = k & 2;
        if (a.n_labels) snprintf(a.label[2], sizeof a.label[2], "a \"quoted\" \\ one\n");
        Buf text = {0}, again = {0};
        fixture_must(hf_config_text(&a, &text, &err), &err);
        fixture_put(fixture_path(path, dir, "config.json"), text.data, text.len);
        fixture_must(hf_config_read(&b, dir, &err), &err);
        fixture_must(hf_config_text(&b, &again, &err), &err);
        assert_string_equal(text.data, again.data);
        assert_string_equal(b.architecture, architectures[k]);
        assert_memory_equal(&a.resid_pdrop, &b.resid_pdrop, sizeof(double));
        assert_memory_equal(&a.classifier_dropout, &b.classifier_dropout, sizeof(double));
        assert_memory_equal(a.label, b.label, sizeof a.label);
        assert_int_equal(a.n_labels, b.n_labels);
        assert_int_equal(a.pad_token_id, b.pad_token_id);
        assert_int_equal(a.has_pooler, b.has_pooler);
        buf_free(&text);
        buf_free(&again);
    }
    fixture_rmdir(dir);
}

static void what_config_json_cannot_say_is_not_written(void **state)
{
    (void)state;
    HfConfig c;
    Err err;
    Buf text = {0};
    fixture_bert(&c, "BertModel");
    c.bias = false;
    assert_int_equal(hf_config_text(&c, &text, &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no biases"));
    fixture_bert(&c, "BertModel");
    c.embd_pdrop = 0.5;
    assert_int_equal(hf_config_text(&c, &text, &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "one dropout"));
    buf_free(&text);
}

#define SIZES                                                                                      \
    "\"model_type\":\"bert\",\"num_hidden_layers\":2,\"num_attention_heads\":2,"                   \
    "\"hidden_size\":8,\"intermediate_size\":16,\"vocab_size\":20"
#define BERT   "{" SIZES
#define TAG    BERT ",\"architectures\":[\"BertForTokenClassification\"]"
#define LABELS TAG ",\"id2label\":"
#define LONG   "0123456789012345678901234567890123456789012345678901234567890123"

static const struct {
    const char *text;
    Status code;
    const char *says;
} bad_configs[] = {
    {"{\"model_type\":\"bert\",\"num_hidden_layers\":2}", ERR_FORMAT,
     "num_attention_heads is missing"},
    {"{\"model_type\":\"bert\",\"num_hidden_layers\":2,\"num_attention_heads\":2,\"hidden_size\":8,"
     "\"vocab_size\":20}",
     ERR_FORMAT, "intermediate_size is missing"},
    {"{\"model_type\":\"roberta\"}", ERR_UNSUPPORTED, "model_type \"roberta\""},
    {BERT ",\"architectures\":[\"BertForMultipleChoice\"]}", ERR_UNSUPPORTED,
     "architecture \"BertForMultipleChoice\""},
    {BERT ",\"architectures\":[\"GPT2LMHeadModel\"]}", ERR_UNSUPPORTED,
     "architecture \"GPT2LMHeadModel\""},
    {"{\"model_type\":\"bert\",\"num_hidden_layers\":2,\"num_attention_heads\":3,\"hidden_size\":8,"
     "\"vocab_size\":20,\"intermediate_size\":1}",
     ERR_FORMAT, "hidden_size 8 is not a multiple of num_attention_heads 3"},
    {BERT ",\"type_vocab_size\":0}", ERR_FORMAT, "type_vocab_size is 0"},
    {BERT ",\"hidden_act\":\"swish\"}", ERR_UNSUPPORTED, "hidden_act \"swish\""},
    {BERT ",\"hidden_dropout_prob\":1}", ERR_FORMAT, "hidden_dropout_prob is 1"},
    {BERT ",\"classifier_dropout\":\"no\"}", ERR_FORMAT, "classifier_dropout is a string"},
    {BERT ",\"layer_norm_eps\":0}", ERR_FORMAT, "layer_norm_eps is 0"},
    {BERT ",\"position_embedding_type\":\"relative_key\"}", ERR_UNSUPPORTED,
     "position_embedding_type is \"relative_key\""},
    {BERT ",\"is_decoder\":true}", ERR_UNSUPPORTED, "is_decoder is true"},
    {BERT ",\"add_cross_attention\":true}", ERR_UNSUPPORTED, "add_cross_attention is true"},
    {BERT ",\"pad_token_id\":\"x\"}", ERR_FORMAT, "pad_token_id is a string"},
    {TAG ",\"problem_type\":\"regression\"}", ERR_UNSUPPORTED, "problem_type is \"regression\""},
    {TAG ",\"num_labels\":0}", ERR_FORMAT, "num_labels is 0"},
    {TAG ",\"num_labels\":257}", ERR_FORMAT, "num_labels is 257"},
    {LABELS "[\"a\"]}", ERR_FORMAT, "id2label is an array"},
    {LABELS "{}}", ERR_FORMAT, "id2label has 0 labels"},
    {LABELS "{\"0\":\"a\",\"2\":\"b\"}}", ERR_FORMAT, "id2label has the id \"2\", expected 0 to 1"},
    {LABELS "{\"0\":\"a\",\"01\":\"b\"}}", ERR_FORMAT, "id2label has the id \"01\""},
    {LABELS "{\"0\":\"a\",\"-0\":\"b\"}}", ERR_FORMAT, "id2label has the id \"-0\""},
    {LABELS "{\"0\":\"a\",\"9223372036854775807\":\"b\"}}", ERR_FORMAT, "has the id \"922337"},
    {LABELS "{\"0\":\"a\",\"x\":\"b\"}}", ERR_FORMAT, "id2label has the id \"x\""},
    {LABELS "{\"0\":\"a\",\"1\":7}}", ERR_FORMAT, "id2label[\"1\"] is an integer"},
    {LABELS "{\"0\":\"a\",\"1\":\"\"}}", ERR_FORMAT, "label 1 is empty"},
    {LABELS "{\"0\":\"a\",\"1\":\"a\"}}", ERR_FORMAT, "labels 0 and 1 are both \"a\""},
    {LABELS "{\"0\":\"a\",\"1\":\"" LONG "\"}}", ERR_FORMAT, "label 1 is longer than 63 bytes"},
};

static void wrong_configs_are_refused_by_key(void **state)
{
    (void)state;
    char dir[PATH_CAP], path[PATH_CAP];
    fixture_mkdir(dir);
    fixture_path(path, dir, "config.json");
    HfConfig c;
    Err err;
    for (size_t i = 0; i < LT_COUNT(bad_configs); i++) {
        fixture_put(path, bad_configs[i].text, strlen(bad_configs[i].text));
        const Status s = hf_config_read(&c, dir, &err);
        if (s != bad_configs[i].code || !strstr(err.text, bad_configs[i].says) ||
            !strstr(err.text, path) || strchr(err.text, '\n'))
            fail_msg("%s\n%s: %s", bad_configs[i].text, err_name(s), err.text);
    }
    fixture_put(path, BERT "}", strlen(BERT "}")); // everything else has a default
    fixture_must(hf_config_read(&c, dir, &err), &err);
    assert_string_equal(c.architecture, "BertModel");
    assert_int_equal(c.n_positions, 512);
    assert_int_equal(c.n_types, 2);
    assert_true(c.has_pooler);
    fixture_put(path, TAG ",\"num_labels\":3}", strlen(TAG ",\"num_labels\":3}"));
    fixture_must(hf_config_read(&c, dir, &err), &err);
    assert_int_equal(c.n_labels, 3);
    assert_string_equal(c.label[2], "LABEL_2");
    fixture_rmdir(dir);
}

static void what_we_save_loads_again(void **state)
{
    (void)state;
    char dir[PATH_CAP], path[PATH_CAP];
    Err err;
    fixture_mkdir(dir);
    fixture_path(path, dir, "model.safetensors");
    for (int k = 0; k < 2 * (int)LT_COUNT(architectures); k++) {
        HfConfig c;
        Fixture a, b;
        SafeFile f;
        uint32_t crc = 0;
        uint64_t bytes = 0;
        const char *const name = architectures[k / 2];
        fixture_bert(&c, name);
        c.tie_word_embeddings = k & 1;
        fixture_model(&a, &c, (uint64_t)k);
        fixture_model(&b, &c, 99);
        fixture_must(hf_save(dir, &c, a.t, a.n, DTYPE_F32, &crc, &bytes, &err), &err);
        fixture_must(hf_load(dir, &c, b.t, b.n, &err), &err);
        assert_true(fixture_equal(&a, &b));
        fixture_must(safe_open(&f, path, &err), &err);
        const SafeEntry *key = safe_find(
            &f, strcmp(name, "BertModel") == 0 ? "encoder.layer.1.attention.self.key.weight"
                                               : "bert.encoder.layer.1.attention.self.key.weight");
        assert_non_null(key);
        assert_int_equal(key->rank, 2);
        assert_int_equal(key->shape[0], 8);
        const Tensor *qkv = fixture_tensor(&a, "block.1.attn.qkv.weight");
        assert_memory_equal(key->data, (const float *)qkv->data + 8 * 8, 8 * 8 * sizeof(float));
        const bool decoder =
            strcmp(name, "BertForPreTraining") == 0 || strcmp(name, "BertForMaskedLM") == 0;
        const bool untied = decoder && !c.tie_word_embeddings;
        assert_int_equal(safe_find(&f, "cls.predictions.bias") != NULL, decoder);
        assert_int_equal(safe_find(&f, "cls.predictions.decoder.weight") != NULL, untied);
        assert_int_equal(safe_find(&f, "cls.predictions.decoder.bias") != NULL, untied);
        safe_close(&f);
        fixture_free(&a);
        fixture_free(&b);
    }
    fixture_rmdir(dir);
}

// One change to a good folder; load must refuse it, or not.
typedef struct Change {
    const char *what, *folder;
    const char *drop, *add; // tensors left out (those whose names hold it) and put in
    const char *as;         // a copy of this tensor's numbers for the one put in; NULL: zeros
    const char *says;       // NULL: it loads
    const char *hint;
} Change;

#define WORDS "bert.embeddings.word_embeddings.weight"
static const Change changes[] = {
    {"missing", "bert_pretrain", "layer.1.attention.self.key.weight", NULL, NULL,
     "\"bert.encoder.layer.1.attention.self.key.weight\" is missing", ""},
    {"missing in a BertModel", "bert_model", "embeddings.LayerNorm.weight", NULL, NULL,
     "tensor \"embeddings.LayerNorm.weight\" is missing", ""},
    {"head missing", "bert_classify", "classifier", NULL, NULL,
     "tensor \"classifier.weight\" is missing (and 1 more)", ""},
    {"half a head", "bert_pretrain", "transform.dense.bias", NULL, NULL,
     "\"cls.predictions.transform.dense.bias\" is missing", ""},
    {"no decoder", "bert_untied", "decoder.weight", NULL, NULL,
     "\"cls.predictions.decoder.weight\" is missing", "tie_word_embeddings"},
    {"no decoder's bias", "bert_untied", "decoder.bias", NULL, NULL, NULL, ""},
    {"no other bias", "bert_untied", "predictions.bias", NULL, NULL, NULL, ""},
    {"another layer", "bert_mlm", NULL, "bert.encoder.layer.2.output.dense.bias", NULL,
     "is not part of a BertForMaskedLM with 2 layers", ""},
    {"more of its own head", "bert_classify", NULL, "classifier.out.weight", NULL,
     "tensor \"classifier.out.weight\" is not part", ""},
    {"a head nobody knows", "bert_mlm", NULL, "crf.weight", NULL, "\"crf.weight\" is not part", ""},
    {"another head", "bert_mlm", NULL, "qa_outputs.weight", NULL, NULL, ""},
    {"the decoder, tied", "bert_mlm", NULL, "cls.predictions.decoder.weight", WORDS, NULL, ""},
    {"another decoder, tied", "bert_mlm", NULL, "cls.predictions.decoder.weight", NULL,
     "cls.predictions.decoder.weight differs from embeddings.word_embeddings.weight",
     "tie_word_embeddings"},
    {"twice, the same", "bert_mlm", NULL, "cls.predictions.decoder.bias", "cls.predictions.bias",
     NULL, ""},
    {"twice, but not the same", "bert_mlm", NULL, "cls.predictions.decoder.bias", NULL,
     "are the same one, but differ", ""},
    {"old and new name", "bert_mlm", NULL, "bert.embeddings.LayerNorm.gamma", NULL,
     "\"bert.embeddings.LayerNorm.gamma\" are the same one, but differ", ""},
    {"two prefixes", "bert_mlm", NULL, "embeddings.word_embeddings.weight", WORDS,
     "are the same one, twice", ""},
};

static void write_changed(const char *dir, const Change *c)
{
    char from[PATH_CAP], golden[PATH_CAP], path[PATH_CAP];
    SafeFile f;
    Err err;
    fixture_golden(golden, c->folder);
    fixture_must(safe_open(&f, fixture_path(from, golden, "model.safetensors"), &err), &err);
    static const float zeros[4096];
    Tensor t[FIXTURE_TENSORS];
    int n = 0;
    for (int i = 0; i < f.n; i++) {
        const SafeEntry *e = &f.entry[i];
        if (c->drop && strstr(e->name, c->drop)) continue;
        t[n] = (Tensor){.dtype = e->dtype, .rank = e->rank, .data = (void *)(uintptr_t)e->data};
        snprintf(t[n].name, sizeof t[n].name, "%s", e->name);
        for (int d = 0; d < e->rank; d++) t[n].shape[d] = e->shape[d];
        n++;
    }
    if (c->add) {
        const SafeEntry *like = c->as ? safe_find(&f, c->as) : NULL;
        const int rank = strstr(c->add, "weight") ? 2 : 1;
        t[n] = (Tensor){.rank = rank, .shape = {20, 8}, .data = (void *)(uintptr_t)zeros};
        if (strstr(c->add, "gamma")) t[n].shape[0] = 8;
        if (like) t[n].data = (void *)(uintptr_t)like->data;
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
        Fixture f, before;
        HfConfig config;
        Err err = {0};
        read_golden(&config, c->folder);
        fixture_model(&f, &config, 3);
        fixture_model(&before, &config, 3);
        write_changed(dir, c);
        const Status s = hf_load(dir, &config, f.t, f.n, &err);
        if (!c->says && s != ERR_NONE) fail_msg("%s: %s", c->what, err.text);
        if (c->says && (s != ERR_FORMAT || !strstr(err.text, c->says) ||
                        !strstr(err.hint, c->hint) || strchr(err.text, '\n')))
            fail_msg("%s: %s: %s", c->what, err_name(s), err.text);
        assert_int_equal(fixture_equal(&f, &before), c->says != NULL); // all or nothing
        fixture_free(&f);
        fixture_free(&before);
    }
    fixture_rmdir(dir);
}

static void stale_bias_of_an_untied_decoder_is_not_read(void **state)
{
    (void)state;
    char dir[PATH_CAP];
    Fixture both, one;
    fixture_mkdir(dir);
    HfConfig c;
    Err err;
    read_golden(&c, "bert_untied");
    fixture_load_golden(&both, "bert_untied");
    fixture_model(&one, &c, 1);
    write_changed(dir, &(Change){.folder = "bert_untied", .drop = "predictions.bias"});
    fixture_must(hf_load(dir, &c, one.t, one.n, &err), &err);
    assert_true(fixture_equal(&both, &one));
    write_changed(dir, &(Change){.folder = "bert_untied", .drop = "decoder.bias"});
    fixture_must(hf_load(dir, &c, one.t, one.n, &err), &err);
    assert_false(fixture_equal(&both, &one)); // transformers 5 leaves another one there
    fixture_free(&both);
    fixture_free(&one);
    fixture_rmdir(dir);
}

static const struct {
    const char *folder, *architecture; // of the file and of the model
    const char *lacking, *ignored;
    const char *label; // another name for label 1
} trunks[] = {
    {"bert_pretrain", "BertForSequenceClassification", "classifier",
     "cls.predictions, cls.seq_relationship", NULL},
    {"bert_pretrain", "BertForTokenClassification", "classifier",
     "cls.predictions, cls.seq_relationship, pooler", NULL},
    {"bert_pretrain", "BertForQuestionAnswering", "qa_outputs",
     "cls.predictions, cls.seq_relationship, pooler", NULL},
    {"bert_pretrain", "BertForMaskedLM", "", "cls.seq_relationship, pooler", NULL},
    {"bert_pretrain", "BertForPreTraining", "", "", NULL},
    {"bert_old", "BertForPreTraining", "", "", NULL},
    {"bert_model", "BertForPreTraining", "cls.predictions, cls.seq_relationship", "", NULL},
    {"bert_nopool", "BertForSequenceClassification", "pooler, classifier", "", NULL},
    {"bert_mlm", "BertModel", "pooler", "cls.predictions", NULL},
    {"bert_classify", "BertForSequenceClassification", "", "", NULL},
    {"bert_classify", "BertForSequenceClassification", "classifier", "classifier", "other"},
    {"bert_classify", "BertForTokenClassification", "classifier", "classifier, pooler", NULL},
};

static bool is_of(const char *tensor, const char *heads) // a list of heads, by the file's names
{
    static const char *const names[][2] = {{"pooler.", "pooler"},
                                           {"mlm.", "cls.predictions"},
                                           {"nsp.", "cls.seq_relationship"},
                                           {"classify.", "classifier"},
                                           {"qa.", "qa_outputs"}};
    for (size_t i = 0; i < LT_COUNT(names); i++)
        if (strncmp(tensor, names[i][0], strlen(names[i][0])) == 0)
            return strstr(heads, names[i][1]) != NULL;
    return false;
}

static void a_trunk_goes_under_another_head(void **state)
{
    (void)state;
    for (size_t i = 0; i < LT_COUNT(trunks); i++) {
        char dir[PATH_CAP];
        HfConfig c, file;
        HfHeads heads;
        Fixture f, before, from;
        Err err;
        fixture_bert(&c, trunks[i].architecture);
        c.n_types = 3;
        if (trunks[i].label) snprintf(c.label[1], sizeof c.label[1], "%s", trunks[i].label);
        fixture_model(&f, &c, 5);
        fixture_model(&before, &c, 5);
        fixture_golden(dir, trunks[i].folder);
        fixture_must(hf_load_trunk(dir, &c, f.t, f.n, &heads, &err), &err);
        assert_string_equal(heads.lacking, trunks[i].lacking);
        assert_string_equal(heads.ignored, trunks[i].ignored);
        read_golden(&file, trunks[i].folder);
        fixture_load_golden(&from, trunks[i].folder);
        for (int k = 0; k < f.n; k++) {
            const Tensor *t = &f.t[k];
            const bool kept = is_of(t->name, trunks[i].lacking);
            const Tensor *want = fixture_tensor(kept ? &before : &from, t->name);
            if (!want) continue; // bert_old has more than its own architecture knows
            if (memcmp(t->data, want->data, (size_t)tensor_count(t) * sizeof(float)) != 0)
                fail_msg("%s into a %s: %s", trunks[i].folder, trunks[i].architecture, t->name);
        }
        fixture_free(&f);
        fixture_free(&before);
        fixture_free(&from);
    }
}

static void a_trunk_must_be_whole_and_of_its_kind(void **state)
{
    (void)state;
    char dir[PATH_CAP], golden[PATH_CAP], path[PATH_CAP];
    HfConfig c;
    HfHeads heads;
    Fixture f, before;
    Err err;
    static const struct {
        Change change;
        const char *says;
    } cases[] = {
        {{.folder = "bert_pretrain", .drop = "layer.0.output.dense.bias"}, "is missing"},
        {{.folder = "bert_pretrain", .add = "bert.encoder.layer.2.x.weight"}, "is not part of"},
        {{.folder = "bert_pretrain", .drop = "pooler.dense.bias"},
         "pooler.dense.bias\" is missing"},
        {{.folder = "bert_pretrain", .add = "crf.weight"}, NULL},
    };
    fixture_mkdir(dir);
    fixture_copy(dir, fixture_golden(golden, "bert_pretrain"));
    fixture_bert(&c, "BertForSequenceClassification");
    c.n_types = 3;
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        fixture_model(&f, &c, 5);
        fixture_model(&before, &c, 5);
        write_changed(dir, &cases[i].change);
        const Status s = hf_load_trunk(dir, &c, f.t, f.n, &heads, &err);
        if (cases[i].says && (s != ERR_FORMAT || !strstr(err.text, cases[i].says)))
            fail_msg("%s: %s", err_name(s), err.text);
        assert_int_equal(fixture_equal(&f, &before), cases[i].says != NULL);
        if (!cases[i].says) {
            fixture_must(s, &err);
            assert_string_equal(heads.ignored, "cls.predictions, cls.seq_relationship, crf");
        }
        fixture_free(&f);
        fixture_free(&before);
    }
    fixture_model(&f, &c, 5);
    assert_int_equal(hf_load_trunk(fixture_golden(golden, "single"), &c, f.t, f.n, &heads, &err),
                     ERR_USAGE);
    assert_non_null(strstr(err.text, "a model of type gpt2, where one of type bert is wanted"));
    assert_int_equal(file_remove(fixture_path(path, dir, "config.json"), NULL), ERR_NONE);
    assert_int_equal(hf_load_trunk(dir, &c, f.t, f.n, &heads, &err), ERR_IO);
    fixture_free(&f);
    fixture_rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_of_transformers_load_with_their_numbers),
        cmocka_unit_test(every_dress_of_one_model_holds_the_same_bits),
        cmocka_unit_test(configs_of_transformers_are_understood),
        cmocka_unit_test(our_config_comes_back_as_it_was),
        cmocka_unit_test(what_config_json_cannot_say_is_not_written),
        cmocka_unit_test(wrong_configs_are_refused_by_key),
        cmocka_unit_test(what_we_save_loads_again),
        cmocka_unit_test(wrong_tensors_are_refused_by_name),
        cmocka_unit_test(stale_bias_of_an_untied_decoder_is_not_read),
        cmocka_unit_test(a_trunk_goes_under_another_head),
        cmocka_unit_test(a_trunk_must_be_whole_and_of_its_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
