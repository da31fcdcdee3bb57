// hf_slots.c -- see hf_slots.h.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/hf_slots.h"

#include "engine/base/mem.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

// Sizes by the letters of the kernels; S: token types, K: labels.
typedef enum Dim { NONE, V, P, C, C3, F, S, K, TWO } Dim;

typedef enum How { PLAIN, TRANSPOSED, THIRD_0, THIRD_1, THIRD_2 } How;

typedef struct Rule {
    const char *engine, *name; // '%' is the block's number
    Dim shape[2];              // of the slot, engine orientation; {x}: a vector
    How how;                   // THIRD_i: of the engine's tensor, by rows
} Rule;

static const Rule gpt2_front[] = {
    {"embed.token.weight", "wte.weight", {V, C}, PLAIN},
    {"embed.position.weight", "wpe.weight", {P, C}, PLAIN},
};
static const Rule gpt2_block[] = {
    {"block.%.norm1.weight", "h.%.ln_1.weight", {C}, PLAIN},
    {"block.%.norm1.bias", "h.%.ln_1.bias", {C}, PLAIN},
    {"block.%.attn.qkv.weight", "h.%.attn.c_attn.weight", {C3, C}, TRANSPOSED},
    {"block.%.attn.qkv.bias", "h.%.attn.c_attn.bias", {C3}, PLAIN},
    {"block.%.attn.proj.weight", "h.%.attn.c_proj.weight", {C, C}, TRANSPOSED},
    {"block.%.attn.proj.bias", "h.%.attn.c_proj.bias", {C}, PLAIN},
    {"block.%.norm2.weight", "h.%.ln_2.weight", {C}, PLAIN},
    {"block.%.norm2.bias", "h.%.ln_2.bias", {C}, PLAIN},
    {"block.%.mlp.fc.weight", "h.%.mlp.c_fc.weight", {F, C}, TRANSPOSED},
    {"block.%.mlp.fc.bias", "h.%.mlp.c_fc.bias", {F}, PLAIN},
    {"block.%.mlp.proj.weight", "h.%.mlp.c_proj.weight", {C, F}, TRANSPOSED},
    {"block.%.mlp.proj.bias", "h.%.mlp.c_proj.bias", {C}, PLAIN},
};
static const Rule gpt2_back[] = {
    {"final.norm.weight", "ln_f.weight", {C}, PLAIN},
    {"final.norm.bias", "ln_f.bias", {C}, PLAIN},
};
static const Rule gpt2_output[] = {
    {"head.weight", "lm_head.weight", {V, C}, PLAIN},
};

static const Rule bert_front[] = {
    {"embed.token.weight", "embeddings.word_embeddings.weight", {V, C}, PLAIN},
    {"embed.position.weight", "embeddings.position_embeddings.weight", {P, C}, PLAIN},
    {"embed.type.weight", "embeddings.token_type_embeddings.weight", {S, C}, PLAIN},
    {"embed.norm.weight", "embeddings.LayerNorm.weight", {C}, PLAIN},
    {"embed.norm.bias", "embeddings.LayerNorm.bias", {C}, PLAIN},
};
#define LAYER "encoder.layer.%."
static const Rule bert_block[] = {
    {"block.%.attn.qkv.weight", LAYER "attention.self.query.weight", {C, C}, THIRD_0},
    {"block.%.attn.qkv.bias", LAYER "attention.self.query.bias", {C}, THIRD_0},
    {"block.%.attn.qkv.weight", LAYER "attention.self.key.weight", {C, C}, THIRD_1},
    {"block.%.attn.qkv.bias", LAYER "attention.self.key.bias", {C}, THIRD_1},
    {"block.%.attn.qkv.weight", LAYER "attention.self.value.weight", {C, C}, THIRD_2},
    {"block.%.attn.qkv.bias", LAYER "attention.self.value.bias", {C}, THIRD_2},
    {"block.%.attn.proj.weight", LAYER "attention.output.dense.weight", {C, C}, PLAIN},
    {"block.%.attn.proj.bias", LAYER "attention.output.dense.bias", {C}, PLAIN},
    {"block.%.norm1.weight", LAYER "attention.output.LayerNorm.weight", {C}, PLAIN},
    {"block.%.norm1.bias", LAYER "attention.output.LayerNorm.bias", {C}, PLAIN},
    {"block.%.mlp.fc.weight", LAYER "intermediate.dense.weight", {F, C}, PLAIN},
    {"block.%.mlp.fc.bias", LAYER "intermediate.dense.bias", {F}, PLAIN},
    {"block.%.mlp.proj.weight", LAYER "output.dense.weight", {C, F}, PLAIN},
    {"block.%.mlp.proj.bias", LAYER "output.dense.bias", {C}, PLAIN},
    {"block.%.norm2.weight", LAYER "output.LayerNorm.weight", {C}, PLAIN},
    {"block.%.norm2.bias", LAYER "output.LayerNorm.bias", {C}, PLAIN},
};
static const Rule bert_pooler[] = {
    {"pooler.weight", "pooler.dense.weight", {C, C}, PLAIN},
    {"pooler.bias", "pooler.dense.bias", {C}, PLAIN},
};
static const Rule bert_predictions[] = {
    {"mlm.dense.weight", "cls.predictions.transform.dense.weight", {C, C}, PLAIN},
    {"mlm.dense.bias", "cls.predictions.transform.dense.bias", {C}, PLAIN},
    {"mlm.norm.weight", "cls.predictions.transform.LayerNorm.weight", {C}, PLAIN},
    {"mlm.norm.bias", "cls.predictions.transform.LayerNorm.bias", {C}, PLAIN},
    {"mlm.bias", "cls.predictions.bias", {V}, PLAIN},
};
static const Rule bert_output[] = {
    {"mlm.bias", "cls.predictions.decoder.bias", {V}, PLAIN},
    {"head.weight", "cls.predictions.decoder.weight", {V, C}, PLAIN},
};
static const Rule bert_next[] = {
    {"nsp.weight", "cls.seq_relationship.weight", {TWO, C}, PLAIN},
    {"nsp.bias", "cls.seq_relationship.bias", {TWO}, PLAIN},
};
static const Rule bert_classifier[] = {
    {"classify.weight", "classifier.weight", {K, C}, PLAIN},
    {"classify.bias", "classifier.bias", {K}, PLAIN},
};
static const Rule bert_qa[] = {
    {"qa.weight", "qa_outputs.weight", {TWO, C}, PLAIN},
    {"qa.bias", "qa_outputs.bias", {TWO}, PLAIN},
};

