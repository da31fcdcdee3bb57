// options.c -- the table, single values in and out. See options.h.
//
// SPDX-License-Identifier: MIT
#include "engine/config/options.h"
#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/config/option_rows.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ROW_I64(d, lo, hi)  .i = {d, lo, hi}
#define ROW_BOOL(d, lo, hi) .i = {d, lo, hi}
#define ROW_F64(d, lo, hi)  .f = {d, lo, hi}
#define ROW_STR(d, lo, hi)  .s = d

const OptionRow option_rows[OPT_COUNT] = {
#define OPTION(k, n, field, d, lo, hi, w, cmds, res, h)                                            \
    [OPT_##field] = {.name = #n, .help = h, .words = w, .kind = OPTION_##k, .commands = cmds, \
                     .resume = OPTION_##res, .offset = offsetof(Options, field),                   \
                     ROW_##k(d, lo, hi)},
#include "engine/config/options.def"
#undef OPTION
};

static const char *const command_names[] = {"train", "plan",    "generate", "eval",  "tokenizer",
                                            "data",  "inspect", "convert",  "bench", "ops",
                                            "predict"};

const char *option_command_name(OptionCommand cmd)
{
    for (size_t i = 0; i < LT_COUNT(command_names); i++)
        if (cmd == (OptionCommand)(1u << i)) return command_names[i];
    return "?";
}

void option_command_list(unsigned commands, char *out, size_t cap)
{
    size_t used = 0;
    out[0]      = 0;
    for (size_t i = 0; i < LT_COUNT(command_names); i++) {
        if (!(commands & (1u << i))) continue;
        const int n =
            snprintf(out + used, cap - used, "%s%s", used ? ", " : "", command_names[i]);
        used += (size_t)n;
        ASSERT(used < cap, "%zu bytes for a list of commands", cap);
    }
}

const char *option_origin_name(OptionOrigin origin)
{
    static const char *const names[] = {"default", "preset", "file",
                                        "flag",    "run",    "model"};
    ASSERT((unsigned)origin < LT_COUNT(names), "origin %d", (int)origin);
    return names[origin];
}

int option_find(const char *name, size_t n)
{
    for (int id = 0; id < OPT_COUNT; id++)
        if (strlen(option_rows[id].name) == n && memcmp(option_rows[id].name, name, n) == 0)
            return id;
    return -1;
}

bool option_in_words(const char *words, const char *value)
{
    const size_t n = strlen(value);
    for (const char *w = words; *w;) {
        const size_t k = strcspn(w, " ");
        if (k == n && memcmp(w, value, n) == 0) return true;
        w += k;
        w += *w == ' ';
    }
    return false;
}

static void *field_of(Options *o, int id) { return (char *)o + option_rows[id].offset; }
static const void *field_in(const Options *o, int id)
{
    return (const char *)o + option_rows[id].offset;
}

void options_init(Options *o)
{
    memset(o, 0, sizeof *o);
    for (int id = 0; id < OPT_COUNT; id++) {
        const OptionRow *row = &option_rows[id];
        void            *at  = field_of(o, id);
        switch (row->kind) {
        case OPTION_I64: *(int64_t *)at = row->i.def; break;
        case OPTION_F64: *(double *)at = row->f.def; break;
        case OPTION_BOOL: *(bool *)at = row->i.def != 0; break;
        case OPTION_STR: *(const char **)at = row->s; break;
        }
    }
}

void options_free(Options *o)
{
    for (int i = 0; i < o->n_strings; i++) mem_free(o->strings[i]);
    mem_free(o->strings);
    mem_free(o->args);
    memset(o, 0, sizeof *o);
}

bool options_given(const Options *o, OptionId id) { return o->origin[id] != ORIGIN_DEFAULT; }

// A copy of s that lives as long as o.
static Status keep_string(Options *o, const char *s, const char **out, Err *err)
{
    const size_t bytes = ((size_t)o->n_strings + 1) * sizeof(char *);
    char       **list  = mem_realloc(o->strings, bytes);
    if (!list) return mem_err(err, bytes, "option values");
    o->strings = list;
    char *copy = mem_strdup(s);
    if (!copy) return mem_err(err, strlen(s) + 1, "an option value");
    o->strings[o->n_strings++] = copy;
    *out                       = copy;
    return ERR_NONE;
}

// Digits with an optional minus sign; nothing around them.
static bool read_i64(const char *s, int64_t *out, bool *range)
{
    const char *d = s + (*s == '-');
    *range        = false;
    if (!*d || strspn(d, "0123456789") != strlen(d)) return false;
    errno             = 0;
    const long long v = strtoll(s, NULL, 10);
    if (errno == ERANGE) {
        *range = true;
        return false;
    }
    *out = v;
    return true;
}

// A decimal number as C writes it: no hexadecimal, no inf, no nan, nothing around it.
static bool read_f64(const char *s, double *out, bool *range)
{
    *range = false;
    if (!*s || strspn(s, "0123456789+-.eE") != strlen(s)) return false;
    char *end;
    *out = strtod(s, &end);
    if (*end || end == s) return false;
    *range = !isfinite(*out);
    return !*range;
}

static bool read_bool(const char *s, bool *out)
{
    static const char *const yes[] = {"true", "1", "yes", "on"};
    static const char *const no[]  = {"false", "0", "no", "off"};
    for (size_t i = 0; i < LT_COUNT(yes); i++) {
        if (strcasecmp(s, yes[i]) == 0 || strcasecmp(s, no[i]) == 0) {
            *out = strcasecmp(s, yes[i]) == 0;
            return true;
        }
    }
    return false;
}

void option_number(double v, char out[40])
{
    if (v == trunc(v) && fabs(v) < 1e6) {
        snprintf(out, 40, "%.0f", v);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, 40, "%.*g", digits, v);
        if (strtod(out, NULL) == v) return;
    }
}

