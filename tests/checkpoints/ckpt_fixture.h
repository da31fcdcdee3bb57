// ckpt_fixture.h -- what the checkpoint tests share: temp folders, small models, damage.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include "checkpoints/checkpoint.h"

enum { FIXTURE_TENSORS = 64 };

typedef struct Fixture { // a tiny GPT-2 with numbers in it
    HfConfig config;
    Tensor   t[FIXTURE_TENSORS];
    int      n;
    float   *block; // all of the memory
} Fixture;

// A fresh folder under $TMPDIR or /tmp; removed by fixture_rmdir.
void fixture_mkdir(char out[PATH_CAP]);
void fixture_rmdir(const char *dir);
// dir/name, for messages and calls; out is returned.
const char *fixture_path(char out[PATH_CAP], const char *dir, const char *name);
// LATHE_SOURCE_DIR/tests/checkpoints/golden/name
const char *fixture_golden(char out[PATH_CAP], const char *name);
void        fixture_put(const char *path, const void *bytes, size_t n);
void        fixture_copy(const char *to_dir, const char *from_dir);
void        fixture_must(Status s, const Err *err); // fails the test with the text

// 2 layers, width 8, 20 tokens; value i of tensor k depends on seed, k and i.
void fixture_config(HfConfig *c);
void fixture_model(Fixture *f, const HfConfig *c, uint64_t seed);
void fixture_free(Fixture *f);
void fixture_zero(Fixture *f);
bool fixture_equal(const Fixture *a, const Fixture *b);