// How the tensors of a head begin in files.
static const char *const part_names[HF_PARTS] = {
    [HF_POOLER] = "pooler",
    [HF_PREDICTIONS] = "cls.predictions",
    [HF_NEXT] = "cls.seq_relationship",
    [HF_CLASSIFIER] = "classifier",
    [HF_QA] = "qa_outputs",
};

static bool is(const HfConfig *c, const char *architecture)
{
    return strcmp(c->architecture, architecture) == 0;
}

static bool is_bert(const HfConfig *c)
{
    return strcmp(c->model_type, "bert") == 0;
}

static bool has_predictions(const HfConfig *c)
{
    return is(c, "BertForPreTraining") || is(c, "BertForMaskedLM");
}

static int64_t size_of(const HfConfig *c, Dim d)
{
    switch (d) {
    case V: return c->vocab_size;
    case P: return c->n_positions;
    case C: return c->n_embd;
    case C3: return 3 * c->n_embd;
    case F: return c->n_inner;
    case S: return c->n_types;
    case K: return c->n_labels;
    case TWO: return 2;
    case NONE: break;
    }
    return 0;
}

static void numbered(char out[HF_NAME_CAP], const char *pattern, int64_t block)
{
    const char *p = strchr(pattern, '%');
    if (p)
        snprintf(out, HF_NAME_CAP, "%.*s%d%s", (int)(p - pattern), pattern, (int)block, p + 1);
    else
        snprintf(out, HF_NAME_CAP, "%s", pattern);
}

// Norms of the first BERTs have TensorFlow's names; the output layer's bias has one of two places.
static void put_other(HfSlot *s)
{
    static const char *const pairs[][2] = {
        {"LayerNorm.weight", "LayerNorm.gamma"},
        {"LayerNorm.bias", "LayerNorm.beta"},
        {"cls.predictions.bias", "cls.predictions.decoder.bias"},
        {"cls.predictions.decoder.bias", "cls.predictions.bias"},
    };
    for (size_t i = 0; i < LT_COUNT(pairs); i++) {
        const size_t n = strlen(s->name), tail = strlen(pairs[i][0]);
        if (n < tail || strcmp(s->name + n - tail, pairs[i][0]) != 0) continue;
        snprintf(s->other, sizeof s->other, "%.*s%s", (int)(n - tail), s->name, pairs[i][1]);
    }
}

typedef struct Maker {
    const HfConfig *c;
    HfSlot *at;
} Maker;

typedef struct Place { // of some rules in the model
    HfPart of;
    const char *prefix;
    int64_t block;
} Place;

