// model_tokenizer.c -- see model_tokenizer.h.
//
// SPDX-License-Identifier: MIT
#include "engine/cli/model_tokenizer.h"

Status model_tokenizer(Tokenizer **out, const Options *o, const Loaded *m, Err *err)
{
    const char *path = o->tokenizer[0] ? o->tokenizer : m->dir;
    const Status st = tokenizer_load(out, path, NULL, err);
    if (st != ERR_NONE) {
        if (!o->tokenizer[0]) err_hint(err, "give --tokenizer=DIR|FILE");
        return st;
    }
    if (tokenizer_vocab_size(*out) <= m->c.vocab_size) return ERR_NONE;
    const Status wrong =
        err_set(err, ERR_USAGE, "the tokenizer in %s has %lld ids, the model %lld", path,
                (long long)tokenizer_vocab_size(*out), (long long)m->c.vocab_size);
    tokenizer_close(*out);
    *out = NULL;
    return wrong;
}
