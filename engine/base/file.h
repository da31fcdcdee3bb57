// file.h -- the only way to the file system: whole files, maps, atomic replacement, folders, locks.
//
// Every failure names the path and the system's reason. Paths are byte strings of any content but
// NUL, up to PATH_CAP - 1 bytes.
//
// Atomic writing: FileWriter writes to `path.tmp`, and file_commit does fsync, rename, fsync of the
// folder. Until then the old file stands untouched; file_abandon (or a crash) leaves it so.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/on_progress.h"

enum { PATH_CAP = 4096 };

typedef struct FileMap { // a file mapped read-only
    const uint8_t *data; // NULL for an empty file
    size_t size;
} FileMap;

typedef struct FileWriter {
    int fd; // -1: closed
    char path[PATH_CAP];
    char tmp[PATH_CAP];
    uint64_t written;
    uint32_t crc; // CRC-32 (zlib) of everything written so far
    char *block;
    size_t fill;
} FileWriter;

typedef struct FileLock {
    int fd; // -1: not held
} FileLock;

typedef struct FileList { // names in a folder, sorted by byte value
    char **name;
    int n;
} FileList;

LT_C_BEGIN
// dir + "/" + name. ERR_USAGE when the result is too long.
LT_MUST_CHECK Status path_join(char out[PATH_CAP], const char *dir, const char *name, Err *err);
const char *path_base(const char *path); // behind the last '/'
// In front of it: the folder that holds `path`; "." when it names none.
LT_MUST_CHECK Status path_dir(char out[PATH_CAP], const char *path, Err *err);

// When the system cannot say, the answer is yes: nothing is made anew over what may be there, and
// whoever opens it next gets the reason.
bool file_exists(const char *path);
bool file_is_dir(const char *path);
bool file_same(const char *a, const char *b); // two names of one file or folder that exists
LT_MUST_CHECK Status file_size(const char *path, uint64_t *bytes, Err *err);
LT_MUST_CHECK Status file_read(const char *path, Buf *out, Err *err); // appends the whole file
LT_MUST_CHECK Status file_read_fd(int fd, const char *name, Buf *out, Err *err); // until the end
// One read, which may wait (a pipe, a terminal); 0 bytes are the end. A stop request (stop.h) while
// it waits is ERR_STOPPED.
LT_MUST_CHECK Status file_read_part(int fd, const char *name, void *to, size_t cap, size_t *got,
                                    Err *err);
LT_MUST_CHECK Status file_map(const char *path, FileMap *out, Err *err);
void file_unmap(FileMap *m);

LT_MUST_CHECK Status file_create(FileWriter *w, const char *path, Err *err);
LT_MUST_CHECK Status file_write(FileWriter *w, const void *bytes, size_t n, Err *err);
LT_MUST_CHECK Status file_commit(FileWriter *w, Err *err); // closed afterwards, success or not
void file_abandon(FileWriter *w);                          // also of a closed one
LT_MUST_CHECK Status file_replace(const char *path, const void *bytes, size_t n, Err *err);

LT_MUST_CHECK Status file_mkdirs(const char *path, Err *err); // all parents too; exists is fine
// fsync of the folder included
LT_MUST_CHECK Status file_rename(const char *from, const char *to, Err *err);
LT_MUST_CHECK Status file_remove(const char *path, Err *err);       // a file; absent is fine
LT_MUST_CHECK Status file_remove_tree(const char *path, Err *err);  // absent is fine
LT_MUST_CHECK Status file_remove_empty(const char *path, Err *err); // a folder; not empty: ERR_IO
LT_MUST_CHECK Status file_sync_dir(const char *path, Err *err);
LT_MUST_CHECK Status file_list(const char *dir, FileList *out, Err *err);
void file_list_free(FileList *l);

// An exclusive lock on `path` (created). Held by another process: ERR_USAGE that says so with the
// holder's process id. Gone with the process, however it ends.
LT_MUST_CHECK Status file_lock(FileLock *l, const char *path, Err *err);
bool file_lock_stands(const FileLock *l, const char *path); // does `path` still name what is held?
void file_unlock(FileLock *l);

// CRC-32 (zlib) of a whole file, and its size.
LT_MUST_CHECK Status file_crc(const char *path, uint32_t *crc, uint64_t *bytes, Err *err);
// The same; `on` hears the bytes read so far, without a total.
LT_MUST_CHECK Status file_crc_on(const char *path, const OnProgress *on, uint32_t *crc,
                                 uint64_t *bytes, Err *err);
LT_C_END
