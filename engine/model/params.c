// params.c -- see params.h.
//
// SPDX-License-Identifier: MIT
#include "engine/model/params.h"
#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PARAMS_A_LAYER = 12, PARAMS_OUTSIDE = 15 };

typedef struct Builder {
    ParamSet *s;
    const ModelConfig *c;
    int block;
    bool decay; // which of the two passes over a block
} Builder;

// Add a parameter if it belongs to this pass. rows_padded >= shape[0] is what the flat buffers
// hold of a matrix, or of a vector.
static void add(Builder *b, int64_t *place, const char *name, bool present, int rank, int64_t rows,
                int64_t cols, int64_t rows_padded, ParamInit init, double std)
{
    const bool decay = rank == 2;
    if (decay != b->decay) return;
    if (!present) {
        *place = -1;
        return;
    }
    ParamSet *s = b->s;
    Param *p = &s->param[s->n++];
    *p = (Param){.block = b->block,
                 .rank = rank,
                 .shape = {rows, cols},
                 .count = rank == 2 ? rows * cols : rows,
                 .offset = s->total,
                 .decay = decay,
                 .init = init,
                 .std = std};
    if (b->block >= 1 && b->block <= b->c->n_layer)
        snprintf(p->name, sizeof p->name, "block.%d.%s", b->block - 1, name);
    else
        snprintf(p->name, sizeof p->name, "%s", name);
    *place = s->total - s->block[b->block].offset;
    s->n_params += p->count;
    const int64_t held = rank == 2 ? rows_padded * cols : rows_padded;
    s->total += LT_ROUND_UP(held, PARAM_ALIGN);
}

static void matrix(Builder *b, int64_t *place, const char *name, bool present, int64_t rows,
                   int64_t cols, int64_t rows_padded, double std)
{
    add(b, place, name, present, 2, rows, cols, rows_padded, INIT_NORMAL, std);
}

static void vector(Builder *b, int64_t *place, const char *name, bool present, int64_t n,
                   ParamInit init)
{
    add(b, place, name, present, 1, n, 1, n, init, 0);
}

static void add_layer(Builder *b)
{
    const ModelConfig *c = b->c;
    LayerOffsets *o = &b->s->layer;
    const int64_t C = c->n_embd, F = c->n_inner;
    const double std = c->init_std;
    const double resid = c->norm_position == NORM_PRE ? std / sqrt(2.0 * (double)c->n_layer) : std;
    vector(b, &o->norm1_w, "norm1.weight", true, C, INIT_ONE);
    vector(b, &o->norm1_b, "norm1.bias", c->bias_norm, C, INIT_ZERO);
    matrix(b, &o->qkv_w, "attn.qkv.weight", true, 3 * C, C, 3 * C, std);
    vector(b, &o->qkv_b, "attn.qkv.bias", c->bias_qkv, 3 * C, INIT_ZERO);
    matrix(b, &o->proj_w, "attn.proj.weight", true, C, C, C, resid);
    vector(b, &o->proj_b, "attn.proj.bias", c->bias_proj, C, INIT_ZERO);
    vector(b, &o->norm2_w, "norm2.weight", true, C, INIT_ONE);
    vector(b, &o->norm2_b, "norm2.bias", c->bias_norm, C, INIT_ZERO);
    matrix(b, &o->fc_w, "mlp.fc.weight", true, F, C, F, std);
    vector(b, &o->fc_b, "mlp.fc.bias", c->bias_mlp, F, INIT_ZERO);
    matrix(b, &o->mlp_w, "mlp.proj.weight", true, C, F, C, resid);
    vector(b, &o->mlp_b, "mlp.proj.bias", c->bias_mlp, C, INIT_ZERO);
}

static void add_embeddings(Builder *b)
{
    const ModelConfig *c = b->c;
    ParamSet *s = b->s;
    const int64_t C = c->n_embd, V = c->vocab_size, P = c->n_positions, S = c->n_types;
    const bool norm = c->norm_position == NORM_POST;
    const double std = c->init_std;
    matrix(b, &s->wte, "embed.token.weight", true, V, C, model_config_vocab_padded(c), std);
    matrix(b, &s->wpe, "embed.position.weight", true, P, C, P, std);
    matrix(b, &s->wtt, "embed.type.weight", S > 0, S, C, S, std);
    vector(b, &s->embed_norm_w, "embed.norm.weight", norm, C, INIT_ONE);
    vector(b, &s->embed_norm_b, "embed.norm.bias", norm, C, INIT_ZERO);
}

