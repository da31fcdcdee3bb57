// options_parse.c -- flags and config file into Options, with every problem in one report.
//
// Flags and lines are first collected, then applied in order of precedence: preset, file, flags.
//
// SPDX-License-Identifier: MIT
#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "engine/config/near_name.h"
#include "engine/config/option_file.h"
#include "engine/config/option_rows.h"
#include "engine/config/options.h"
#include "engine/config/presets.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Status problems_add(Problems *p, Err *err, const char *where, const char *fmt, ...)
{
    char    line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    p->n++;
    if (p->text.len) TRY(buf_puts(&p->text, "\n", err));
    if (where[0]) TRY(buf_printf(&p->text, err, "%s: ", where));
    return buf_puts(&p->text, line, err);
}

// What does not fit an Err is counted.
Status problems_end(Problems *p, Status code, Err *err)
{
    enum { ROOM = ERR_MOST - 64 };
    if (!p->n) return ERR_NONE;
    size_t len = p->text.len;
    int    cut = 0;
    while (len > ROOM) {
        while (len > 0 && p->text.data[len - 1] != '\n') len--;
        if (!len) {
            len = ROOM;
            break;
        }
        len--;
        cut++;
    }
    Status s = cut ? err_set(err, code, "%.*s\n(and %d more)", (int)len, p->text.data, cut)
                   : err_set(err, code, "%.*s", (int)len, p->text.data);
    buf_free(&p->text);
    return s;
}

// What people who come from nanoGPT, llm.c or Megatron type.
static const struct {
    const char *other, *ours;
} aliases[] = {
    {"lr", "learning_rate"},        {"max_iters", "max_steps"},
    {"steps", "max_steps"},         {"train_iters", "max_steps"},
    {"warmup_iters", "warmup_steps"}, {"lr_decay_iters", "decay_steps"},
    {"eval_iters", "eval_batches"}, {"out_dir", "run"},
    {"dataset", "data"},            {"gradient_accumulation_steps", "batch_tokens"},
    {"dtype", "precision"},         {"num_layers", "n_layer"},
    {"hidden_size", "n_embd"},      {"num_attention_heads", "n_head"},
    {"seq_length", "block_size"},   {"micro_batch_size", "batch_size"},
    {"clip_grad", "grad_clip"},     {"checkpoint", "model"},
};

static const char *nearest(const char *key, OptionCommand cmd)
{
    for (size_t i = 0; i < LT_COUNT(aliases); i++) {
        const char *ours = aliases[i].ours;
        if (strcmp(key, aliases[i].other) == 0 &&
            (option_rows[option_find(ours, strlen(ours))].commands & cmd))
            return ours;
    }
    NearName near = {0};
    for (int id = 0; id < OPT_COUNT; id++)
        if (option_rows[id].commands & cmd) near_offer(&near, key, option_rows[id].name);
    return near.best;
}

typedef struct Parse {
    Options      *o;
    OptionCommand cmd;
    const char   *file; // NULL: none
    Problems      problems;
    Entries       entries; // file lines first, then flags
} Parse;

static void where_of(const Parse *p, const Entry *e, char out[PATH_CAP + 16])
{
    if (e->line)
        snprintf(out, PATH_CAP + 16, "%s:%d", p->file, e->line);
    else
        snprintf(out, PATH_CAP + 16, "--%.200s", e->key);
}

static Status refuse_unknown(Parse *p, const Entry *e, Err *err)
{
    char where[PATH_CAP + 16];
    where_of(p, e, where);
    const char *near = nearest(e->key, p->cmd);
    if (near)
        return problems_add(&p->problems, err, where, "no option is called '%.100s'; nearest: %s",
                            e->key, near);
    return problems_add(&p->problems, err, where,
                        "no option is called '%.100s'; see lathe %s --help", e->key,
                        option_command_name(p->cmd));
}

// A config file serves train and plan alike: plan passes over what only train uses.
static bool takes(const Parse *p, unsigned commands, const Entry *e)
{
    if (commands & p->cmd) return true;
    return e->line && p->cmd == C_PLAN && (commands & C_TRAIN);
}

