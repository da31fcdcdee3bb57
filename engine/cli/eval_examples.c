// eval_examples.c -- see eval_examples.h.
//
// SPDX-License-Identifier: MIT
#include "engine/cli/eval_examples.h"
#include "engine/base/log.h"
#include "engine/cli/model_tokenizer.h"
#include "engine/generate/predict.h"
#include "engine/report/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static Status print_score(const Options *o, const Score *s, const Examples *e, Err *err)
{
    const double loss = score_mean_loss(s);
    char number[40] = "null"; // JSON has no NaN
    if (isfinite(loss)) snprintf(number, sizeof number, "%.9g", loss);
    Buf b = {0};
    Status st = o->json ? score_json(s, &b, err) : score_text(s, &b, err);
    if (st == ERR_NONE && o->json)
        printf("{\"loss\":%s,%s,\"n\":%" PRId64 "}\n", number, b.data, e->n);
    else if (st == ERR_NONE)
        printf("loss %.6f %s n %" PRId64 "\n", loss, b.data, e->n);
    buf_free(&b);
    if (st == ERR_NONE && !isfinite(loss))
        return err_set(err, ERR_DIVERGED, "the loss is not a number");
    return st;
}

static Status run(const Options *o, const Loaded *m, Backend *b, Examples *e, Err *err)
{
    Predictor p;
    Progress progress;
    Score score;
    TRY(examples_read(e, o->data_val, err));
    if (e->cut)
        log_warn("%" PRId64 " of %" PRId64 " examples were longer than %" PRId64 " tokens, and cut",
                 e->cut, e->n, e->o.block);
    TRY(predictor_open(&p, m, b, o->batch_size, e->o.block, err));
    progress_begin(&progress, "evaluating", "samples", o->progress_after);
    const OnProgress on = progress_listener(&progress);
    const Status st = predictor_score(&p, e, &on, &score, err);
    progress_end(&progress);
    predictor_close(&p);
    TRY(st);
    return print_score(o, &score, e, err);
}

Status eval_examples(const Options *o, const Loaded *m, Backend *b, Err *err)
{
    const int64_t most = m->c.n_positions;
    const int64_t block = options_given(o, OPT_block_size) ? o->block_size : most;
    Labels labels;
    ExampleOptions eo = {.labelled = true, .block = block, .labels = &labels};
    Tokenizer *t = NULL;
    Examples e = {0};
    TRY(predict_task(m, &eo.task, err));
    TRY(examples_check_block(block, most, m->dir, err));
    predict_labels(m, &labels);
    TRY(model_tokenizer(&t, o, m, err));
    eo.tokenizer = t;
    Status st = examples_open(&e, &eo, err);
    if (st == ERR_NONE) st = run(o, m, b, &e, err);
    examples_close(&e);
    tokenizer_close(t);
    return st;
}