static void add_last(Builder *b)
{
    const ModelConfig *c = b->c;
    ParamSet *s = b->s;
    const int64_t C = c->n_embd, V = c->vocab_size, Vp = model_config_vocab_padded(c);
    const int64_t n_out = model_config_outputs(c);
    const bool pre = c->norm_position == NORM_PRE, mlm = model_config_has_mlm(c);
    const double std = c->init_std;
    static const char *const out_weight[] = {[HEAD_PRETRAIN] = "nsp.weight",
                                             [HEAD_CLASSIFY] = "classify.weight",
                                             [HEAD_TAG] = "classify.weight",
                                             [HEAD_QA] = "qa.weight"};
    static const char *const out_bias[] = {[HEAD_PRETRAIN] = "nsp.bias",
                                           [HEAD_CLASSIFY] = "classify.bias",
                                           [HEAD_TAG] = "classify.bias",
                                           [HEAD_QA] = "qa.bias"};
    matrix(b, &s->head, "head.weight", (c->head == HEAD_LM || mlm) && !c->tie_embeddings, V, C, Vp,
           std);
    vector(b, &s->final_w, "final.norm.weight", pre, C, INIT_ONE);
    vector(b, &s->final_b, "final.norm.bias", pre && c->bias_norm, C, INIT_ZERO);
    matrix(b, &s->pooler_w, "pooler.weight", c->pooler, C, C, C, std);
    vector(b, &s->pooler_b, "pooler.bias", c->pooler, C, INIT_ZERO);
    matrix(b, &s->mlm_w, "mlm.dense.weight", mlm, C, C, C, std);
    vector(b, &s->mlm_b, "mlm.dense.bias", mlm, C, INIT_ZERO);
    vector(b, &s->mlm_norm_w, "mlm.norm.weight", mlm, C, INIT_ONE);
    vector(b, &s->mlm_norm_b, "mlm.norm.bias", mlm, C, INIT_ZERO);
    add(b, &s->mlm_bias, "mlm.bias", mlm, 1, V, 1, Vp, INIT_ZERO, 0);
    matrix(b, &s->out_w, out_weight[c->head], n_out > 0, n_out, C, n_out, std);
    vector(b, &s->out_b, out_bias[c->head], n_out > 0, n_out, INIT_ZERO);
}

Status params_layout(ParamSet *s, const ModelConfig *c, Err *err)
{
    *s = (ParamSet){0};
    const size_t n_param = (size_t)c->n_layer * PARAMS_A_LAYER + PARAMS_OUTSIDE;
    s->param = mem_calloc(n_param, sizeof *s->param);
    s->block = mem_calloc((size_t)c->n_layer + 2, sizeof *s->block);
    if (!s->param || !s->block) {
        params_free(s);
        return mem_err(err, n_param * sizeof *s->param, "the parameter table");
    }
    s->n_block = (int)c->n_layer + 2;
    Builder b = {.s = s, .c = c};
    for (b.block = 0; b.block < s->n_block; b.block++) {
        ParamBlock *blk = &s->block[b.block];
        blk->offset = s->total;
        for (int pass = 0; pass < 2; pass++) {
            b.decay = pass == 0;
            if (b.block == 0)
                add_embeddings(&b);
            else if (b.block <= c->n_layer)
                add_layer(&b);
            else
                add_last(&b);
            if (pass == 0) blk->decayed = s->total - blk->offset;
        }
        blk->count = s->total - blk->offset;
    }
    return ERR_NONE;
}

void params_free(ParamSet *s)
{
    mem_free(s->param);
    mem_free(s->block);
    *s = (ParamSet){0};
}

void params_init(const ParamSet *s, float *flat, uint64_t seed)
{
    for (int i = 0; i < s->n; i++) {
        const Param *p = &s->param[i];
        float *w = flat + p->offset;
        if (p->init == INIT_NORMAL) {
            rng_fill_normal(w, p->count, seed, (uint32_t)i, p->std);
        } else if (p->init == INIT_ONE) {
            for (int64_t j = 0; j < p->count; j++) w[j] = 1.0f;
        }
    }
}

void params_tensors(const ParamSet *s, void *flat, DType dtype, const char *prefix, Tensor *out)
{
    for (int i = 0; i < s->n; i++) {
        const Param *p = &s->param[i];
        out[i] = (Tensor){.dtype = dtype,
                          .rank = p->rank,
                          .shape = {p->shape[0], p->rank == 2 ? p->shape[1] : 0},
                          .data = (char *)flat + (size_t)p->offset * dtype_bytes(dtype)};
        snprintf(out[i].name, sizeof out[i].name, "%s%s", prefix, p->name);
    }
}

int64_t layer_matrix(const LayerOffsets *l, LinearId id)
{
    const int64_t at[] = {[LINEAR_QKV] = l->qkv_w,
                          [LINEAR_PROJ] = l->proj_w,
                          [LINEAR_FC] = l->fc_w,
                          [LINEAR_MLP] = l->mlp_w};
    return at[id];
}

const void *weights_take(const Weights *w, int block)
{
    ASSERT(block >= 0 && block < w->params->n_block, "block %d of %d", block, w->params->n_block);
    return (const char *)w->flat + (size_t)w->params->block[block].offset * dtype_bytes(w->dtype);
}

void weights_give(const Weights *w, int block)
{
    ASSERT(block >= 0 && block < w->params->n_block, "block %d of %d", block, w->params->n_block);
}
