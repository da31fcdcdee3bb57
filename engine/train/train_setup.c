// train_setup.c -- see train_setup.h.
//
// SPDX-License-Identifier: MIT
#include "engine/train/train_setup.h"
#include "engine/report/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    Activation act;
} activation_names[] = {
    {"gelu_tanh", ACT_GELU_TANH}, {"gelu_erf", ACT_GELU_ERF}, {"relu", ACT_RELU}};

Status train_setup_model(ModelConfig *c, const Options *o, int64_t vocab_size, Err *err)
{
    const bool bert = strcmp(o->architecture, "bert") == 0;
    const int64_t positions = o->n_positions ? o->n_positions : o->block_size;
    *c = (bert ? model_config_bert : model_config_gpt2)(o->n_layer, o->n_head, o->n_embd, positions,
                                                        vocab_size);
    if (o->n_inner) c->n_inner = o->n_inner;
    if (strcmp(o->task, "mlm") == 0) {
        c->head = HEAD_MLM;
        c->pooler = false;
    }
    c->tie_embeddings = o->tie_embeddings;
    c->bias_qkv = c->bias_proj = c->bias_mlp = c->bias_norm = o->bias;
    c->dropout_embed = c->dropout_attention = c->dropout_residual = o->dropout;
    for (size_t i = 0; i < LT_COUNT(activation_names); i++)
        if (strcmp(o->activation, activation_names[i].name) == 0)
            c->activation = activation_names[i].act;
    return model_config_check(c, err);
}

// Does each sequence of a row have positions from 0 on? The row may be longer than they are, then.
static bool own_positions(const ModelConfig *c, const Options *o)
{
    return c->norm_position == NORM_POST && o->data_pack > 1;
}

Status train_setup_agree(const ModelConfig *c, const Options *o, const char *folder, Err *err)
{
    const struct {
        OptionId id;
        const char *name;
        int64_t asked, is;
    } rows[] = {
        {OPT_n_layer, "n_layer", o->n_layer, c->n_layer},
        {OPT_n_head, "n_head", o->n_head, c->n_head},
        {OPT_n_embd, "n_embd", o->n_embd, c->n_embd},
        {OPT_n_inner, "n_inner", o->n_inner ? o->n_inner : c->n_inner, c->n_inner},
        {OPT_vocab_size, "vocab_size", o->vocab_size ? o->vocab_size : c->vocab_size,
         c->vocab_size},
        {OPT_bias, "bias", o->bias, c->bias_qkv},
        {OPT_tie_embeddings, "tie_embeddings", o->tie_embeddings, c->tie_embeddings},
    };
    Buf b = {0};
    Status st = ERR_NONE;
    for (size_t i = 0; i < LT_COUNT(rows) && st == ERR_NONE; i++)
        if (options_given(o, rows[i].id) && rows[i].asked != rows[i].is)
            st = buf_printf(&b, err, "%s%s = %" PRId64 ", but the model in %s has %" PRId64,
                            b.len ? "\n" : "", rows[i].name, rows[i].asked, folder, rows[i].is);
    if (st == ERR_NONE && o->block_size > c->n_positions && options_given(o, OPT_block_size) &&
        !own_positions(c, o))
        st = buf_printf(&b, err,
                        "%sblock_size = %" PRId64 ", but the model in %s has %" PRId64 " positions",
                        b.len ? "\n" : "", o->block_size, folder, c->n_positions);
    if (st == ERR_NONE && b.len) st = err_set(err, ERR_USAGE, "%s", b.data);
    buf_free(&b);
    return st;
}

Status train_setup_record(const TrainSetup *s, Options *o, Err *err)
{
    const ModelConfig *c = &s->model;
    const struct {
        OptionId id;
        const char *name;
        double is;
    } rows[] = {
        {OPT_n_layer, "n_layer", (double)c->n_layer},
        {OPT_n_head, "n_head", (double)c->n_head},
        {OPT_n_embd, "n_embd", (double)c->n_embd},
        {OPT_n_inner, "n_inner", (double)c->n_inner},
        {OPT_vocab_size, "vocab_size", (double)c->vocab_size},
        {OPT_block_size, "block_size", (double)s->block_size},
        {OPT_bias, "bias", c->bias_qkv},
        {OPT_tie_embeddings, "tie_embeddings", c->tie_embeddings},
        {OPT_dropout, "dropout", c->dropout_residual},
    };
    for (size_t i = 0; i < LT_COUNT(rows); i++) {
        char text[40];
        if (options_given(o, rows[i].id)) continue;
        snprintf(text, sizeof text, "%.17g", rows[i].is);
        TRY(options_set(o, rows[i].name, text, ORIGIN_MODEL, err));
    }
    for (size_t i = 0; i < LT_COUNT(activation_names); i++)
        if (activation_names[i].act == c->activation && !options_given(o, OPT_activation))
            TRY(options_set(o, "activation", activation_names[i].name, ORIGIN_MODEL, err));
    return ERR_NONE;
}

