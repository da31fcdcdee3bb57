// finetune.c -- see finetune.h.
//
// SPDX-License-Identifier: MIT
#include "engine/train/finetune.h"
#include "engine/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    ModelHead head;
} tasks[] = {[EXAMPLE_CLASSIFY] = {"classify", HEAD_CLASSIFY},
             [EXAMPLE_TAG] = {"tag", HEAD_TAG},
             [EXAMPLE_QA] = {"qa", HEAD_QA}};

// Devlin et al. 2019, appendix A.3: 3 epochs at 5e-5, 32 examples a step, a tenth of warm-up.
enum { EPOCHS = 3, LENGTH_UNIT = 8, EVAL_MOST = 250 };
static const struct {
    OptionId id;
    const char *name, *value;
} defaults[] = {{OPT_architecture, "architecture", "bert"},
                {OPT_batch_size, "batch_size", "32"},
                {OPT_learning_rate, "learning_rate", "5e-5"},
                {OPT_schedule, "schedule", "linear"},
                {OPT_beta2, "beta2", "0.999"},
                {OPT_weight_decay, "weight_decay", "0.01"},
                {OPT_eval_batches, "eval_batches", "0"}};

static int task_of(const Options *o)
{
    for (int i = 0; i < (int)LT_COUNT(tasks); i++)
        if (strcmp(o->task, tasks[i].name) == 0) return i;
    return -1;
}

bool finetune_asked(const Options *o)
{
    return task_of(o) >= 0;
}

static Status default_number(Options *o, OptionId id, const char *name, int64_t value, Err *err)
{
    char text[32];
    if (options_given(o, id)) return ERR_NONE;
    snprintf(text, sizeof text, "%" PRId64, value);
    return options_set(o, name, text, ORIGIN_PRESET, err);
}

// ---------------------------------------------------------------- examples

// The folder's map of labels, when it is one for this task and says what they mean.
static bool known_labels(const Finetune *f, const HfConfig *hf, bool resumed, Labels *out)
{
    static const char *const architectures[] = {"BertForSequenceClassification",
                                                "BertForTokenClassification"};
    if (f->task == EXAMPLE_QA || hf->n_labels == 0) return false;
    if (strcmp(hf->architecture, architectures[f->task == EXAMPLE_TAG]) != 0) return false;
    labels_from(out, hf->label, (int)hf->n_labels);
    return resumed || !labels_unnamed(out);
}

static Status read_file(Examples *e, const ExampleOptions *eo, const char *path, Err *err)
{
    TRY(examples_open(e, eo, err));
    TRY(examples_read(e, path, err));
    if (e->cut)
        log_warn("%s: %" PRId64 " of %" PRId64 " examples are longer than %" PRId64
                 " tokens, and cut",
                 path, e->cut, e->n, eo->block);
    return ERR_NONE;
}

static Status read_examples(Finetune *f, const Options *o, const Labels *known, int64_t block,
                            Err *err)
{
    ExampleOptions eo = {.task = f->task,
                         .tokenizer = f->tokenizer,
                         .block = block,
                         .labelled = true,
                         .labels = known};
    const bool evaluates = o->eval_interval > 0;
    TRY(read_file(&f->train, &eo, o->data_train, err));
    if (!o->data_val[0] && evaluates)
        return example_view_split(&f->train_view, &f->val_view, &f->train, (uint64_t)o->seed, err);
    TRY(example_view_all(&f->train_view, &f->train, err));
    if (!evaluates) return ERR_NONE;
    eo.labels = &f->train.labels;
    TRY(read_file(&f->val, &eo, o->data_val, err));
    TRY(example_view_all(&f->val_view, &f->val, err));
    f->train_view.picks = f->val_view.picks = LT_MAX(f->train.most_picks, f->val.most_picks);
    return ERR_NONE;
}