static Status apply(Parse *p, const Entry *e, Err *err)
{
    char      where[PATH_CAP + 16], list[128];
    Err       why;
    const int id = option_find(e->key, strlen(e->key));
    const bool is_op = strncmp(e->key, "ops.", 4) == 0;
    if (id < 0 && !is_op) return refuse_unknown(p, e, err);
    where_of(p, e, where);
    const unsigned commands = is_op ? OPTION_OPS_COMMANDS : option_rows[id].commands;
    if (!takes(p, commands, e)) {
        option_command_list(commands, list, sizeof list);
        return problems_add(&p->problems, err, where, "'%s' is an option of %s, not of %s", e->key,
                            list, option_command_name(p->cmd));
    }
    if (!e->value)
        return problems_add(&p->problems, err, where, "needs a value: --%s=%s", e->key,
                            option_rows[id].kind == OPTION_STR ? "TEXT" : "NUMBER");
    const Status s = options_set(p->o, e->key, e->value, e->origin, &why);
    if (s != ERR_USAGE) {
        if (s != ERR_NONE && err) *err = why;
        return s;
    }
    if (id >= 0) p->problems.bad[id] = true;
    // The flag already names the option; a line of a file does not.
    const char  *text = why.text;
    const size_t n    = strlen(e->key);
    if (!e->line && strncmp(text, e->key, n) == 0 && strncmp(text + n, ": ", 2) == 0) text += n + 2;
    return problems_add(&p->problems, err, where, "%s", text);
}

static Status apply_preset(Parse *p, Err *err)
{
    const char *name = NULL;
    Entry       at   = {0};
    for (int i = 0; i < p->entries.n; i++) { // a flag comes after the file: the last one counts
        if (strcmp(p->entries.entry[i].key, "preset") != 0 || !p->entries.entry[i].value) continue;
        at   = p->entries.entry[i];
        name = at.value;
    }
    if (!name || !name[0] || !(p->cmd & (C_TRAIN | C_PLAN))) return ERR_NONE;
    const Preset *preset = preset_find(name);
    if (!preset) {
        char     where[PATH_CAP + 16], all[256] = "";
        NearName near = {0};
        where_of(p, &at, where);
        for (int i = 0; i < preset_count(); i++) {
            const size_t used = strlen(all);
            near_offer(&near, name, preset_at(i)->name);
            snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", preset_at(i)->name);
        }
        if (near.best)
            return problems_add(&p->problems, err, where, "no preset '%.100s'; nearest: %s", name,
                                near.best);
        return problems_add(&p->problems, err, where, "no preset '%.100s'; there are: %s", name,
                            all);
    }
    char key[64], value[64];
    for (const char *s = preset->values; *s;) {
        const size_t nk = strcspn(s, "="), nv = strcspn(s + nk + 1, " ");
        snprintf(key, sizeof key, "%.*s", (int)nk, s);
        snprintf(value, sizeof value, "%.*s", (int)nv, s + nk + 1);
        TRY(options_set(p->o, key, value, ORIGIN_PRESET, err));
        s += nk + 1 + nv;
        s += *s == ' ';
    }
    return ERR_NONE;
}

static int positional_max(OptionCommand cmd)
{
    return cmd & (C_TOKENIZER | C_INSPECT | C_BENCH | C_OPS | C_PREDICT) ? 1000000 : 0;
}

static Status read_word(Parse *p, const char *word, Err *err)
{
    if (p->cmd & (C_TRAIN | C_PLAN)) {
        if (p->file)
            return problems_add(&p->problems, err, "",
                                "'%.200s': one config file is read, and that is %s", word, p->file);
        p->file = word;
        return ERR_NONE;
    }
    if (p->o->n_args >= positional_max(p->cmd))
        return problems_add(&p->problems, err, "",
                            "'%.200s': unexpected word; options are written --name=value", word);
    p->o->args[p->o->n_args++] = word;
    return ERR_NONE;
}

