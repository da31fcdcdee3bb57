// progress.h -- how long work looks while it runs.
//
// A training run (progress_line), on stdout:
//
//   on a terminal   one live line, overwritten each step and kept at every log_interval
//   in a file       one plain line each log_interval
//
//     step 120/2000 | loss 2.4127 | lr 1.00e-03 | norm 0.83 | 12.4 ms | 61.9k tok/s | eta 0:23
//
// A loss that is a sum is followed by its parts: `loss 7.1031 (mlm 6.4099 nsp 0.6932)`.
// What the MFU is measured against is said once at the start of the run. Counters of skipped steps
// appear when there are any, the loss scale in fp16. A line never wraps: on a narrow terminal it is
// cut.
//
// Any other work (Progress), on stderr, so that results can be piped: after two seconds, and only
// on a terminal, one line that is written over in place and gone when the work is done.
//
//     encoding 412.3 MiB/1.9 GiB | 21% | 35.2 MiB/s | 0:44 left
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/compiler.h"
#include "engine/base/on_progress.h"

typedef struct ProgressRow {
    int64_t step, max_steps;
    double loss;
    double lr;
    double grad_norm;
    double seconds; // of one step: the caller's average over what it likes
    double tokens_per_second;
    double mfu;        // 0..1; < 0: not known, left out
    double eta;        // seconds to the end; < 0: not known, left out
    double loss_scale; // 0: none, left out
    int64_t skipped;   // non-finite steps so far
    struct {
        const char *name; // of a loss that is a sum; NULL: there is none
        double loss;
    } part[2];
} ProgressRow;

typedef struct Progress { // see progress_begin
    const char *label, *unit;
    double after, start, drawn;
    bool wanted, shown; // there is a terminal; the line is on it
} Progress;

LT_C_BEGIN
// The text of the line, without a newline. `cap` of 256 is enough.
void progress_text(const ProgressRow *row, char *out, size_t cap);
// live: this step is between two log intervals: shown on a terminal only, and overwritten.
// Otherwise the line stays.
void progress_line(const ProgressRow *row, bool live);
// Call before other output between live lines (evaluation, saving): clears the live line, so that
// the output takes its place. Nothing happens when stdout is no terminal.
void progress_break(void);

// label: what is done ("encoding"); unit: what is counted ("tok", "merges"), NULL: bytes; both
// kept. after: seconds of work before anything is shown (option progress_after).
void progress_begin(Progress *p, const char *label, const char *unit, double after);
// total <= 0: not known. Cheap: mostly a look at the clock. Not from two threads at once.
void progress_at(Progress *p, double done, double total);
void progress_end(Progress *p);            // clears the line; before results and errors
OnProgress progress_listener(Progress *p); // for work in folders below; keeps p
// The text of the line after `seconds` of work. `cap` of 256 is enough.
void progress_work_text(const Progress *p, double done, double total, double seconds, char *out,
                        size_t cap);

void progress_duration(double seconds, char out[32]); // "0:07", "12:34", "3:04:05", "2d 03:04"
void progress_count(double n, char out[32]);          // "950", "61.9k", "124.4M", "1.56B", "314T"
void progress_bytes(double n, char out[32]);          // "512 B", "1.9 GiB"
LT_C_END
