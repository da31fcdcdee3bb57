// write_steps.c -- the writing half of the transformers oracle: step folders of random tiny models.
//
//     write_steps DIR
//
// makes DIR/NAME/checkpoints/step-00000001 for NAME in tied, untied, bf16, f16, nobias (GPT-2) and
// pretrain, decoder, mlm, model, nopool, classify, tag, qa (BERT), and beside each
// DIR/NAME/expected.safetensors: the engine's tensors in f32 under the engine's names.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/checkpoint.h"
#include "checkpoints/hf_slots.h"
#include "checkpoints/safetensors.h"
#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"

#include <stdio.h>
#include <string.h>

enum { TENSORS = 64 };

static const struct {
    const char *name, *architecture, *dtype;
    DType as;
    bool tied, bias, pooler;
} models[] = {
    {"tied", "GPT2LMHeadModel", "float32", DTYPE_F32, true, true, false},
    {"untied", "GPT2LMHeadModel", "float32", DTYPE_F32, false, true, false},
    {"bf16", "GPT2LMHeadModel", "bfloat16", DTYPE_BF16, true, true, false},
    {"f16", "GPT2LMHeadModel", "float16", DTYPE_F16, false, true, false},
    {"nobias", "GPT2LMHeadModel", "float32", DTYPE_F32, true, false, false},
    {"pretrain", "BertForPreTraining", "float32", DTYPE_F32, true, true, true},
    {"decoder", "BertForPreTraining", "bfloat16", DTYPE_BF16, false, true, true},
    {"mlm", "BertForMaskedLM", "float16", DTYPE_F16, true, true, false},
    {"model", "BertModel", "float32", DTYPE_F32, true, true, true},
    {"nopool", "BertModel", "float32", DTYPE_F32, true, true, false},
    {"classify", "BertForSequenceClassification", "float32", DTYPE_F32, true, true, true},
    {"tag", "BertForTokenClassification", "float32", DTYPE_F32, true, true, false},
    {"qa", "BertForQuestionAnswering", "float32", DTYPE_F32, true, true, false},
};

static void make_config(HfConfig *c, int k)
{
    const bool bert = strncmp(models[k].architecture, "Bert", 4) == 0;
    *c = (HfConfig){.n_layer = 2,
                    .n_head = 2,
                    .n_embd = 16,
                    .n_inner = 64,
                    .n_positions = 24,
                    .vocab_size = 37,
                    .layer_norm_epsilon = bert ? 1e-12 : 1e-5,
                    .initializer_range = 0.02,
                    .tie_word_embeddings = models[k].tied,
                    .scale_attn_weights = true,
                    .bias = models[k].bias,
                    .bos_token_id = -1,
                    .eos_token_id = bert ? -1 : 36,
                    .n_types = bert ? 2 : 0,
                    .has_pooler = models[k].pooler,
                    .classifier_dropout = -1};
    snprintf(c->architecture, sizeof c->architecture, "%s", models[k].architecture);
    snprintf(c->model_type, sizeof c->model_type, "%s", bert ? "bert" : "gpt2");
    snprintf(c->activation, sizeof c->activation, "%s", bert ? "gelu" : "gelu_new");
    snprintf(c->dtype, sizeof c->dtype, "%s", models[k].dtype);
    if (!strstr(c->architecture, "Classification")) return;
    c->n_labels = 3;
    for (int i = 0; i < 3; i++) snprintf(c->label[i], sizeof c->label[i], "kind \"%d\"", i);
}

static Status write_model(const char *dir, int k, Err *err)
{
    CkptSave s = {.step = 1, .model_dtype = models[k].as, .trainer_json = "{\"step\": 1}"};
    make_config(&s.config, k);
    TRY(path_join(s.run_dir, dir, models[k].name, err));
    HfSlot *slot = NULL;
    int n = 0;
    TRY(hf_slots_make(&s.config, &slot, &n, err));
    Tensor t[TENSORS];
    for (int i = 0; i < n; i++) {
        if ((slot[i].is_bias && !s.config.bias) || hf_slots_again(&slot[i])) continue;
        Tensor *x = &t[s.n_model++];
        *x = (Tensor){.rank = slot[i].rank};
        snprintf(x->name, sizeof x->name, "%s", slot[i].engine);
        memcpy(x->shape, slot[i].shape, sizeof slot[i].shape);
        x->shape[0] *= slot[i].parts;
        x->data = mem_alloc((size_t)tensor_count(x) * sizeof(float));
        if (!x->data) return mem_err(err, (size_t)tensor_count(x), "a test tensor");
        rng_fill_normal(x->data, tensor_count(x), 11, (uint32_t)i, 0.3);
    }
    mem_free(slot);
    s.model = t;
    char path[PATH_CAP];
    Status e = file_mkdirs(s.run_dir, err);
    if (e == ERR_NONE) e = ckpt_save(&s, err);
    if (e == ERR_NONE) e = path_join(path, s.run_dir, "expected.safetensors", err);
    if (e == ERR_NONE) e = safe_write(path, t, s.n_model, -1, NULL, NULL, NULL, err);
    for (int i = 0; i < s.n_model; i++) mem_free(t[i].data);
    return e;
}

int main(int argc, char **argv)
{
    Err err;
    if (argc != 2) return 2;
    for (int k = 0; k < (int)LT_COUNT(models); k++) {
        const Status s = write_model(argv[1], k, &err);
        if (s == ERR_NONE) continue;
        fprintf(stderr, "write_steps: %s\n", err.text);
        return err_exit_code(s);
    }
    return 0;
}