// Rows as long as the longest example needs; as long as may be when one was cut, so that a run that
// goes on cuts it at the same place.
static int64_t block_needed(const Finetune *f, int64_t most)
{
    const int64_t longest = LT_MAX(f->train.longest, f->val.longest);
    if (f->train.cut + f->val.cut > 0) return most;
    return LT_MIN(LT_ROUND_UP(longest, (int64_t)LENGTH_UNIT), most);
}

static Status choose_steps(const Finetune *f, Options *o, Err *err)
{
    const int64_t a_step =
        o->batch_tokens ? LT_MAX(1, o->batch_tokens / o->block_size) : o->batch_size;
    const int64_t an_epoch = (f->train_view.samples + a_step - 1) / a_step;
    TRY(default_number(o, OPT_max_steps, "max_steps", EPOCHS * an_epoch, err));
    TRY(default_number(o, OPT_warmup_steps, "warmup_steps", o->max_steps / 10, err));
    return default_number(o, OPT_eval_interval, "eval_interval",
                          LT_MIN(an_epoch, (int64_t)EVAL_MOST), err);
}

static Status check_tokenizer(const Finetune *f, const HfConfig *hf, Err *err)
{
    const int64_t V = tokenizer_vocab_size(f->tokenizer);
    if (V <= hf->vocab_size) return ERR_NONE;
    return err_set(err, ERR_USAGE,
                   "the tokenizer in %s has %" PRId64 " ids, the model's vocabulary %" PRId64,
                   f->dir, V, hf->vocab_size);
}

Status finetune_open(Finetune *f, Options *o, const HfConfig *hf, const char *dir, bool resumed,
                     Err *err)
{
    Labels known;
    *f = (Finetune){.on = true, .task = (ExampleTask)task_of(o)};
    snprintf(f->dir, sizeof f->dir, "%s", dir);
    if (strcmp(hf->model_type, "bert") != 0)
        return err_set(err, ERR_USAGE, "task=%s fine-tunes BERTs, the model in %s is a %s", o->task,
                       dir, hf->architecture);
    const int64_t block = options_given(o, OPT_block_size) ? o->block_size : hf->n_positions;
    TRY(examples_check_block(block, hf->n_positions, dir, err));
    for (size_t i = 0; i < LT_COUNT(defaults); i++)
        if (!options_given(o, defaults[i].id))
            TRY(options_set(o, defaults[i].name, defaults[i].value, ORIGIN_PRESET, err));
    TRY(tokenizer_load(&f->tokenizer, dir, NULL, err));
    TRY(check_tokenizer(f, hf, err));
    const bool has = known_labels(f, hf, resumed, &known);
    TRY(read_examples(f, o, has ? &known : NULL, block, err));
    f->train.o.labels = f->val.o.labels = NULL; // what they pointed to ends here
    TRY(default_number(o, OPT_block_size, "block_size", block_needed(f, block), err));
    return choose_steps(f, o, err);
}

void finetune_close(Finetune *f)
{
    example_view_close(&f->train_view);
    example_view_close(&f->val_view);
    examples_close(&f->train);
    examples_close(&f->val);
    tokenizer_close(f->tokenizer);
    *f = (Finetune){0};
}

// ---------------------------------------------------------------- model

void finetune_model(const Finetune *f, ModelConfig *c)
{
    c->head = tasks[f->task].head;
    c->pooler = c->head == HEAD_CLASSIFY;
    c->n_labels = f->task == EXAMPLE_QA ? 0 : f->train.labels.n;
    c->tie_embeddings = true;
}

void finetune_config(const Finetune *f, HfConfig *hf)
{
    if (f->task == EXAMPLE_QA) return;
    hf->n_labels = f->train.labels.n;
    memcpy(hf->label, f->train.labels.name, sizeof hf->label);
}

void finetune_facts(const Finetune *f, StreamInfo *out)
{
    *out = (StreamInfo){.tokens = f->train_view.tokens,
                        .documents = f->train_view.examples,
                        .vocab_size = tokenizer_vocab_size(f->tokenizer)};
    snprintf(out->tokenizer_dir, sizeof out->tokenizer_dir, "%s", f->dir);
}
