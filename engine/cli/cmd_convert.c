// cmd_convert.c -- lathe convert: a model folder of another element type, in other files, tied or
// not, with more or fewer vocabulary rows.
//
// SPDX-License-Identifier: MIT
#include "checkpoints/checkpoint.h"
#include "checkpoints/hf_convert.h"
#include "checkpoints/hf_slots.h"
#include "engine/base/log.h"
#include "engine/cli/cli.h"
#include "engine/report/progress.h"
#include "tokenizer/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// pad_vocab=1: what the tokenizer in the folder has; N: the next multiple of N.
static Status vocab_rows(int64_t pad, const char *dir, int64_t *rows, Err *err)
{
    HfConfig c;
    *rows = 0;
    if (pad == 0) return ERR_NONE;
    TRY(hf_config_read(&c, dir, err));
    if (pad > 1) {
        *rows = LT_ROUND_UP(c.vocab_size, pad);
        return ERR_NONE;
    }
    Tokenizer *t = NULL;
    TRY_CTX(tokenizer_load(&t, dir, NULL, err), err,
            "finding the vocabulary's size for pad_vocab=1");
    *rows = tokenizer_vocab_size(t);
    tokenizer_close(t);
    if (*rows > c.vocab_size)
        return err_set(err, ERR_FORMAT,
                       "%s: the tokenizer has %" PRId64 " ids, the model only %" PRId64, dir, *rows,
                       c.vocab_size);
    return ERR_NONE;
}

Status cmd_convert(const Options *o, Err *err)
{
    HfConvert h = {.dtype = HF_AS_IS, .tie = HF_AS_IS};
    int64_t step = -1;
    DType dtype;
    TRY(ckpt_find(o->from, o->which, h.from, &step, err));
    if (strlen(o->to) >= sizeof h.to) return err_set(err, ERR_USAGE, "--to: the path is too long");
    snprintf(h.to, sizeof h.to, "%s", o->to);
    if (o->dtype[0] && dtype_from_name(o->dtype, &dtype)) h.dtype = (int)dtype;
    if (o->tie[0]) h.tie = strcmp(o->tie, "true") == 0;
    h.shard_bytes = (uint64_t)o->max_shard_mb * 1000000;
    TRY(vocab_rows(o->pad_vocab, h.from, &h.vocab_size, err));
    HfConverted out;
    Progress progress;
    progress_begin(&progress, "writing", NULL, o->progress_after);
    h.on = progress_listener(&progress);
    const Status s = hf_convert(&h, &out, err);
    progress_end(&progress);
    TRY_CTX(s, err, "converting %s", h.from);
    if (out.left_out.ignored[0])
        log_note("left out: %s, which a %s does not have", out.left_out.ignored,
                 out.config.architecture);
    log_note("%s: %d tensors, %" PRId64 " parameters, %s, %s, vocabulary %" PRId64 ", %" PRIu64
             " bytes in %d file%s",
             h.to, out.tensors, out.parameters, out.config.dtype, hf_slots_output_text(&out.config),
             out.config.vocab_size, out.bytes, out.files, out.files == 1 ? "" : "s");
    return ERR_NONE;
}