static Status set_i64(const OptionRow *row, const char *value, int64_t *out, Err *err)
{
    bool    range;
    int64_t v = 0;
    if (!read_i64(value, &v, &range) && !range)
        return err_set(err, ERR_USAGE, "%s: '%s' is not a whole number", row->name, value);
    if (range || v < row->i.min || v > row->i.max)
        return err_set(err, ERR_USAGE, "%s: %s is not in the range %lld to %lld", row->name, value,
                       (long long)row->i.min, (long long)row->i.max);
    *out = v;
    return ERR_NONE;
}

static Status set_f64(const OptionRow *row, const char *value, double *out, Err *err)
{
    bool   range;
    double v = 0;
    if (!read_f64(value, &v, &range) && !range)
        return err_set(err, ERR_USAGE, "%s: '%s' is not a finite decimal number", row->name, value);
    if (range || v < row->f.min || v > row->f.max) {
        char lo[40], hi[40];
        option_number(row->f.min, lo);
        option_number(row->f.max, hi);
        return err_set(err, ERR_USAGE, "%s: %s is not in the range %s to %s", row->name, value, lo,
                       hi);
    }
    *out = v;
    return ERR_NONE;
}

static Status set_str(Options *o, const OptionRow *row, const char *value, const char **out,
                      Err *err)
{
    if (row->words[0] && value[0] && !option_in_words(row->words, value))
        return err_set(err, ERR_USAGE, "%s: '%s' is not one of: %s", row->name, value, row->words);
    if (row->words[0] && !value[0] && row->s[0])
        return err_set(err, ERR_USAGE, "%s: empty; one of: %s", row->name, row->words);
    return keep_string(o, value, out, err);
}

Status option_set_op(Options *o, const char *name, const char *impl, Err *err)
{
    if (!name[0] || !impl[0])
        return err_set(err, ERR_USAGE, "ops.%s: write --ops.NAME=IMPLEMENTATION", name);
    if (strlen(name) >= sizeof o->ops[0].name || strlen(impl) >= sizeof o->ops[0].impl)
        return err_set(err, ERR_USAGE, "ops.%.40s: name or implementation is too long", name);
    int i = 0;
    while (i < o->n_ops && strcmp(o->ops[i].name, name) != 0) i++;
    if (i == (int)LT_COUNT(o->ops))
        return err_set(err, ERR_USAGE, "ops.%s: more than %d ops", name, (int)LT_COUNT(o->ops));
    if (i == o->n_ops) o->n_ops++;
    snprintf(o->ops[i].name, sizeof o->ops[i].name, "%s", name);
    snprintf(o->ops[i].impl, sizeof o->ops[i].impl, "%s", impl);
    return ERR_NONE;
}

Status options_set(Options *o, const char *name, const char *value, OptionOrigin origin, Err *err)
{
    if (strncmp(name, "ops.", 4) == 0) return option_set_op(o, name + 4, value, err);
    const int id = option_find(name, strlen(name));
    if (id < 0) return err_set(err, ERR_USAGE, "%s: no such option", name);
    const OptionRow *row = &option_rows[id];
    void            *at  = field_of(o, id);
    switch (row->kind) {
    case OPTION_I64: TRY(set_i64(row, value, at, err)); break;
    case OPTION_F64: TRY(set_f64(row, value, at, err)); break;
    case OPTION_BOOL:
        if (!read_bool(value, at))
            return err_set(err, ERR_USAGE, "%s: '%s' is not true or false", name, value);
        break;
    case OPTION_STR: TRY(set_str(o, row, value, at, err)); break;
    }
    o->origin[id] = origin;
    return ERR_NONE;
}

Status option_value(const Options *o, int id, Buf *out, Err *err)
{
    const void *at = field_in(o, id);
    char        text[40];
    switch (option_rows[id].kind) {
    case OPTION_I64: return buf_printf(out, err, "%lld", (long long)*(const int64_t *)at);
    case OPTION_F64: option_number(*(const double *)at, text); return buf_puts(out, text, err);
    case OPTION_BOOL: return buf_puts(out, *(const bool *)at ? "true" : "false", err);
    case OPTION_STR: return buf_puts(out, *(const char *const *)at, err);
    }
    return ERR_NONE;
}

Status option_copy(Options *to, const Options *from, int id, OptionOrigin origin, Err *err)
{
    void       *dst = field_of(to, id);
    const void *src = field_in(from, id);
    switch (option_rows[id].kind) {
    case OPTION_I64: *(int64_t *)dst = *(const int64_t *)src; break;
    case OPTION_F64: *(double *)dst = *(const double *)src; break;
    case OPTION_BOOL: *(bool *)dst = *(const bool *)src; break;
    case OPTION_STR: TRY(keep_string(to, *(const char *const *)src, dst, err)); break;
    }
    to->origin[id] = origin;
    return ERR_NONE;
}

bool option_equal(const Options *a, const Options *b, int id)
{
    const void *x = field_in(a, id), *y = field_in(b, id);
    switch (option_rows[id].kind) {
    case OPTION_I64: return *(const int64_t *)x == *(const int64_t *)y;
    case OPTION_F64: return *(const double *)x == *(const double *)y;
    case OPTION_BOOL: return *(const bool *)x == *(const bool *)y;
    case OPTION_STR: return strcmp(*(const char *const *)x, *(const char *const *)y) == 0;
    }
    return false;
}
