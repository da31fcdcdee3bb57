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

enum { PARAMS_A_LAYER = 12, PARAMS_OUTSIDE = 5 };

typedef struct Builder {
    ParamSet *s;
    const ModelConfig *c;
    int block;
    bool decay; // which of the two passes over a block
} Builder;

// Add a parameter if it belongs to this pass. rows_padded >= shape[0] is what the flat buffers
// hold.
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
    const int64_t held = rank == 2 ? rows_padded * cols : rows;
    s->total += LT_ROUND_UP(held, PARAM_ALIGN);
}

static void add_layer(Builder *b)
{
    const ModelConfig *c = b->c;
    LayerOffsets *o = &b->s->layer;
    const int64_t C = c->n_embd, F = c->n_inner;
    const double std = c->init_std, resid = std / sqrt(2.0 * (double)c->n_layer);
    add(b, &o->norm1_w, "norm1.weight", true, 1, C, 1, C, INIT_ONE, 0);
    add(b, &o->norm1_b, "norm1.bias", c->bias_norm, 1, C, 1, C, INIT_ZERO, 0);
    add(b, &o->qkv_w, "attn.qkv.weight", true, 2, 3 * C, C, 3 * C, INIT_NORMAL, std);
    add(b, &o->qkv_b, "attn.qkv.bias", c->bias_qkv, 1, 3 * C, 1, 3 * C, INIT_ZERO, 0);
    add(b, &o->proj_w, "attn.proj.weight", true, 2, C, C, C, INIT_NORMAL, resid);
    add(b, &o->proj_b, "attn.proj.bias", c->bias_proj, 1, C, 1, C, INIT_ZERO, 0);
    add(b, &o->norm2_w, "norm2.weight", true, 1, C, 1, C, INIT_ONE, 0);
    add(b, &o->norm2_b, "norm2.bias", c->bias_norm, 1, C, 1, C, INIT_ZERO, 0);
    add(b, &o->fc_w, "mlp.fc.weight", true, 2, F, C, F, INIT_NORMAL, std);
    add(b, &o->fc_b, "mlp.fc.bias", c->bias_mlp, 1, F, 1, F, INIT_ZERO, 0);
    add(b, &o->mlp_w, "mlp.proj.weight", true, 2, C, F, C, INIT_NORMAL, resid);
    add(b, &o->mlp_b, "mlp.proj.bias", c->bias_mlp, 1, C, 1, C, INIT_ZERO, 0);
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
    const int64_t C = c->n_embd, V = c->vocab_size, Vp = model_config_vocab_padded(c);
    Builder b = {.s = s, .c = c};
    for (b.block = 0; b.block < s->n_block; b.block++) {
        ParamBlock *blk = &s->block[b.block];
        blk->offset = s->total;
        for (int pass = 0; pass < 2; pass++) {
            b.decay = pass == 0;
            if (b.block == 0) {
                add(&b, &s->wte, "embed.token.weight", true, 2, V, C, Vp, INIT_NORMAL, c->init_std);
                add(&b, &s->wpe, "embed.position.weight", true, 2, c->n_positions, C,
                    c->n_positions, INIT_NORMAL, c->init_std);
            } else if (b.block <= c->n_layer) {
                add_layer(&b);
            } else {
                add(&b, &s->head, "head.weight", !c->tie_embeddings, 2, V, C, Vp, INIT_NORMAL,
                    c->init_std);
                add(&b, &s->final_w, "final.norm.weight", true, 1, C, 1, C, INIT_ONE, 0);
                add(&b, &s->final_b, "final.norm.bias", c->bias_norm, 1, C, 1, C, INIT_ZERO, 0);
            }
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

const void *weights_take(const Weights *w, int block)
{
    ASSERT(block >= 0 && block < w->params->n_block, "block %d of %d", block, w->params->n_block);
    return (const char *)w->flat + (size_t)w->params->block[block].offset * dtype_bytes(w->dtype);
}

void weights_give(const Weights *w, int block)
{
    ASSERT(block >= 0 && block < w->params->n_block, "block %d of %d", block, w->params->n_block);
}
