// fp8_report.h -- how FP8 fares: of every tensor the largest element, the scale, and how many
// elements the format could not hold.
//
// amax and scale are of the newest step, counts of all steps since the last report (mod 2^32); of
// weights, of each time they became FP8: an update counts for the step to come.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/model/fp8.h"

typedef struct Fp8Report { // host memory, owned; [n] each
    int64_t n;
    float *amax; // -1: did not occur
    Fp8Scale *scale;
    Fp8Count *count;
} Fp8Report;

LT_C_BEGIN
// Read what the device knows; counting begins anew.
LT_MUST_CHECK Status fp8_report_take(Fp8Report *r, Fp8State *s, Device *d, Err *err);
void fp8_report_close(Fp8Report *r); // also of a zeroed one
// Fields of a line of metrics.jsonl (",\"layers\":[...],..."): a list for each number, of lists for
// each layer in FP8, in the order that "tensors" names.
LT_MUST_CHECK Status fp8_report_json(const Fp8Report *r, const Fp8State *s, Buf *out, Err *err);
// The same as a table, a line for each linear layer.
LT_MUST_CHECK Status fp8_report_table(const Fp8Report *r, const Fp8State *s, Buf *out, Err *err);
LT_C_END
