// options_page.c -- the options as text: the resolved config, --help, OPTIONS.md.
//
// SPDX-License-Identifier: MIT
#include "engine/config/option_file.h"
#include "engine/config/option_rows.h"
#include "engine/config/options.h"
#include "engine/config/presets.h"

#include <stdio.h>
#include <string.h>

// Where a new subject begins in options.def.
static const struct {
    OptionId    first;
    const char *title;
} groups[] = {
    {OPT_preset, "Model"},
    {OPT_data, "Run"},
    {OPT_batch_size, "Training"},
    {OPT_eval_interval, "Intervals and limits"},
    {OPT_device, "Machine and numbers"},
    {OPT_data_document_mask, "Meaning of the data"},
    {OPT_input, "Text and tokenizer"},
    {OPT_model, "Which model"},
    {OPT_prompt, "Generation"},
    {OPT_text, "Evaluation"},
    {OPT_from, "Conversion"},
    {OPT_verify, "Output"},
};

static const char *group_at(int id)
{
    for (size_t i = 0; i < LT_COUNT(groups); i++)
        if ((int)groups[i].first == id) return groups[i].title;
    return NULL;
}

Status options_text(const Options *o, OptionCommand cmd, Buf *out, Err *err)
{
    Buf    value = {0}, line = {0};
    Status s = ERR_NONE;
    for (int id = 0; id < OPT_COUNT && s == ERR_NONE; id++) {
        const OptionRow *row = &option_rows[id];
        if (!(row->commands & cmd) || row->resume == OPTION_NA) continue;
        buf_clear(&value);
        buf_clear(&line);
        s = option_value(o, id, &value, err);
        if (s == ERR_NONE) s = buf_printf(&line, err, "%s = ", row->name);
        if (s == ERR_NONE) s = option_file_quote(&line, value.data, err);
        if (s == ERR_NONE)
            s = buf_printf(out, err, "%-40s # %s\n", line.data,
                           option_origin_name(o->origin[id]));
    }
    for (int i = 0; i < o->n_ops && s == ERR_NONE; i++) {
        buf_clear(&line);
        s = buf_printf(&line, err, "ops.%s = %s", o->ops[i].name, o->ops[i].impl);
        if (s == ERR_NONE) s = buf_printf(out, err, "%-40s # flag\n", line.data);
    }
    buf_free(&value);
    buf_free(&line);
    return s;
}

// "min to max", or the legal words; "" when anything goes.
static void bounds_of(const OptionRow *row, char *out, size_t cap)
{
    char lo[40], hi[40];
    out[0] = 0;
    switch (row->kind) {
    case OPTION_I64:
        if (row->i.max == INT64_MAX)
            snprintf(out, cap, "%lld or more", (long long)row->i.min);
        else
            snprintf(out, cap, "%lld to %lld", (long long)row->i.min, (long long)row->i.max);
        break;
    case OPTION_F64:
        option_number(row->f.min, lo);
        option_number(row->f.max, hi);
        snprintf(out, cap, "%s to %s", lo, hi);
        break;
    case OPTION_STR: snprintf(out, cap, "%s", row->words); break;
    case OPTION_BOOL: break;
    }
}

// "--name=SHAPE" as one types it.
static void spelling_of(const OptionRow *row, char *out, size_t cap)
{
    static const char *const shape[] = {
        [OPTION_I64] = "=N", [OPTION_F64] = "=X", [OPTION_BOOL] = "=BOOL", [OPTION_STR] = "=TEXT"};
    snprintf(out, cap, "--%s%s", row->name, shape[row->kind]);
}

// Words of `text` in lines of 100 columns that start at column `indent`; the cursor is there now.
static Status put_wrapped(Buf *out, const char *text, int indent, Err *err)
{
    int column = indent;
    for (const char *w = text; *w;) {
        const int n = (int)strcspn(w, " ");
        if (column > indent && column + 1 + n > 100) {
            TRY(buf_printf(out, err, "\n%*s", indent, ""));
            column = indent;
        } else if (column > indent) {
            TRY(buf_puts(out, " ", err));
            column++;
        }
        TRY(buf_append(out, w, (size_t)n, err));
        column += n;
        w += n;
        w += *w == ' ';
    }
    return buf_puts(out, "\n", err);
}

