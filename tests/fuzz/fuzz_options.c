// fuzz_options.c -- a config file, a separator, flags (one a line), as `lathe train` takes them.
//
// The resolved config that is accepted reads back to the same values, and a run that has it can be
// resumed with it.
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz.h"

#include "engine/base/buf.h"
#include "engine/config/option_rows.h"

#include <string.h>

enum { FLAGS = 16, FLAG_BYTES = 256 };

typedef struct Flags {
    char text[FLAGS][FLAG_BYTES];
    char *argv[FLAGS + 1];
    int n;
} Flags;

static void read_flags(Flags *f, const FuzzPart *p)
{
    const uint8_t *at = p->data, *const end = at + p->size;
    while (at < end && f->n <= FLAGS - 1) {
        const uint8_t *eol = memchr(at, '\n', (size_t)(end - at));
        const size_t n = LT_MIN((size_t)((eol ? eol : end) - at), (size_t)FLAG_BYTES - 1);
        memcpy(f->text[f->n], at, n);
        f->argv[1 + f->n] = f->text[f->n];
        f->n++;
        at = eol ? eol + 1 : end;
    }
}

static void must_equal(const Options *a, const Options *b)
{
    for (int id = 0; id < OPT_COUNT; id++) {
        if (!(option_rows[id].commands & C_TRAIN) || option_rows[id].resume == OPTION_NA) continue;
        fuzz_must(option_equal(a, b, id), "%s is another when the config is read again",
                  option_rows[id].name);
    }
    fuzz_must(a->n_ops == b->n_ops, "%d choices of ops, then %d", a->n_ops, b->n_ops);
}

// What was accepted, as the run's config.ini: read as a config, and resumed from.
static void read_again(const Options *o)
{
    char path[PATH_CAP];
    Buf text = {0}, told = {0};
    Err err = {0};
    Options again, resumed;
    fuzz_must(options_text(o, C_TRAIN, &text, &err) == ERR_NONE, "%s", err.text);
    fuzz_put(path, "c2.ini", text.data, text.len);
    char *argv[] = {path};
    options_init(&again);
    const Status s = options_parse(&again, C_TRAIN, 1, argv, &err);
    fuzz_must(s == ERR_NONE, "cannot read what was written: %s\n%s", err.text, text.data);
    must_equal(o, &again);
    options_init(&resumed);
    // No flags at all: what the run had is taken over.
    if (fuzz_good(options_parse(&resumed, C_TRAIN, 0, argv, &err), &err))
        fuzz_good(options_resume(&resumed, path, &told, &err), &err);
    options_free(&resumed);
    options_free(&again);
    buf_free(&text);
    buf_free(&told);
}

static void feed(const uint8_t *data, size_t size)
{
    static Flags flags; // too large for the stack of every build
    char path[PATH_CAP];
    Err err = {0};
    Options o;
    FuzzPart part[2];
    fuzz_split(data, size, part, 2);
    fuzz_put(path, "c.ini", part[0].data, part[0].size);
    memset(&flags, 0, sizeof flags);
    flags.argv[0] = path;
    read_flags(&flags, &part[1]);
    options_init(&o);
    if (fuzz_good(options_parse(&o, C_TRAIN, 1 + flags.n, flags.argv, &err), &err)) read_again(&o);
    options_free(&o);
}

// The factor: a line of one byte can have a complaint of a hundred.
const FuzzTarget fuzz_target = {feed, .memory_factor = 512, .memory_base = 8 << 20};