static Fp8Recipe fp8_recipe(const Options *o)
{
    const bool current = strcmp(o->fp8_recipe, "current") == 0;
    return (Fp8Recipe){.current = current,
                       .history = current ? 0 : o->fp8_history,
                       .amax =
                           strcmp(o->fp8_amax, "max") == 0 ? FP8_AMAX_MAX : FP8_AMAX_MOST_RECENT,
                       .margin = (int)o->fp8_margin,
                       .bf16_first = o->fp8_bf16_first,
                       .bf16_last = o->fp8_bf16_last};
}

static void loss_scale(TrainSetup *s, const Options *o) // of fp16 only
{
    if (s->prec.act != DTYPE_F16) return;
    s->loss_scale = (float)o->loss_scale_init;
    s->rule = (LossScaleRule){.growth = (float)o->loss_scale_growth,
                              .backoff = (float)o->loss_scale_backoff,
                              .interval = (int32_t)o->loss_scale_growth_interval,
                              .hysteresis = (int32_t)o->loss_scale_hysteresis};
}

Status train_setup(TrainSetup *s, const ModelConfig *c, const Options *o, const Device *device,
                   int ranks, Err *err)
{
    const bool long_rows = own_positions(c, o) && options_given(o, OPT_block_size);
    const int64_t T = long_rows ? o->block_size : LT_MIN(o->block_size, c->n_positions);
    const char *prec = o->precision;
    if (strcmp(prec, "auto") == 0) prec = device->is_host ? "fp32" : "bf16";
    *s = (TrainSetup){.model = *c,
                      .block_size = T,
                      .batch_size = o->batch_size,
                      .head_rows = o->head_rows,
                      .recompute = o->recompute,
                      .document_mask = o->data_document_mask,
                      .snapshot = (o->save_async || !device->is_host) && o->save_interval > 0,
                      .lamb = strcmp(o->optimizer, "lamb") == 0,
                      .beta1 = o->beta1,
                      .beta2 = o->beta2,
                      .eps = o->eps,
                      .weight_decay = o->weight_decay,
                      .grad_clip = o->grad_clip,
                      .seed = (uint64_t)o->seed};
    if (c->norm_position == NORM_POST && options_given(o, OPT_residual_dtype) &&
        o->origin[OPT_residual_dtype] != ORIGIN_RUN)
        return err_set(err, ERR_USAGE,
                       "residual_dtype = %s has no meaning for a BERT: what its layers add up has "
                       "the type of activations",
                       o->residual_dtype);
    TRY(precision_from_name(&s->prec, prec, o->residual_dtype, err));
    if (c->norm_position == NORM_POST) s->prec.resid = s->prec.act; // model.h
    if (s->prec.fp8) s->fp8 = fp8_recipe(o);
    loss_scale(s, o);
    s->graph = strcmp(o->cuda_graph, "on") == 0;
    if (s->graph && !device->v->record)
        return err_set(err, ERR_USAGE, "cuda.graph = on needs a GPU, this run is on %s",
                       device->name);
    const int64_t tokens = o->batch_tokens ? o->batch_tokens : o->batch_size * T * ranks;
    const int64_t micro = o->batch_size * T * ranks;
    if (tokens % micro != 0)
        return err_set(err, ERR_USAGE,
                       "batch_tokens = %" PRId64
                       " is no multiple of batch_size x block_size%s = %" PRId64,
                       tokens, ranks > 1 ? " x ranks" : "", micro);
    s->samples = tokens / T / ranks;
    TRY(schedule_init(&s->schedule, o->schedule, o->learning_rate, o->min_lr, o->warmup_steps,
                      o->max_steps, o->decay_steps, err));
    s->schedule.power = o->poly_power;
    return ERR_NONE;
}

void train_si(double n, char out[32])
{
    static const char prefix[] = " kMGTPEZY";
    size_t i = 0;
    while (n >= 999.95 && i + 2 < sizeof prefix) {
        n /= 1000;
        i++;
    }
    if (i)
        snprintf(out, 32, "%.1f %c", n, prefix[i]);
    else
        snprintf(out, 32, "%.0f ", n);
}

static Status parts_text(const Arena *a, Buf *out, Err *err)
{
    for (int i = 0; i < a->n_part; i++) {
        char size[32];
        if (!a->parts[i].bytes) continue;
        progress_bytes((double)a->parts[i].bytes, size);
        TRY(buf_printf(out, err, "               %-22s %10s\n", a->parts[i].name, size));
    }
    return ERR_NONE;
}

