// hf_slots.c -- see hf_slots.h.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/hf_slots.h"

#include "engine/base/mem.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef enum Dim { NONE, V, P, C, C3, F } Dim;

typedef struct Rule {
    const char *engine, *name; // '%' is the block's number
    Dim shape[2];              // engine orientation; {x, NONE}: a vector
    bool transposed;
} Rule;

static const Rule gpt2_front[] = {
    {"embed.token.weight", "wte.weight", {V, C}, false},
    {"embed.position.weight", "wpe.weight", {P, C}, false},
};
static const Rule gpt2_block[] = {
    {"block.%.norm1.weight", "h.%.ln_1.weight", {C, NONE}, false},
    {"block.%.norm1.bias", "h.%.ln_1.bias", {C, NONE}, false},
    {"block.%.attn.qkv.weight", "h.%.attn.c_attn.weight", {C3, C}, true},
    {"block.%.attn.qkv.bias", "h.%.attn.c_attn.bias", {C3, NONE}, false},
    {"block.%.attn.proj.weight", "h.%.attn.c_proj.weight", {C, C}, true},
    {"block.%.attn.proj.bias", "h.%.attn.c_proj.bias", {C, NONE}, false},
    {"block.%.norm2.weight", "h.%.ln_2.weight", {C, NONE}, false},
    {"block.%.norm2.bias", "h.%.ln_2.bias", {C, NONE}, false},
    {"block.%.mlp.fc.weight", "h.%.mlp.c_fc.weight", {F, C}, true},
    {"block.%.mlp.fc.bias", "h.%.mlp.c_fc.bias", {F, NONE}, false},
    {"block.%.mlp.proj.weight", "h.%.mlp.c_proj.weight", {C, F}, true},
    {"block.%.mlp.proj.bias", "h.%.mlp.c_proj.bias", {C, NONE}, false},
};
static const Rule gpt2_back[] = {
    {"final.norm.weight", "ln_f.weight", {C, NONE}, false},
    {"final.norm.bias", "ln_f.bias", {C, NONE}, false},
};
static const Rule gpt2_head = {"head.weight", "lm_head.weight", {V, C}, false};

static void numbered(char out[HF_NAME_CAP], const char *pattern, int64_t block)
{
    const char *p = strchr(pattern, '%');
    if (p)
        snprintf(out, HF_NAME_CAP, "%.*s%d%s", (int)(p - pattern), pattern, (int)block, p + 1);
    else
        snprintf(out, HF_NAME_CAP, "%s", pattern);
}

static int64_t size_of(const HfConfig *c, Dim d)
{
    switch (d) {
    case V: return c->vocab_size;
    case P: return c->n_positions;
    case C: return c->n_embd;
    case C3: return 3 * c->n_embd;
    case F: return c->n_inner;
    case NONE: break;
    }
    return 0;
}

static void fill(HfSlot *s, const HfConfig *c, const Rule *r, int64_t block)
{
    numbered(s->engine, r->engine, block);
    numbered(s->name, r->name, block);
    s->rank = r->shape[1] == NONE ? 1 : 2;
    s->shape[0] = size_of(c, r->shape[0]);
    s->shape[1] = size_of(c, r->shape[1]);
    s->transposed = r->transposed;
    s->is_bias = strstr(r->name, ".bias") != NULL;
    s->on_body = r != &gpt2_head;
}

Status hf_slots_make(const HfConfig *c, HfSlot **out, int *n, Err *err)
{
    const size_t cap = (size_t)c->n_layer * LT_COUNT(gpt2_block) + 5;
    *out = mem_calloc(cap, sizeof **out);
    if (!*out) return mem_err(err, cap * sizeof **out, "the list of tensors");
    HfSlot *s = *out;
    for (size_t i = 0; i < LT_COUNT(gpt2_front); i++) fill(s++, c, &gpt2_front[i], 0);
    for (int64_t b = 0; b < c->n_layer; b++)
        for (size_t i = 0; i < LT_COUNT(gpt2_block); i++) fill(s++, c, &gpt2_block[i], b);
    for (size_t i = 0; i < LT_COUNT(gpt2_back); i++) fill(s++, c, &gpt2_back[i], 0);
    if (!c->tie_word_embeddings) fill(s++, c, &gpt2_head, 0);
    *n = (int)(s - *out);
    return ERR_NONE;
}

bool hf_slots_ignored(const char *name)
{
    if (strncmp(name, "h.", 2) != 0 || !isdigit((unsigned char)name[2])) return false;
    const char *p = name + 2;
    while (isdigit((unsigned char)*p)) p++;
    return strcmp(p, ".attn.bias") == 0 || strcmp(p, ".attn.masked_bias") == 0;
}

const char *hf_slots_strip(const char *name)
{
    const char *const prefixes[] = {"transformer.", "module.", "_orig_mod."};
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
