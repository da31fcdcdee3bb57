// infer.c -- see infer.h. The list of calls is gpt.c's forward pass for rows pos .. pos + n - 1 of
// one sample; keys and values go straight into the cache, because the qkv weight [3C,C] is three
// weights [C,C] one after the other.
//
// SPDX-License-Identifier: MIT
#include "engine/generate/infer.h"
#include "engine/base/assert.h"
#include "engine/base/mem.h"

enum { INFER_CHUNK = 256 };

static const void *at(const void *p, int64_t offset, DType t)
{
    return offset < 0 ? NULL : (const char *)p + (size_t)offset * dtype_bytes(t);
}

static void carve(Infer *f, Arena *a)
{
    const ModelConfig *c = &f->m->c;
    const size_t es = dtype_bytes(f->m->prec.act), n = (size_t)f->chunk, C = (size_t)c->n_embd;
    const size_t Vp = (size_t)model_config_vocab_padded(c);
    const size_t cache = (size_t)c->n_layer * (size_t)f->max_tokens * C * es;
    f->keys = arena_alloc(a, cache);
    f->values = arena_alloc(a, cache);
    f->x = arena_alloc(a, n * C * dtype_bytes(f->m->prec.resid));
    f->ln = arena_alloc(a, n * C * es);
    f->q = arena_alloc(a, n * C * es);
    f->att = arena_alloc(a, n * C * es);
    f->tmp = arena_alloc(a, n * C * es);
    f->wide = arena_alloc(a, n * (size_t)c->n_inner * es);
    f->lse = arena_alloc(a, n * (size_t)c->n_head * sizeof(float));
    f->logits = arena_alloc(a, Vp * es);
    f->ids = arena_alloc(a, n * sizeof(int32_t));
}

// y = x W^T + b for n rows.
static Status linear(Infer *f, void *y, const void *x, const void *w, const void *b, int64_t n,
                     int64_t in, int64_t out, bool gelu, Err *err)
{
    const Precision *p = &f->m->prec;
    return op_matmul(&f->cx,
                     &(MatmulArgs){.C = y,
                                   .A = x,
                                   .B = w,
                                   .bias = b,
                                   .M = n,
                                   .N = out,
                                   .K = in,
                                   .lda = in,
                                   .ldb = in,
                                   .ldc = out,
                                   .trans_b = true,
                                   .epilogue = gelu ? MATMUL_GELU : MATMUL_PLAIN,
                                   .act = f->m->c.activation,
                                   .ab_dtype = p->act,
                                   .c_dtype = p->act,
                                   .bias_dtype = p->param},
                     err);
}

// f->ln = norm(f->x), after f->x += add.
static Status norm(Infer *f, const void *add, const void *w, const void *b, int64_t n, Err *err)
{
    const Precision *p = &f->m->prec;
    return op_layernorm_fwd(&f->cx,
                            &(LayernormFwdArgs){.out = f->ln,
                                                .resid_out = add ? f->x : NULL,
                                                .x = f->x,
                                                .add = add,
                                                .weight = w,
                                                .bias = b,
                                                .N = n,
                                                .T = n,
                                                .C = f->m->c.n_embd,
                                                .eps = (float)f->m->c.norm_eps,
                                                .x_dtype = p->resid,
                                                .add_dtype = p->act,
                                                .out_dtype = p->act,
                                                .w_dtype = p->param},
                            err);
}

static Status attend(Infer *f, int64_t l, int64_t n, const void *k, const void *v, Err *err)
{
    const ModelConfig *c = &f->m->c;
    return op_attention_fwd(
        &f->cx,
        &(AttentionFwdArgs){.out = f->att,
                            .lse = f->lse,
                            .q = f->q,
                            .k = k,
                            .v = v,
                            .B = 1,
                            .H = c->n_head,
                            .Tq = n,
                            .Tk = f->pos + n,
                            .D = model_config_head_size(c),
                            .q_batch = n * c->n_embd,
                            .q_row = c->n_embd,
                            .kv_batch = f->max_tokens * c->n_embd,
                            .kv_row = c->n_embd,
                            .out_batch = n * c->n_embd,
                            .out_row = c->n_embd,
                            .q_pos0 = f->pos,
                            .scale = model_config_scale(c),
                            .mask = {.causal = true, .window = model_config_window(c, l)},
                            .dtype = f->m->prec.act},
        err);
}

static Status layer(Infer *f, const Weights *weights, int64_t l, int64_t n, Err *err)
{
    const ModelConfig *c = &f->m->c;
    const LayerOffsets *o = &f->m->params.layer;
    const DType p = f->m->prec.param, act = f->m->prec.act;
    const int64_t C = c->n_embd, F = c->n_inner;
    const void *w = weights_take(weights, (int)l + 1);
    const size_t es = dtype_bytes(act), cache = (size_t)(l * f->max_tokens * C) * es;
    const size_t new_rows = (size_t)(f->pos * C) * es;
    char *k = f->keys + cache, *v = f->values + cache;

    TRY(norm(f, l ? f->tmp : NULL, at(w, o->norm1_w, p), at(w, o->norm1_b, p), n, err));
    const int64_t qb = o->qkv_b;
    TRY(linear(f, f->q, f->ln, at(w, o->qkv_w, p), at(w, qb, p), n, C, C, false, err));
    TRY(linear(f, k + new_rows, f->ln, at(w, o->qkv_w + C * C, p), at(w, qb < 0 ? qb : qb + C, p),
               n, C, C, false, err));
    TRY(linear(f, v + new_rows, f->ln, at(w, o->qkv_w + 2 * C * C, p),
               at(w, qb < 0 ? qb : qb + 2 * C, p), n, C, C, false, err));
    TRY(attend(f, l, n, k, v, err));
    TRY(linear(f, f->tmp, f->att, at(w, o->proj_w, p), at(w, o->proj_b, p), n, C, C, false, err));
    TRY(norm(f, f->tmp, at(w, o->norm2_w, p), at(w, o->norm2_b, p), n, err));
    TRY(linear(f, f->wide, f->ln, at(w, o->fc_w, p), at(w, o->fc_b, p), n, C, F, true, err));
    TRY(linear(f, f->tmp, f->wide, at(w, o->mlp_w, p), at(w, o->mlp_b, p), n, F, C, false, err));
    weights_give(weights, (int)l + 1);
    return ERR_NONE;
}

