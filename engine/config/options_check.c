// options_check.c -- the rules between options: what single bounds cannot say.
//
// Every rule that is broken adds a line to the report. A rule is passed over when one of its
// options was itself refused: that problem is already told.
//
// SPDX-License-Identifier: MIT
#include "engine/config/option_rows.h"
#include "engine/config/options.h"

#include <stdio.h>
#include <string.h>

typedef struct Rules {
    const Options *o;
    Problems      *p;
    Err           *err;
} Rules;

static bool fine(const Rules *r, OptionId id) { return !r->p->bad[id]; }

// How late an option was said; what a resumed run brings counts as the beginning.
static int rank_of(const Rules *r, OptionId id)
{
    const OptionOrigin origin = r->o->origin[id];
    return origin == ORIGIN_RUN ? 0 : (int)origin;
}

// A value someone shortened max_steps under is not a mistake: `--preset=X --max_steps=20`.
static bool said_with_max_steps(const Rules *r, OptionId id)
{
    return rank_of(r, id) >= rank_of(r, OPT_max_steps);
}

static Status need(Rules *r, OptionId id, const char *value, const char *what)
{
    if (value[0] || !fine(r, id)) return ERR_NONE;
    return problems_add(r->p, r->err, "", "--%s is missing: %s", option_rows[id].name, what);
}

// An option that was given, but that the chosen work does not look at.
static Status no_use(Rules *r, OptionId id, const char *work, const char *kind)
{
    if (!options_given(r->o, id)) return ERR_NONE;
    return problems_add(r->p, r->err, "", "--%s has no meaning for %s%s", option_rows[id].name,
                        work, kind);
}

// Sizes are 64-bit. This rough count, in bytes and from above, is refused long before they
// overflow.
static Status size_rule(Rules *r)
{
    static const OptionId used[] = {OPT_n_layer, OPT_n_embd, OPT_n_inner, OPT_vocab_size,
                                    OPT_block_size, OPT_batch_size};
    for (size_t i = 0; i < LT_COUNT(used); i++)
        if (!fine(r, used[i])) return ERR_NONE;
    const Options *o = r->o;
    const double   C = (double)o->n_embd, F = o->n_inner ? (double)o->n_inner : 4 * C;
    const double   V = (double)o->vocab_size + 1024, T = (double)o->block_size;
    const double   weights = (double)o->n_layer * C * (4 * C + 2 * F + 16) + C * (2 * V + T);
    const double   rows    = (double)o->batch_size * T;
    const double   kept    = rows * ((double)o->n_layer * (24 * C + 4 * F) + 16 * C + 4 * F);
    const double   logits  = (double)o->head_rows * V;
    if (24 * weights + 8 * kept + 8 * logits < 0x1p62) return ERR_NONE;
    return problems_add(r->p, r->err, "",
                        "a model and batch of this size need more bytes than 64 bits can count");
}

static Status of_one_precision(Rules *r, const OptionId *ids, size_t n, const char *precision)
{
    for (size_t i = 0; i < n && strcmp(r->o->precision, precision) != 0; i++)
        if (rank_of(r, ids[i])) TRY(no_use(r, ids[i], "precision=", r->o->precision));
    return ERR_NONE;
}

static Status precision_rules(Rules *r)
{
    static const OptionId of_fp8[]  = {OPT_fp8_recipe, OPT_fp8_history,    OPT_fp8_amax,
                                       OPT_fp8_margin, OPT_fp8_bf16_first, OPT_fp8_bf16_last,
                                       OPT_fp8_report};
    static const OptionId of_fp16[] = {OPT_loss_scale_init, OPT_loss_scale_growth_interval,
                                       OPT_loss_scale_growth, OPT_loss_scale_backoff,
                                       OPT_loss_scale_hysteresis};
    static const OptionId of_delayed[] = {OPT_fp8_history, OPT_fp8_amax};
    if (!fine(r, OPT_precision)) return ERR_NONE;
    TRY(of_one_precision(r, of_fp8, LT_COUNT(of_fp8), "fp8"));
    TRY(of_one_precision(r, of_fp16, LT_COUNT(of_fp16), "fp16"));
    for (size_t i = 0; i < LT_COUNT(of_delayed) && strcmp(r->o->fp8_recipe, "current") == 0; i++)
        if (rank_of(r, of_delayed[i])) TRY(no_use(r, of_delayed[i], "fp8.recipe=current", ""));
    return ERR_NONE;
}

