// fuzz_trainer_json.c -- trainer.json: where a run stands.
//
// What is accepted can be counted on from, and says the same after it was written once more.
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz.h"

#include "engine/base/buf.h"
#include "engine/train/run_state.h"

#include <string.h>

static void write_text(const RunState *st, Buf *out)
{
    Err err = {0};
    fuzz_must(run_state_text(st, 1, "fp32", out, &err) == ERR_NONE, "%s", err.text);
}

static void feed(const uint8_t *data, size_t size)
{
    Err err = {0};
    RunState st, again;
    Buf first = {0}, second = {0};
    if (!fuzz_good(run_state_parse(&st, (const char *)data, size, "fp32", "trainer.json", &err),
                   &err))
        return;
    fuzz_must(st.step >= 0 && st.step + 1 > 0 && st.samples >= 0 && st.tokens >= 0 &&
                  st.skipped >= 0,
              "a run that stands nowhere");
    write_text(&st, &first);
    fuzz_must(run_state_parse(&again, first.data, first.len, "fp32", "trainer.json", &err) ==
                  ERR_NONE,
              "cannot read what was written: %s\n%s", err.text, first.data);
    write_text(&again, &second);
    fuzz_must(strcmp(first.data, second.data) == 0, "changes when written and read:\n%s\n%s",
              first.data, second.data);
    buf_free(&first);
    buf_free(&second);
}

const FuzzTarget fuzz_target = {feed, .memory_factor = 194, .memory_base = 320 << 10};
