// examples_impl.h -- internal to examples.c and example_question.c.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/data/examples.h"

LT_C_BEGIN
// The list with room for one more element of `size` bytes; NULL, and err says so: no memory.
LT_MUST_CHECK void *examples_grow(void *list, int64_t n, int64_t *cap, size_t size, Err *err);
LT_MUST_CHECK Status examples_append(TokenIds *to, const int32_t *id, int64_t n, Err *err);
// The ids behind s->id are the sample's.
LT_MUST_CHECK Status examples_end_sample(Examples *e, ExampleSample *s, Err *err);
LT_MUST_CHECK Status examples_add_question(Examples *e, const ExampleRecord *r, Example *x,
                                           Err *err);
LT_C_END