static void add(Maker *m, const Rule *rule, size_t n, Place place)
{
    for (const Rule *r = rule; r < rule + n; r++) {
        HfSlot *s = m->at++;
        numbered(s->engine, r->engine, place.block);
        numbered(s->name, r->name, place.block);
        s->prefix = place.prefix;
        s->rank = r->shape[1] == NONE ? 1 : 2;
        s->shape[0] = size_of(m->c, r->shape[0]);
        s->shape[1] = size_of(m->c, r->shape[1]);
        s->parts = r->how >= THIRD_0 ? 3 : 1;
        s->part = s->parts == 3 ? (int)r->how - THIRD_0 : 0;
        s->of = place.of;
        s->transposed = r->how == TRANSPOSED;
        s->is_bias = strstr(r->name, ".bias") != NULL;
        s->is_output = strcmp(r->engine, "head.weight") == 0;
        put_other(s);
    }
}
#define ADD(m, rules, ...) add(m, rules, LT_COUNT(rules), (Place){__VA_ARGS__})

static void add_gpt2(Maker *m)
{
    static const char body[] = "transformer.";
    ADD(m, gpt2_front, HF_TRUNK, body, 0);
    for (int64_t b = 0; b < m->c->n_layer; b++) ADD(m, gpt2_block, HF_TRUNK, body, b);
    ADD(m, gpt2_back, HF_TRUNK, body, 0);
    if (!m->c->tie_word_embeddings) ADD(m, gpt2_output, HF_TRUNK, "", 0);
}

static void add_bert(Maker *m)
{
    const HfConfig *c = m->c;
    const char *const body = is(c, "BertModel") ? "" : "bert.";
    ADD(m, bert_front, HF_TRUNK, body, 0);
    for (int64_t b = 0; b < c->n_layer; b++) ADD(m, bert_block, HF_TRUNK, body, b);
    if (c->has_pooler) ADD(m, bert_pooler, HF_POOLER, body, 0);
    if (has_predictions(c)) {
        ADD(m, bert_predictions, HF_PREDICTIONS, "", 0);
        if (!c->tie_word_embeddings) {
            m->at[-1].twin = true; // of the one that follows
            ADD(m, bert_output, HF_PREDICTIONS, "", 0);
        }
    }
    if (is(c, "BertForPreTraining")) ADD(m, bert_next, HF_NEXT, "", 0);
    if (c->n_labels) ADD(m, bert_classifier, HF_CLASSIFIER, "", 0);
    if (is(c, "BertForQuestionAnswering")) ADD(m, bert_qa, HF_QA, "", 0);
}

Status hf_slots_make(const HfConfig *c, HfSlot **out, int *n, Err *err)
{
    enum { OUTSIDE = 24 }; // the blocks: more than any architecture has
    const size_t cap = (size_t)c->n_layer * LT_COUNT(bert_block) + OUTSIDE;
    *out = mem_calloc(cap, sizeof **out);
    if (!*out) return mem_err(err, cap * sizeof **out, "the list of tensors");
    Maker m = {.c = c, .at = *out};
    if (is_bert(c))
        add_bert(&m);
    else
        add_gpt2(&m);
    *n = (int)(m.at - *out);
    return ERR_NONE;
}

bool hf_slots_again(const HfSlot *s)
{
    return s->part > 0 || s->twin;
}

const char *hf_slots_embedding(const HfConfig *c)
{
    return is_bert(c) ? bert_front[0].name : gpt2_front[0].name;
}

const char *hf_slots_output(const HfConfig *c)
{
    if (!is_bert(c)) return gpt2_output[0].name;
    return has_predictions(c) ? bert_output[1].name : NULL;
}

const char *hf_slots_output_text(const HfConfig *c)
{
    if (!hf_slots_output(c)) return "no output layer";
    return c->tie_word_embeddings ? "tied" : "untied";
}

HfPart hf_slots_part(const char *name)
{
    if (strncmp(name, "embeddings.", 11) == 0 || strncmp(name, "encoder.", 8) == 0) return HF_TRUNK;
    for (int p = HF_TRUNK + 1; p < HF_PARTS; p++) {
        const size_t n = strlen(part_names[p]);
        if (strncmp(name, part_names[p], n) == 0 && name[n] == '.') return (HfPart)p;
    }
    return HF_PARTS;
}

const char *hf_slots_part_name(HfPart p)
{
    return part_names[p];
}

bool hf_slots_ignored(const char *name)
{
    if (strcmp(name, "embeddings.position_ids") == 0 ||
        strcmp(name, "embeddings.token_type_ids") == 0)
        return true;
    if (strncmp(name, "h.", 2) != 0 || !isdigit((unsigned char)name[2])) return false;
    const char *p = name + 2;
    while (isdigit((unsigned char)*p)) p++;
    return strcmp(p, ".attn.bias") == 0 || strcmp(p, ".attn.masked_bias") == 0;
}

const char *hf_slots_strip(const char *name)
{
    const char *const prefixes[] = {"transformer.", "bert.", "module.", "_orig_mod."};
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < LT_COUNT(prefixes); i++) {
            const size_t n = strlen(prefixes[i]);
            if (strncmp(name, prefixes[i], n) != 0) continue;
            name += n;
            again = true;
        }
    }
    return name;
}
