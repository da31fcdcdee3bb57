// err.h -- how an operating error travels: a code to branch on, a text to read.
//
// A function that can fail for a reason outside the program (a file, a flag, a device, memory,
// the numbers) returns Status and takes `Err *err` as its LAST parameter. err may be NULL; then
// only the code travels. On failure the callee has released what it acquired, and its outputs are
// as if it had not been called.
// A wrong call (NULL, a shape the check function refused) is not an operating error: it is an
// ASSERT (assert.h), and stops the program where it stands.
//
// The text has no prefix, no full stop and no newline: cause first, then what was being done. Other
// control characters in what it quotes are written as '?'.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdarg.h>
#include "engine/base/compiler.h"

typedef enum Status {
    ERR_NONE = 0,
    ERR_USAGE,       // a flag, key or value the user gave             exit 2
    ERR_IO,          // open, read, write, rename, fsync               exit 1
    ERR_FORMAT,      // bytes on disk are not what they claim to be    exit 3
    ERR_NOMEM,       // memory, file handles: there will be more        exit 1
    ERR_DEVICE,      // CUDA, cuBLASLt or NCCL said no                 exit 1
    ERR_UNSUPPORTED, // legal, but no implementation serves it         exit 2
    ERR_DIVERGED,    // the numbers went bad; a checkpoint was kept    exit 4
    ERR_STOPPED,     // by a signal or max_seconds, after a save       exit 5
} Status;

enum { ERR_MOST = 1800 }; // bytes; a longer piece of text loses its middle

typedef struct Err {
    Status code;
    char text[2048]; // innermost cause first, one line per layer
    char hint[512];  // what the user can do next; "" when we have no idea
} Err;

LT_C_BEGIN
// Record the cause and return `code`, so that a failure is one line:
//     return err_set(err, ERR_FORMAT, "%s: magic %08x, expected %08x", path, got, want);
LT_MUST_CHECK Status err_set(Err *err, Status code, const char *fmt, ...) LT_PRINTF(3, 4);
// Append what we were doing, keep the code. For TRY_CTX.
LT_MUST_CHECK Status err_add(Err *err, Status code, const char *fmt, ...) LT_PRINTF(3, 4);
// err_set with errno's text behind the message: "open runs/a/x: No such file or directory".
LT_MUST_CHECK Status err_errno(Err *err, int errno_value, const char *fmt, ...) LT_PRINTF(3, 4);
void err_hint(Err *err, const char *fmt, ...) LT_PRINTF(2, 3);
void err_clear(Err *err);
int err_exit_code(Status code);
const char *err_name(Status code);
// Control characters but line ends become '?': what is quoted from a file, or is the name of one,
// must not steer the terminal.
void err_plain(char *text);
LT_C_END

// The two macros that may return from the caller. There is no third.
#define TRY(call)                                                                                  \
    do {                                                                                           \
        Status try_ = (call);                                                                      \
        if (try_ != ERR_NONE) return try_;                                                         \
    } while (0)
#define TRY_CTX(call, err, ...)                                                                    \
    do {                                                                                           \
        Status try_ = (call);                                                                      \
        if (try_ != ERR_NONE) return err_add(err, try_, __VA_ARGS__);                              \
    } while (0)