// n rows at f->pos; `last`: logits of the last row into f->logits.
static Status forward(Infer *f, int64_t n, bool last, Err *err)
{
    const ModelConfig *c = &f->m->c;
    const ParamSet *ps = &f->m->params;
    const DType p = f->m->prec.param, act = f->m->prec.act;
    const Weights weights = {.flat = f->m->weights, .dtype = p, .params = ps};
    const void *embed = weights_take(&weights, 0);
    TRY(op_embedding_fwd(&f->cx,
                         &(EmbeddingFwdArgs){.out = f->x,
                                             .wte = at(embed, ps->wte, p),
                                             .wpe = at(embed, ps->wpe, p),
                                             .token = f->ids,
                                             .N = n,
                                             .T = n,
                                             .C = c->n_embd,
                                             .V = c->vocab_size,
                                             .P = c->n_positions,
                                             .position0 = f->pos,
                                             .w_dtype = p,
                                             .out_dtype = f->m->prec.resid},
                         err));
    for (int64_t l = 0; l < c->n_layer; l++) TRY(layer(f, &weights, l, n, err));
    if (!last) return ERR_NONE;
    const int end_block = ps->n_block - 1;
    const void *end = weights_take(&weights, end_block);
    TRY(norm(f, f->tmp, at(end, ps->final_w, p), at(end, ps->final_b, p), n, err));
    const void *head = ps->head < 0 ? at(embed, ps->wte, p) : at(end, ps->head, p);
    return linear(f, f->logits, at(f->ln, (n - 1) * c->n_embd, act), head, NULL, 1, c->n_embd,
                  model_config_vocab_padded(c), false, err);
}

static size_t logits_bytes(const Infer *f)
{
    return (size_t)f->m->c.vocab_size * sizeof(float);
}

static Status take_memory(Infer *f, Err *err)
{
    Arena a;
    arena_init_counting(&a, "inference");
    carve(f, &a);
    OpPlan plan = {0};
    f->cx.plan = &plan;
    f->pos = f->max_tokens - f->chunk; // the largest call
    Status st = forward(f, f->chunk, true, err);
    f->pos = f->max_tokens - 1; // and the smallest: another kernel may serve it
    if (st == ERR_NONE) st = forward(f, 1, true, err);
    f->pos = 0;
    f->cx.plan = NULL;
    TRY(st);
    f->mem_bytes = a.used + plan.scratch_bytes;
    f->cx.scratch_bytes = plan.scratch_bytes;
    TRY(device_alloc(f->cx.device, f->mem_bytes, &f->mem, err));
    Arena real;
    arena_init(&real, "inference", f->mem, a.used);
    carve(f, &real);
    f->cx.scratch = (char *)f->mem + a.used;
    f->host_logits = mem_map(logits_bytes(f));
    return f->host_logits ? ERR_NONE : mem_err(err, logits_bytes(f), "logits");
}

Status infer_open(Infer *f, const Loaded *m, Backend *backend, Err *err)
{
    *f = (Infer){.m = m, .max_tokens = m->c.n_positions};
    f->chunk = LT_MIN(INFER_CHUNK, f->max_tokens);
    f->cx = (OpCtx){.ops = &backend->ops, .device = &backend->device};
    const Status st = take_memory(f, err);
    if (st != ERR_NONE) infer_close(f);
    return st;
}

void infer_close(Infer *f)
{
    if (f->mem) device_free(f->cx.device, f->mem, f->mem_bytes);
    if (f->host_logits) mem_unmap(f->host_logits, logits_bytes(f));
    *f = (Infer){0};
}

void infer_rewind(Infer *f, int64_t pos)
{
    ASSERT(pos >= 0 && pos <= f->pos, "rewind to %lld of %lld", (long long)pos, (long long)f->pos);
    f->pos = pos;
}

Status infer_append(Infer *f, const int32_t *ids, int64_t n, const float **logits, Err *err)
{
    ASSERT(n > 0 && f->pos + n <= f->max_tokens, "%lld tokens after %lld", (long long)n,
           (long long)f->pos);
    while (n > 0) {
        const int64_t k = LT_MIN(n, f->chunk);
        TRY(device_upload(f->cx.device, f->ids, ids, (size_t)k * sizeof *ids, err));
        TRY(forward(f, k, k == n, err));
        f->pos += k;
        ids += k;
        n -= k;
    }
    const int64_t V = f->m->c.vocab_size;
    const DType act = f->m->prec.act;
    char *raw = (char *)f->host_logits + (size_t)V * (4 - dtype_bytes(act)); // widened in place
    TRY(device_download(f->cx.device, raw, f->logits, (size_t)V * dtype_bytes(act), err));
    if (act != DTYPE_F32)
        for (int64_t i = 0; i < V; i++) f->host_logits[i] = dtype_load(raw, act, i);
    *logits = f->host_logits;
    return ERR_NONE;
}
