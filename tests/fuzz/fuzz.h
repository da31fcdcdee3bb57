// fuzz.h -- what every fuzz target is made of: one function that eats bytes, and a few words to say
// what must hold.
//
// A target is one small file that defines `fuzz_target`. The same file is built two ways:
//
//     clang, LATHE_FUZZ=ON   fuzz_driver.c + libFuzzer: looks for inputs that break something
//     any compiler           fuzz_driver.c + fuzz_replay.c: feeds files, or random damage of them
//
// What is checked for every input, besides crashes and sanitizers:
//   (1) A refusal has a code and a text, and the text holds no control characters.
//   (2) The heap a parser takes at its peak is at most factor * (bytes of the input) + base: no
//       number in a file may make a program reserve memory that the file does not account for.
//   (3) What was accepted holds together: each target says what that means.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "engine/base/err.h"
#include "engine/base/file.h"

typedef struct FuzzTarget {
    void (*feed)(const uint8_t *data, size_t size);
    size_t memory_factor; // bytes of heap for a byte of input
    size_t memory_base;
} FuzzTarget;

extern const FuzzTarget fuzz_target; // defined by the target's file

typedef struct FuzzPart { // of an input that stands for several files
    const uint8_t *data;
    size_t size;
} FuzzPart;

// Between the parts of an input. It stands in the dictionaries, too.
#define FUZZ_SEPARATOR "\n%%%%\n"

LT_C_BEGIN
// Complains and aborts when `holds` is false: a finding.
void fuzz_must(bool holds, const char *fmt, ...) LT_PRINTF(2, 3);
// Did the call succeed? Checks that a refusal says why.
bool fuzz_good(Status s, const Err *err);
// dir/name for a file of the target's own folder, which lies in memory where the system has that.
const char *fuzz_path(char out[PATH_CAP], const char *name);
// The same, after writing the bytes there.
const char *fuzz_put(char out[PATH_CAP], const char *name, const void *bytes, size_t n);
// Cuts an input at FUZZ_SEPARATOR. All n parts are set; those that are not there are empty.
void fuzz_split(const uint8_t *data, size_t size, FuzzPart *part, int n);

// One input through the target, with the checks on memory around it.
void fuzz_run(const uint8_t *data, size_t size);

// fuzz_memory.c: bytes of heap in use now, and the most since the last fuzz_memory_begin.
int64_t fuzz_memory_begin(void);
int64_t fuzz_memory_peak(void);
LT_C_END