// --name=value, --flag, --no-flag. Cuts the flag at '=' by keeping a copy in `text`.
static Status read_flag(Parse *p, char *copy, Err *err)
{
    char *eq  = strchr(copy, '=');
    Entry e   = {.key = copy, .value = NULL, .origin = ORIGIN_FLAG};
    if (eq) {
        *eq     = 0;
        e.value = eq + 1;
    } else {
        int id = option_find(copy, strlen(copy));
        if (id >= 0 && option_rows[id].kind == OPTION_BOOL) {
            e.value = "true";
        } else if (id < 0 && strncmp(copy, "no-", 3) == 0) {
            id = option_find(copy + 3, strlen(copy + 3));
            if (id >= 0 && option_rows[id].kind == OPTION_BOOL) {
                e.key   = copy + 3;
                e.value = "false";
            }
        } else if (id < 0 && strncmp(copy, "ops.", 4) == 0) {
            e.value = "";
        }
    }
    return entries_add(&p->entries, e, err);
}

static Status read_argv(Parse *p, int argc, char **argv, char **copies, Err *err)
{
    bool flags_over = false;
    for (int i = 0; i < argc; i++) {
        char *a = argv[i];
        if (flags_over || a[0] != '-' || strcmp(a, "-") == 0) {
            TRY(read_word(p, a, err));
        } else if (strcmp(a, "--") == 0) {
            flags_over = true;
        } else if (a[1] != '-') {
            TRY(problems_add(&p->problems, err, "",
                             "'%.200s': options are written --name=value", a));
        } else {
            copies[i] = mem_strdup(a + 2);
            if (!copies[i]) return mem_err(err, strlen(a), "a flag");
            TRY(read_flag(p, copies[i], err));
        }
    }
    return ERR_NONE;
}

// A run that exists brings its own options; the rules are looked at when they are in
// (options_resume).
static bool rules_can_wait(const Options *o, OptionCommand cmd)
{
    char path[PATH_CAP];
    return cmd == C_TRAIN && o->run[0] && strcmp(o->resume, "never") != 0 &&
           path_join(path, o->run, "config.ini", NULL) == ERR_NONE && file_exists(path);
}

static Status parse(Parse *p, int argc, char **argv, char **copies, Err *err)
{
    Entries flags = {0};
    Status  s     = read_argv(p, argc, argv, copies, err);
    if (s == ERR_NONE && p->file) {
        flags      = p->entries; // the file goes first
        p->entries = (Entries){0};
        s          = option_file_read(p->file, &p->entries, &p->problems, err);
        for (int i = 0; i < flags.n && s == ERR_NONE; i++)
            s = entries_add(&p->entries, flags.entry[i], err);
        entries_free(&flags);
    }
    TRY(s);
    TRY(apply_preset(p, err));
    for (int i = 0; i < p->entries.n; i++) TRY(apply(p, &p->entries.entry[i], err));
    if (rules_can_wait(p->o, p->cmd)) return ERR_NONE;
    return options_rules(p->o, p->cmd, &p->problems, err);
}

Status options_parse(Options *o, OptionCommand cmd, int argc, char **argv, Err *err)
{
    Parse        p     = {.o = o, .cmd = cmd};
    const size_t bytes = ((size_t)argc + 1) * sizeof(char *);
    o->args            = mem_calloc((size_t)argc + 1, sizeof *o->args);
    char **copies      = mem_calloc((size_t)argc + 1, sizeof *copies);
    Status s           = o->args && copies ? ERR_NONE : mem_err(err, bytes, "the command line");
    if (s == ERR_NONE) s = parse(&p, argc, argv, copies, err);
    if (s == ERR_NONE && p.problems.n) {
        s = problems_end(&p.problems, ERR_USAGE, err);
        err_hint(err, "lathe %s --help lists the options", option_command_name(cmd));
    }
    buf_free(&p.problems.text);
    entries_free(&p.entries);
    for (int i = 0; i < argc && copies; i++) mem_free(copies[i]);
    mem_free(copies);
    return s;
}
