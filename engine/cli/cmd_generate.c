// cmd_generate.c -- `lathe generate`: continue a prompt, streaming to stdout.
//
// One text is written as it comes. Several are separated by a line "---"; the prompt is repeated in
// front of each, so that the output reads on its own.
//
// SPDX-License-Identifier: MIT
#include "engine/cli/cli.h"
#include "engine/cli/model_tokenizer.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/generate/generate.h"
#include "engine/report/progress.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct Out {
    const Buf *prompt;
    int64_t samples, text; // text: the one being written, -1: none yet
} Out;

static Status put(const char *bytes, size_t n, Err *err)
{
    if (fwrite(bytes, 1, n, stdout) != n || fflush(stdout) != 0)
        return err_errno(err, errno, "write to standard output");
    return ERR_NONE;
}

static Status sink(void *arg, int64_t text, const char *bytes, size_t n, bool end, Err *err)
{
    Out *o = arg;
    if (text != o->text) {
        if (text > 0) TRY(put("---\n", 4, err));
        o->text = text;
        TRY(put(o->prompt->data ? o->prompt->data : "", o->prompt->len, err));
    }
    if (end) return put("\n", 1, err);
    return put(bytes, n, err);
}

// --prompt, --prompt_file (- is standard input), or standard input when it is no terminal.
static Status read_prompt(const Options *o, Buf *out, Err *err)
{
    if (o->prompt[0] || options_given(o, OPT_prompt)) return buf_puts(out, o->prompt, err);
    if (o->prompt_file[0] && strcmp(o->prompt_file, "-") != 0)
        return file_read(o->prompt_file, out, err);
    if (o->prompt_file[0] || isatty(STDIN_FILENO) == 0)
        return file_read_fd(STDIN_FILENO, "standard input", out, err);
    return ERR_NONE;
}

static Status generate(const Options *o, const Loaded *m, Backend *b, const Tokenizer *t, Err *err)
{
    Buf prompt = {0};
    TokenIds ids = {0};
    Infer f = {0};
    Status st = read_prompt(o, &prompt, err);
    if (st == ERR_NONE)
        st = tokenizer_encode(t, prompt.data ? prompt.data : "", prompt.len, o->allow_special, 1,
                              &ids, err);
    const int32_t end = tokenizer_end_token(t);
    if (st == ERR_NONE && ids.n == 0 && end < 0)
        st = err_set(err, ERR_USAGE,
                     "the prompt is empty, and this tokenizer has no end token to begin with");
    if (st == ERR_NONE) st = infer_open(&f, m, b, err);
    // On a terminal the text itself shows how far it is.
    Progress progress = {0};
    if (!log_is_terminal()) progress_begin(&progress, "writing", "tok", o->progress_after);
    const GenerateOptions g = {.max_new_tokens = o->max_new_tokens,
                               .num_samples = o->num_samples,
                               .top_k = o->top_k,
                               .temperature = o->temperature,
                               .top_p = o->top_p,
                               .seed = (uint64_t)o->seed,
                               .end_token = o->stop_at_end ? end : -1,
                               .on = progress_listener(&progress),
                               .start_token = end};
    Out out = {.prompt = &prompt, .samples = o->num_samples, .text = -1};
    if (st == ERR_NONE) st = generate_text(&f, t, &g, &ids, sink, &out, err);
    progress_end(&progress);
    infer_close(&f);
    token_ids_free(&ids);
    buf_free(&prompt);
    return st;
}

Status cmd_generate(const Options *o, Err *err)
{
    Backend b;
    Loaded m;
    Tokenizer *t = NULL;
    TRY(backend_of_options(&b, o, err));
    Status st = loaded_open(&m, o->model, o->which, o->precision, &b.device, err);
    if (st == ERR_NONE && m.c.head != HEAD_LM) {
        st = err_set(err, ERR_USAGE, "the model in %s is a BERT: it does not write texts", m.dir);
        err_hint(err, "`lathe predict` says what it makes of one");
    }
    if (st == ERR_NONE) st = model_tokenizer(&t, o, &m, err);
    if (st == ERR_NONE) st = generate(o, &m, &b, t, err);
    tokenizer_close(t);
    loaded_close(&m);
    backend_close(&b);
    return st;
}
