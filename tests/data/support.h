// support.h -- a folder that is gone after the test, files in it, and errors as tests want them.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"

typedef struct TestDir {
    char path[64];
} TestDir;

static inline TestDir test_dir(void)
{
    TestDir d = {"/tmp/lathe-data-XXXXXX"};
    assert_non_null(mkdtemp(d.path));
    return d;
}

static inline void test_dir_remove(TestDir *d)
{
    Err err = {0};
    if (file_remove_tree(d->path, &err) != ERR_NONE) fail_msg("%s", err.text);
}

typedef struct TestPath {
    char s[256];
} TestPath;

static inline TestPath test_path(const TestDir *d, const char *name)
{
    TestPath p;
    assert_true(snprintf(p.s, sizeof p.s, "%s/%s", d->path, name) < (int)sizeof p.s);
    return p;
}

static inline TestPath test_file(const TestDir *d, const char *name, const void *bytes, size_t n)
{
    const TestPath p   = test_path(d, name);
    Err            err = {0};
    if (file_replace(p.s, bytes, n, &err) != ERR_NONE) fail_msg("%s", err.text);
    return p;
}

static inline TestPath test_folder(const TestDir *d, const char *name)
{
    const TestPath p   = test_path(d, name);
    Err            err = {0};
    if (file_mkdirs(p.s, &err) != ERR_NONE) fail_msg("%s", err.text);
    return p;
}

static inline void must(Status s, const Err *err)
{
    if (s != ERR_NONE) fail_msg("%s: %s", err_name(s), err->text);
}

// The status is `code` and the text holds `part` (the hint is looked at, too).
static inline void expect_error(Status s, const Err *err, Status code, const char *part)
{
    if (s != code)
        fail_msg("got %s (%s), want %s with \"%s\"", err_name(s), err->text, err_name(code), part);
    if (!strstr(err->text, part) && !strstr(err->hint, part))
        fail_msg("text \"%s\" hint \"%s\" lacks \"%s\"", err->text, err->hint, part);
}

// An llm.c shard of these ids, as another program would write it.
static inline TestPath test_shard(const TestDir *d, const char *name, const int32_t *id, int n,
                                  bool wide)
{
    static uint8_t bytes[1024 + 4 * 65536];
    int32_t        header[256] = {wide ? 20240801 : 20240520, wide ? 7 : 1, n};
    assert_true(n <= 65536);
    memcpy(bytes, header, sizeof header);
    for (int i = 0; i < n; i++) {
        const uint16_t half = (uint16_t)id[i];
        if (wide)
            memcpy(bytes + 1024 + 4 * i, &id[i], 4);
        else
            memcpy(bytes + 1024 + 2 * i, &half, 2);
    }
    return test_file(d, name, bytes, 1024 + (size_t)n * (wide ? 4 : 2));
}