// A model folder says by itself what it learns.
static Status architecture_rules(Rules *r)
{
    const Options *o = r->o;
    const bool bert = strcmp(o->architecture, "bert") == 0;
    if (bert && rank_of(r, OPT_residual_dtype)) // it has the type of activations
        TRY(no_use(r, OPT_residual_dtype, "architecture=bert", ""));
    if (!fine(r, OPT_task) || !fine(r, OPT_architecture) || o->init_from[0]) return ERR_NONE;
    if (!option_in_words(bert ? "lm" : "pretrain mlm", o->task)) return ERR_NONE;
    return problems_add(r->p, r->err, "", "task=%s is not learnt by architecture=%s", o->task,
                        o->architecture);
}

static Status model_rules(Rules *r)
{
    const Options *o = r->o;
    TRY(size_rule(r));
    TRY(architecture_rules(r));
    TRY(precision_rules(r));
    if (fine(r, OPT_n_embd) && fine(r, OPT_n_head) && o->n_embd % o->n_head)
        TRY(problems_add(r->p, r->err, "", "n_embd %lld is not a multiple of n_head %lld",
                         (long long)o->n_embd, (long long)o->n_head));
    if (!fine(r, OPT_batch_size) || !fine(r, OPT_block_size) || !fine(r, OPT_batch_tokens))
        return ERR_NONE;
    // The context is the model folder's, which is not open yet.
    if (o->init_from[0] && !options_given(o, OPT_block_size)) return ERR_NONE;
    const int64_t micro = o->batch_size * o->block_size; // both bounded: no overflow
    const int64_t most  = option_rows[OPT_batch_tokens].i.max;
    if (micro > most)
        return problems_add(r->p, r->err, "",
                            "batch_size x block_size = %lld tokens in a micro-batch; at most %lld",
                            (long long)micro, (long long)most);
    if (o->batch_tokens % micro)
        TRY(problems_add(r->p, r->err, "",
                         "batch_tokens %lld is not a multiple of batch_size x block_size = %lld x "
                         "%lld = %lld",
                         (long long)o->batch_tokens, (long long)o->batch_size,
                         (long long)o->block_size, (long long)micro));
    return ERR_NONE;
}

static Status schedule_rules(Rules *r)
{
    const Options *o   = r->o;
    const bool     wsd = strcmp(o->schedule, "wsd") == 0;
    if (fine(r, OPT_schedule) && strcmp(o->schedule, "poly") != 0 && rank_of(r, OPT_poly_power))
        TRY(no_use(r, OPT_poly_power, "schedule=", o->schedule));
    if (fine(r, OPT_min_lr) && fine(r, OPT_learning_rate) && o->min_lr > o->learning_rate) {
        char lo[40], hi[40];
        option_number(o->min_lr, lo);
        option_number(o->learning_rate, hi);
        TRY(problems_add(r->p, r->err, "", "min_lr %s is above learning_rate %s", lo, hi));
    }
    if (!fine(r, OPT_warmup_steps) || !fine(r, OPT_max_steps) || !fine(r, OPT_decay_steps))
        return ERR_NONE;
    if (o->warmup_steps > o->max_steps && said_with_max_steps(r, OPT_warmup_steps))
        TRY(problems_add(r->p, r->err, "", "warmup_steps %lld is above max_steps %lld",
                         (long long)o->warmup_steps, (long long)o->max_steps));
    if (!o->decay_steps || !fine(r, OPT_schedule)) return ERR_NONE;
    if (strcmp(o->schedule, "constant") == 0)
        return problems_add(r->p, r->err, "", "decay_steps has no meaning with schedule=constant");
    if (wsd && o->warmup_steps + o->decay_steps > o->max_steps &&
        said_with_max_steps(r, OPT_decay_steps))
        return problems_add(r->p, r->err, "",
                            "warmup_steps %lld + decay_steps %lld are above max_steps %lld",
                            (long long)o->warmup_steps, (long long)o->decay_steps,
                            (long long)o->max_steps);
    if (!wsd && o->decay_steps < o->warmup_steps)
        return problems_add(r->p, r->err, "",
                            "decay_steps %lld (the step at which min_lr is reached) is below "
                            "warmup_steps %lld",
                            (long long)o->decay_steps, (long long)o->warmup_steps);
    return ERR_NONE;
}