static Status help_row(const OptionRow *row, const char *def, Buf *out, Err *err)
{
    char spelling[64], bounds[160], text[640];
    spelling_of(row, spelling, sizeof spelling);
    bounds_of(row, bounds, sizeof bounds);
    if (row->kind == OPTION_BOOL)
        snprintf(text, sizeof text, "%s [%s]", row->help, def);
    else if (!def[0] && !bounds[0])
        snprintf(text, sizeof text, "%s", row->help);
    else
        snprintf(text, sizeof text, "%s [%s%s%s]", row->help, def, def[0] && bounds[0] ? "; " : "",
                 bounds);
    TRY(buf_printf(out, err, "  %-30s ", spelling));
    return put_wrapped(out, text, 33, err);
}

Status options_help(OptionCommand cmd, Buf *out, Err *err)
{
    Options o;
    Buf     def   = {0};
    Status  s     = ERR_NONE;
    bool    bools = false;
    const char *title = NULL;
    options_init(&o);
    for (int id = 0; id < OPT_COUNT && s == ERR_NONE; id++) {
        const OptionRow *row = &option_rows[id];
        if (group_at(id)) title = group_at(id);
        if (!(row->commands & cmd)) continue;
        if (title) s = buf_printf(out, err, "%s\n", title);
        title = NULL;
        bools = bools || row->kind == OPTION_BOOL;
        buf_clear(&def);
        if (s == ERR_NONE) s = option_value(&o, id, &def, err);
        if (s == ERR_NONE) s = help_row(row, def.data, out, err);
    }
    if (s == ERR_NONE && (cmd & OPTION_OPS_COMMANDS))
        s = buf_puts(out,
                     "Ops\n"
                     "  --ops.NAME=IMPL                keep one implementation of an op; "
                     "`lathe ops` lists them\n",
                     err);
    if (s == ERR_NONE && bools)
        s = buf_puts(out,
                     "BOOL is true, yes, on or 1, or false, no, off or 0; `--name` alone is true, "
                     "`--no-name` false.\n",
                     err);
    buf_free(&def);
    options_free(&o);
    return s;
}

static Status markdown_row(int id, Buf *out, Err *err)
{
    static const char *const resume[] = {
        [OPTION_FREE] = "may change", [OPTION_FIXED] = "fixed", [OPTION_NA] = ""};
    const OptionRow *row = &option_rows[id];
    Options          o;
    Buf              def = {0};
    char             bounds[160], commands[128];
    options_init(&o);
    bounds_of(row, bounds, sizeof bounds);
    option_command_list(row->commands, commands, sizeof commands);
    Status s = option_value(&o, id, &def, err);
    if (s == ERR_NONE)
        s = buf_printf(out, err, "| `%s` | %s | %s | %s | %s | %s |\n", row->name, def.data,
                       row->kind == OPTION_BOOL ? "true false" : bounds, commands,
                       resume[row->resume], row->help);
    buf_free(&def);
    options_free(&o);
    return s;
}

Status options_markdown(Buf *out, Err *err)
{
    TRY(buf_puts(
        out,
        "# Options\n\n"
        "Made by `build/lathe options > engine/config/OPTIONS.md` from options.def; a test fails\n"
        "when it is out of date.\n\n"
        "An option is written `--name=value` on the command line and `name = value` in a config\n"
        "file. Precedence: default < preset < config file < flag; later wins. A true/false option\n"
        "may be written `--name` or `--no-name`; yes, on and 1 mean true, no, off and 0 false.\n"
        "The last but one column says whether it may change when a run goes on (`--resume`);\n"
        "where it is empty, the option belongs to the command and not to the run. Any op can be\n"
        "pinned to one implementation: `--ops.NAME=ref`.\n",
        err));
    for (int id = 0; id < OPT_COUNT; id++) {
        const char *title = group_at(id);
        if (title)
            TRY(buf_printf(out, err,
                           "\n## %s\n\n| option | default | legal values | commands | on resume | "
                           "meaning |\n|---|---|---|---|---|---|\n",
                           title));
        TRY(markdown_row(id, out, err));
    }
    TRY(buf_puts(out, "\n## Presets\n\n| preset | is | sets |\n|---|---|---|\n", err));
    for (int i = 0; i < preset_count(); i++) {
        const Preset *p = preset_at(i);
        TRY(buf_printf(out, err, "| `%s` | %s | %s |\n", p->name, p->about, p->values));
    }
    return ERR_NONE;
}
