// option_rows.h -- the option table as data, and one value as text. Internal to engine/config/.
//
// option_rows[id] describes the field that OptionId `id` names: where it lies in Options, what it
// may hold, who takes it. Everything that loops over options loops over this.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stddef.h>
#include "engine/config/options.h"

// The commands that take --ops.NAME=IMPL.
enum { OPTION_OPS_COMMANDS = C_TRAIN | C_GENERATE | C_EVAL | C_PREDICT | C_BENCH | C_OPS };

typedef struct OptionRow {
    const char  *name;
    const char  *help;
    const char  *words; // the legal values of a STR, space separated; "" = any
    const char  *s;     // default of a STR
    OptionKind   kind;
    OptionResume resume;
    unsigned     commands; // OptionCommand bits
    size_t       offset;   // of the field in Options
    struct {
        int64_t def, min, max;
    } i; // I64, BOOL
    struct {
        double def, min, max;
    } f; // F64
} OptionRow;

extern const OptionRow option_rows[OPT_COUNT];

LT_C_BEGIN
int         option_find(const char *name, size_t n); // the OptionId, or -1
bool        option_in_words(const char *words, const char *value);
const char *option_origin_name(OptionOrigin origin);
const char *option_command_name(OptionCommand cmd); // of one bit: "train"
// "train, plan": the names of all commands in the set.
void option_command_list(unsigned commands, char *out, size_t cap);
// The value as a flag or a config file would spell it; numbers read back to the same bits.
LT_MUST_CHECK Status option_value(const Options *o, int id, Buf *out, Err *err);
void                 option_number(double v, char out[40]); // the shortest that reads back
// Copy field `id` of `from` into `to`.
LT_MUST_CHECK Status option_copy(Options *to, const Options *from, int id, OptionOrigin origin,
                                 Err *err);
bool                 option_equal(const Options *a, const Options *b, int id);
// Add or replace --ops.NAME=IMPL.
LT_MUST_CHECK Status option_set_op(Options *o, const char *name, const char *impl, Err *err);

// Problems found so far, to be reported together.
typedef struct Problems {
    Buf  text; // one line each
    int  n;
    bool bad[OPT_COUNT]; // options whose own value was refused: no rule looks at them
} Problems;

// Add one problem, "where: text" (where may be ""). ERR_NOMEM only.
LT_MUST_CHECK Status problems_add(Problems *p, Err *err, const char *where, const char *fmt, ...)
    LT_PRINTF(4, 5);
// ERR_NONE, or all problems as one error of this code. Frees the text.
LT_MUST_CHECK Status problems_end(Problems *p, Status code, Err *err);
// The rules between options (options_check.c).
LT_MUST_CHECK Status options_rules(const Options *o, OptionCommand cmd, Problems *p, Err *err);
LT_C_END