Status train_setup_text(const TrainSetup *s, const TrainPlan *p, Buf *out, Err *err)
{
    const ModelConfig *c = &s->model;
    char count[32], per_token[32], a_step[32], total[32], scratch[32];
    progress_count((double)p->n_params, count);
    train_si(p->flops_a_token, per_token);
    train_si(p->flops_a_step, a_step);
    progress_bytes((double)p->total_bytes, total);
    progress_bytes((double)p->scratch_bytes, scratch);
    TRY(buf_printf(out, err,
                   "  model        %" PRId64 " layers, %" PRId64 " heads, width %" PRId64
                   ", MLP %" PRId64 ", context %" PRId64 ", vocabulary %" PRId64 " (padded %" PRId64
                   ")\n",
                   c->n_layer, c->n_head, c->n_embd, c->n_inner, c->n_positions, c->vocab_size,
                   model_config_vocab_padded(c)));
    TRY(buf_printf(out, err, "  parameters   %" PRId64 " (%s), %" PRId64 " of them in embeddings\n",
                   p->n_params, count, p->n_params_embedding));
    TRY(buf_printf(out, err, "  precision    %s, residual stream %s%s\n", s->prec.name,
                   dtype_name(s->prec.resid), s->recompute ? ", activations computed again" : ""));
    if (s->prec.fp8) TRY(fp8_text(&s->fp8, c, out, err));
    TRY(buf_printf(out, err, "  optimizer    %s\n",
                   s->lamb ? "LAMB: a step has the length of its tensor" : "AdamW"));
    if (s->loss_scale > 0)
        TRY(buf_printf(
            out, err, "  loss scale   %g at first; x %g after %d good steps, x %g after %s\n",
            (double)s->loss_scale, (double)s->rule.growth, s->rule.interval,
            (double)s->rule.backoff, s->rule.hysteresis == 1 ? "an overflow" : "some overflows"));
    TRY(buf_printf(out, err,
                   "  step         %" PRId64 " tokens: %" PRId64 " sequences x %" PRId64
                   ", in %" PRId64 " micro-batch%s of %" PRId64 "\n",
                   p->tokens_a_step, s->samples, s->block_size, s->samples / s->batch_size,
                   s->samples == s->batch_size ? "" : "es", s->batch_size));
    TRY(buf_printf(out, err, "  compute      %sFLOP a token, %sFLOP a step\n", per_token, a_step));
    TRY(buf_printf(out, err, "  memory       %s on each rank\n", total));
    TRY(parts_text(&p->run, out, err));
    TRY(parts_text(&p->step, out, err));
    TRY(parts_text(&p->host, out, err));
    TRY(parts_text(&p->pinned, out, err));
    return buf_printf(out, err, "               %-22s %10s\n", "scratch", scratch);
}

static Status parts_json(const Arena *a, Buf *out, Err *err)
{
    for (int i = 0; i < a->n_part; i++)
        if (a->parts[i].bytes)
            TRY(buf_printf(out, err, "\"%s\":%zu,", a->parts[i].name, a->parts[i].bytes));
    return ERR_NONE;
}

Status train_setup_json(const TrainSetup *s, const TrainPlan *p, Buf *out, Err *err)
{
    TRY(buf_printf(out, err,
                   "{\"parameters\":%" PRId64 ",\"parameters_embedding\":%" PRId64
                   ",\"tokens_a_step\":%" PRId64 ",\"flops_a_token\":%.17g,\"flops_a_step\":%.17g,"
                   "\"precision\":\"%s\",\"optimizer\":\"%s\",\"micro_batches\":%" PRId64
                   ",\"memory_bytes\":%zu,",
                   p->n_params, p->n_params_embedding, p->tokens_a_step, p->flops_a_token,
                   p->flops_a_step, s->prec.name, s->lamb ? "lamb" : "adamw",
                   s->samples / s->batch_size, p->total_bytes));
    if (s->prec.fp8) {
        TRY(buf_printf(out, err, "\"fp8\":"));
        TRY(fp8_json(&s->fp8, &s->model, out, err));
        TRY(buf_printf(out, err, ","));
    }
    TRY(buf_printf(out, err, "\"memory\":{"));
    TRY(parts_json(&p->run, out, err));
    TRY(parts_json(&p->step, out, err));
    TRY(parts_json(&p->host, out, err));
    TRY(parts_json(&p->pinned, out, err));
    return buf_printf(out, err, "\"scratch\":%zu}}\n", p->scratch_bytes);
}
