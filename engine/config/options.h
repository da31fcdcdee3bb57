// options.h -- the option table as a struct, and how flags and files fill it.
//
// Precedence: default < preset < config file < flag; later wins. An unknown key is an error with
// the nearest name; a key that the subcommand does not take is an error that says which do; every
// problem is reported in one text (options_parse collects them).
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/buf.h"
#include "engine/base/err.h"

typedef enum OptionKind { OPTION_I64, OPTION_F64, OPTION_BOOL, OPTION_STR } OptionKind;
typedef enum OptionOrigin {
    ORIGIN_DEFAULT = 0,
    ORIGIN_PRESET,
    ORIGIN_FILE,
    ORIGIN_FLAG,
    ORIGIN_RUN,  // kept from the run that is resumed
    ORIGIN_MODEL // of the model folder that a run starts from
} OptionOrigin;
typedef enum OptionResume { OPTION_FREE, OPTION_FIXED, OPTION_NA } OptionResume;

typedef enum OptionCommand { // bits
    C_TRAIN     = 1 << 0,
    C_PLAN      = 1 << 1,
    C_GENERATE  = 1 << 2,
    C_EVAL      = 1 << 3,
    C_TOKENIZER = 1 << 4,
    C_DATA      = 1 << 5,
    C_INSPECT   = 1 << 6,
    C_CONVERT   = 1 << 7,
    C_BENCH     = 1 << 8,
    C_OPS       = 1 << 9,
    C_PREDICT   = 1 << 10
} OptionCommand;

typedef int64_t     option_I64;
typedef double      option_F64;
typedef bool        option_BOOL;
typedef const char *option_STR; // owned by the Options

typedef enum OptionId {
#define OPTION(kind, name, field, def, min, max, words, commands, resume, help) OPT_##field,
#include "engine/config/options.def"
#undef OPTION
    OPT_COUNT
} OptionId;

typedef struct OptionOp { // one --ops.NAME=IMPL
    char name[32], impl[32];
} OptionOp;

typedef struct Options {
#define OPTION(kind, name, field, def, min, max, words, commands, resume, help) option_##kind field;
#include "engine/config/options.def"
#undef OPTION
    OptionOrigin origin[OPT_COUNT];
    OptionOp     ops[32];
    int          n_ops;
    char       **strings; // every string value, owned
    int          n_strings;
    const char **args; // positional arguments (pointers into argv), owned array
    int          n_args;
} Options;

LT_C_BEGIN
void options_init(Options *o); // defaults
void options_free(Options *o);
// argv behind the subcommand: at most one CONFIG.ini (only where the subcommand takes one: train,
// plan), --key=value flags (--flag alone is true), other words are positional. ERR_USAGE with every
// problem, one a line.
LT_MUST_CHECK Status options_parse(Options *o, OptionCommand cmd, int argc, char **argv, Err *err);
// Nothing is looked up for `cmd` here; ops.NAME is a name, too.
LT_MUST_CHECK Status options_set(Options *o, const char *name, const char *value,
                                 OptionOrigin origin, Err *err);
// The resolved config: `key = value   # origin` for every option of `cmd` but the NA ones, which
// are not part of a run; reads back as a config file.
LT_MUST_CHECK Status options_text(const Options *o, OptionCommand cmd, Buf *out, Err *err);
// Compare with the config.ini of the run being resumed: FIXED options that differ are an error
// naming both values (all of them at once); an option not given by flag or file takes the run's
// value (origin ORIGIN_RUN), and so do precision=auto and cpu.isa=auto: the trainer stores what it
// chose. batch_tokens comes back written out, so that another batch_size keeps the step's size.
// `told` gets a line for each FREE option that changed.
LT_MUST_CHECK Status options_resume(Options *o, const char *config_path, Buf *told, Err *err);
// The rules between options (n_embd a multiple of n_head, ...). options_parse ends with them, but
// for a run that exists: there options_resume does. ERR_USAGE with every broken rule.
LT_MUST_CHECK Status options_check(const Options *o, OptionCommand cmd, Err *err);
LT_MUST_CHECK Status options_help(OptionCommand cmd, Buf *out, Err *err);     // for --help
LT_MUST_CHECK Status options_markdown(Buf *out, Err *err);                    // OPTIONS.md
bool                 options_given(const Options *o, OptionId id); // by preset, file or flag?
LT_C_END
