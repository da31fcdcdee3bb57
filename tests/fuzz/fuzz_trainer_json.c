// fuzz_trainer_json.c -- trainer.json: where a run stands.
//
// What is accepted can be counted on from, and says the same after it was written once more.
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz.h"

#include "engine/base/buf.h"
#include "engine/train/run_state.h"

#include <math.h>
#include <string.h>

static void write_text(const RunState *st, const char *precision, Buf *out)
{
    Err err = {0};
    fuzz_must(run_state_text(st, 1, precision, out, &err) == ERR_NONE, "%s", err.text);
}

static void feed_as(const char *precision, const uint8_t *data, size_t size)
{
    Err err = {0};
    RunState st, again;
    Buf first = {0}, second = {0};
    if (!fuzz_good(run_state_parse(&st, (const char *)data, size, precision, "trainer.json", &err),
                   &err))
        return;
    fuzz_must(st.step >= 0 && st.step + 1 > 0 && st.samples >= 0 && st.tokens >= 0 &&
                  st.skipped >= 0,
              "a run that stands nowhere");
    fuzz_must(st.scale.scale >= 1 && isfinite(st.scale.scale), "a loss scale of %g",
              (double)st.scale.scale);
    write_text(&st, precision, &first);
    fuzz_must(run_state_parse(&again, first.data, first.len, precision, "trainer.json", &err) ==
                  ERR_NONE,
              "cannot read what was written: %s\n%s", err.text, first.data);
    write_text(&again, precision, &second);
    fuzz_must(strcmp(first.data, second.data) == 0, "changes when written and read:\n%s\n%s",
              first.data, second.data);
    buf_free(&first);
    buf_free(&second);
}

static void feed(const uint8_t *data, size_t size)
{
    feed_as("fp32", data, size);
    feed_as("fp16", data, size);
}

const FuzzTarget fuzz_target = {feed, .memory_factor = 194, .memory_base = 320 << 10};