// Fine-tuning on labelled examples, and everything else.
static Status task_rules(Rules *r)
{
    static const OptionId of_others[] = {
        OPT_data,            OPT_data_document_mask, OPT_data_pack, OPT_mask_prob,
        OPT_max_predictions, OPT_whole_word_mask,    OPT_loss_mask, OPT_mllog,
        OPT_target_accuracy, OPT_eval_samples};
    static const OptionId of_examples[] = {OPT_data_train, OPT_data_val};
    const Options *o = r->o;
    if (!fine(r, OPT_task)) return ERR_NONE;
    if (!option_in_words("classify tag qa", o->task)) {
        for (size_t i = 0; i < LT_COUNT(of_examples); i++)
            if (rank_of(r, of_examples[i]))
                TRY(no_use(r, of_examples[i], "anything but task=classify, tag and qa", ""));
        return need(r, OPT_data, o->data, "the folder that `lathe data` made");
    }
    for (size_t i = 0; i < LT_COUNT(of_others); i++)
        if (rank_of(r, of_others[i])) TRY(no_use(r, of_others[i], "task=", o->task));
    TRY(need(r, OPT_init_from, o->init_from, "the BERT to start from"));
    return need(r, OPT_data_train, o->data_train, "labelled examples, .tsv or .jsonl");
}

static Status train_rules(Rules *r)
{
    const Options *o = r->o;
    TRY(task_rules(r));
    TRY(need(r, OPT_run, o->run, "the folder to keep this run in"));
    TRY(schedule_rules(r));
    if (o->keep_every && o->save_interval == 0 && fine(r, OPT_keep_every) &&
        fine(r, OPT_save_interval))
        TRY(problems_add(r->p, r->err, "", "keep_every %lld, but save_interval=0 saves nothing",
                         (long long)o->keep_every));
    return ERR_NONE;
}

static Status tokenizer_rules(Rules *r)
{
    const Options    *o    = r->o;
    const char *const what = o->n_args ? o->args[0] : "";
    static const struct {
        OptionId id;
        const char *used_by;
    } uses[] = {{OPT_input, "train"},          {OPT_out, "train"},
                {OPT_type, "train"},           {OPT_vocab_size, "train"},
                {OPT_allow_special, "encode"}, {OPT_add_special, "encode"},
                {OPT_tokenizer, "encode decode"}};
    for (size_t i = 0; i < LT_COUNT(uses); i++)
        if (what[0] && !option_in_words(uses[i].used_by, what))
            TRY(no_use(r, uses[i].id, "tokenizer ", what));
    if (strcmp(what, "train") == 0) {
        TRY(need(r, OPT_input, o->input, "the text to learn from"));
        return need(r, OPT_out, o->out, "the folder to write the tokenizer to");
    }
    if (strcmp(what, "encode") == 0 || strcmp(what, "decode") == 0)
        return need(r, OPT_tokenizer, o->tokenizer, "a tokenizer folder or file");
    return problems_add(r->p, r->err, "", "%s%s%s; say lathe tokenizer train, encode or decode",
                        what[0] ? "'" : "nothing to do", what, what[0] ? "' is unknown" : "");
}

