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

typedef struct GoldenTensor { // a line of golden/values*.h
    const char *folder, *name;
    int         rank;
    int64_t     shape[2];
    double      sum, weighted; // sum x[i], sum x[i] * (1 + i % 7)
} GoldenTensor;

typedef struct Fixture { // a tiny model with numbers in it
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

// A GPT-2 and a BERT; 2 layers, width 8, 20 tokens. Value i of tensor k depends on seed, k and i.
void fixture_config(HfConfig *c);
void fixture_bert(HfConfig *c, const char *architecture);
void fixture_model(Fixture *f, const HfConfig *c, uint64_t seed);
void fixture_load(Fixture *f, const char *dir); // a model folder, by its config.json
void fixture_load_golden(Fixture *f, const char *folder); // of the golden ones
void fixture_free(Fixture *f);
void fixture_zero(Fixture *f);
bool fixture_equal(const Fixture *a, const Fixture *b);
const Tensor *fixture_tensor(const Fixture *f, const char *name); // NULL: not there
// The tensors that the table has for that folder, all of them and no other.
void fixture_check_golden(const Fixture *f, const char *folder, const GoldenTensor *golden,
                          size_t n);
// Each of the folders loads with the numbers that the table has for it.
void fixture_check_folders(const char *const *folder, size_t n_folder, const GoldenTensor *golden,
                           size_t n);
// All of these folders hold the same bits.
void fixture_check_same(const char *const *folder, size_t n_folder);
