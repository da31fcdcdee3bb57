// presets.h -- named starting points: a model's shape and the training setting known for it.
//
// A preset is a list of `key = value` lines applied below the config file and the flags. To add
// one, add a row to presets.c; tests/config/test_options.c tries every row.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/compiler.h"

typedef struct Preset {
    const char *name;
    const char *about;
    const char *values; // "key=value key=value ..."
} Preset;

LT_C_BEGIN
int           preset_count(void);
const Preset *preset_at(int i);
const Preset *preset_find(const char *name); // NULL: no such preset
LT_C_END