static Status eval_rules(Rules *r)
{
    static const OptionId of_data[] = {OPT_split,     OPT_eval_batches, OPT_data_document_mask,
                                       OPT_loss_mask, OPT_data_pack,    OPT_mask_prob,
                                       OPT_max_predictions, OPT_whole_word_mask};
    const Options *o = r->o;
    TRY(need(r, OPT_model, o->model, "a run folder, step folder or Hugging Face folder"));
    const char *const on[] = {o->data, o->data_val, o->text, o->choices, o->lastword};
    int n = 0;
    for (size_t i = 0; i < LT_COUNT(on); i++) n += on[i][0] != 0;
    if (n == 0)
        return problems_add(r->p, r->err, "",
                            "nothing to evaluate on: give --data, --data.val, --text, --choices or "
                            "--lastword");
    if (n > 1)
        return problems_add(r->p, r->err, "",
                            "give one of --data, --data.val, --text, --choices and --lastword, "
                            "not %d",
                            n);
    if (o->data[0]) return no_use(r, OPT_tokenizer, "--data, which has token ids", "");
    for (size_t i = 0; i < LT_COUNT(of_data); i++)
        TRY(no_use(r, of_data[i], "anything but --data", ""));
    return ERR_NONE;
}

static Status data_rules(Rules *r)
{
    static const OptionId of_bert[] = {OPT_sentences, OPT_max_seq_length, OPT_short_seq_prob,
                                       OPT_dupe_factor, OPT_data_seed};
    const Options *o = r->o;
    TRY(need(r, OPT_input, o->input, "the text to read"));
    TRY(need(r, OPT_tokenizer, o->tokenizer, "a tokenizer folder or file"));
    TRY(need(r, OPT_out, o->out, "the folder to write the shards to"));
    if (!fine(r, OPT_format)) return ERR_NONE;
    // A [SEP] in the text would end a segment.
    if (strcmp(o->format, "bert") == 0) return no_use(r, OPT_allow_special, "format=bert", "");
    for (size_t i = 0; i < LT_COUNT(of_bert); i++)
        TRY(no_use(r, of_bert[i], "format=", o->format));
    return ERR_NONE;
}

Status options_rules(const Options *o, OptionCommand cmd, Problems *p, Err *err)
{
    Rules r = {o, p, err};
    switch (cmd) {
    case C_TRAIN: TRY(model_rules(&r)); return train_rules(&r);
    case C_PLAN:
        if (fine(&r, OPT_task) && option_in_words("classify tag qa", o->task))
            TRY(problems_add(p, err, "", "plan is of learning text, not of task=%s", o->task));
        return model_rules(&r);
    case C_GENERATE:
        TRY(need(&r, OPT_model, o->model, "a run folder, step folder or Hugging Face folder"));
        if (o->prompt[0] && o->prompt_file[0])
            return problems_add(p, err, "", "both --prompt and --prompt_file: give one");
        return ERR_NONE;
    case C_EVAL: return eval_rules(&r);
    case C_PREDICT:
        return need(&r, OPT_model, o->model, "a run folder, step folder or Hugging Face folder");
    case C_TOKENIZER: return tokenizer_rules(&r);
    case C_DATA: return data_rules(&r);
    case C_CONVERT:
        TRY(need(&r, OPT_from, o->from, "the model folder to read"));
        return need(&r, OPT_to, o->to, "the folder to write");
    case C_INSPECT:
        if (o->n_args == 0)
            return problems_add(p, err, "", "nothing to look at: lathe inspect PATH");
        return ERR_NONE;
    case C_BENCH:
    case C_OPS: return ERR_NONE;
    }
    return ERR_NONE;
}

Status options_check(const Options *o, OptionCommand cmd, Err *err)
{
    Problems     p = {0};
    const Status s = options_rules(o, cmd, &p, err);
    if (s == ERR_NONE) return problems_end(&p, ERR_USAGE, err);
    buf_free(&p.text);
    return s;
}
