// options_resume.c -- the options of a run that goes on: its own, where nothing else was said.
//
// SPDX-License-Identifier: MIT
#include "engine/base/file.h"
#include "engine/config/option_file.h"
#include "engine/config/option_rows.h"
#include "engine/config/options.h"

#include <stdio.h>
#include <string.h>

// The run's config.ini as Options. The program wrote the file: a line it does not understand means
// damage or another version.
static Status read_run(Options *run, const char *path, Err *err)
{
    Entries  entries = {0};
    Problems p       = {0};
    Status   s       = option_file_read(path, &entries, &p, err);
    for (int i = 0; i < entries.n && s == ERR_NONE; i++) {
        const Entry *e  = &entries.entry[i];
        const int    id = option_find(e->key, strlen(e->key));
        if (id >= 0 && option_rows[id].resume == OPTION_NA) continue; // not of the run
        Err          why;
        char         where[PATH_CAP + 16];
        const Status set = options_set(run, e->key, e->value, ORIGIN_FILE, &why);
        snprintf(where, sizeof where, "%s:%d", path, e->line);
        if (set == ERR_USAGE) s = problems_add(&p, err, where, "%s", why.text);
        if (set == ERR_NOMEM) s = err_set(err, set, "%s", why.text);
    }
    entries_free(&entries);
    if (s == ERR_NONE) return problems_end(&p, ERR_FORMAT, err);
    buf_free(&p.text);
    return s;
}

// Was a value said, here and now? "auto" of an option whose choice is stored says nothing.
static bool said(const Options *o, int id)
{
    const OptionOrigin origin = o->origin[id];
    if (origin != ORIGIN_FILE && origin != ORIGIN_FLAG) return false;
    if (id == OPT_precision) return strcmp(o->precision, "auto") != 0;
    if (id == OPT_cpu_isa) return strcmp(o->cpu_isa, "auto") != 0;
    return true;
}

// Equal for the purpose of a run: two names of one folder are equal, also one with a slash behind.
static bool same(const Options *a, const Options *b, int id)
{
    if (option_equal(a, b, id)) return true;
    if (id != OPT_data && id != OPT_init_from) return false;
    const char *x = id == OPT_data ? a->data : a->init_from;
    const char *y = id == OPT_data ? b->data : b->init_from;
    if (x[0] && y[0] && file_same(x, y)) return true;
    size_t      n = strlen(x), m = strlen(y);
    while (n > 1 && x[n - 1] == '/') n--;
    while (m > 1 && y[m - 1] == '/') m--;
    return n == m && memcmp(x, y, n) == 0;
}

static Status resume_one(Options *o, const Options *run, int id, Problems *p, Buf *told, Err *err)
{
    const OptionRow *row = &option_rows[id];
    if (!said(o, id)) return option_copy(o, run, id, ORIGIN_RUN, err);
    if (same(o, run, id)) return ERR_NONE;
    Buf    was = {0}, now = {0};
    Status s = option_value(run, id, &was, err);
    if (s == ERR_NONE) s = option_value(o, id, &now, err);
    if (s == ERR_NONE && row->resume == OPTION_FIXED)
        s = problems_add(p, err, "",
                         "%s cannot change when a run goes on: the run has '%s', the %s says '%s'",
                         row->name, was.data, option_origin_name(o->origin[id]), now.data);
    else if (s == ERR_NONE)
        s = buf_printf(told, err, "%s: %s -> %s\n", row->name, was.data, now.data);
    buf_free(&was);
    buf_free(&now);
    return s;
}

static Status resume_ops(Options *o, const Options *run, Buf *told, Err *err)
{
    for (int i = 0; i < run->n_ops; i++) {
        const OptionOp *was = &run->ops[i];
        int             j   = 0;
        while (j < o->n_ops && strcmp(o->ops[j].name, was->name) != 0) j++;
        if (j == o->n_ops)
            TRY(option_set_op(o, was->name, was->impl, err));
        else if (strcmp(o->ops[j].impl, was->impl) != 0)
            TRY(buf_printf(told, err, "ops.%s: %s -> %s\n", was->name, was->impl, o->ops[j].impl));
    }
    return ERR_NONE;
}

static Status resume_all(Options *o, Options *run, Problems *p, Buf *told, Err *err)
{
    // 0 means batch_size x block_size; written out, a smaller micro-batch keeps the step's size.
    if (run->batch_tokens == 0) run->batch_tokens = run->batch_size * run->block_size;
    if (o->batch_tokens == 0 && said(o, OPT_batch_tokens))
        o->batch_tokens = o->batch_size * o->block_size;
    for (int id = 0; id < OPT_COUNT; id++) {
        const OptionRow *row = &option_rows[id];
        if ((row->commands & C_TRAIN) && row->resume != OPTION_NA)
            TRY(resume_one(o, run, id, p, told, err));
    }
    return resume_ops(o, run, told, err);
}

Status options_resume(Options *o, const char *config_path, Buf *told, Err *err)
{
    Options  run;
    Problems p = {0};
    options_init(&run);
    Status s = read_run(&run, config_path, err);
    if (s == ERR_NONE) s = resume_all(o, &run, &p, told, err);
    options_free(&run);
    if (s == ERR_NONE && p.n) {
        s = problems_end(&p, ERR_USAGE, err);
        err_hint(err, "leave the option out to keep the run's value, or start another --run");
        return s;
    }
    buf_free(&p.text);
    TRY(s);
    return options_check(o, C_TRAIN, err);
}
