// fuzz_driver.c -- see fuzz.h. The entry points are libFuzzer's; fuzz_replay.c calls them, too.
//
// SPDX-License-Identifier: MIT
#include "tests/fuzz/fuzz.h"

#include "engine/base/mem.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64]; // of this process, removed at its end

void fuzz_must(bool holds, const char *fmt, ...)
{
    if (holds) return;
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "fuzz: ");
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    abort();
}

bool fuzz_good(Status s, const Err *err)
{
    if (s == ERR_NONE) return true;
    fuzz_must(err->code == s, "returned %s, the record says %s", err_name(s), err_name(err->code));
    fuzz_must(err->text[0] != 0, "refused (%s) without a text", err_name(s));
    fuzz_must(s != ERR_NOMEM, "out of memory: %s", err->text);
    for (const char *c = err->text; *c; c++)
        fuzz_must((unsigned char)*c >= 32 ? *c != 127 : *c == '\n',
                  "a message holds the control character 0x%02x: %s", (unsigned char)*c, err->text);
    return false;
}

const char *fuzz_path(char out[PATH_CAP], const char *name)
{
    snprintf(out, PATH_CAP, "%s/%s", folder, name);
    return out;
}

const char *fuzz_put(char out[PATH_CAP], const char *name, const void *bytes, size_t n)
{
    const int fd = open(fuzz_path(out, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    fuzz_must(fd >= 0 && write(fd, bytes, n) == (ssize_t)n && close(fd) == 0, "cannot write %s",
              out);
    return out;
}

void fuzz_split(const uint8_t *data, size_t size, FuzzPart *part, int n)
{
    const size_t mark = sizeof FUZZ_SEPARATOR - 1;
    const uint8_t *const end = data + size;
    for (int i = 0; i < n; i++) {
        const uint8_t *cut = i + 1 < n && data < end
                                 ? memmem(data, (size_t)(end - data), FUZZ_SEPARATOR, mark)
                                 : NULL;
        part[i] = (FuzzPart){data, (size_t)((cut ? cut : end) - data)};
        data = cut ? cut + mark : end;
    }
}

void fuzz_run(const uint8_t *data, size_t size)
{
    const int64_t before = fuzz_memory_begin();
    fuzz_target.feed(data, size);
    const int64_t peak = fuzz_memory_peak() - before;
    const int64_t most = (int64_t)(fuzz_target.memory_factor * size + fuzz_target.memory_base);
    fuzz_must(peak <= most, "%lld bytes of heap for an input of %zu bytes; at most %lld are right",
              (long long)peak, size, (long long)most);
}

static void remove_folder(void)
{
    if (folder[0] && file_remove_tree(folder, NULL) != ERR_NONE) folder[0] = 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    struct stat st;
    const bool memory = stat("/dev/shm", &st) == 0 && access("/dev/shm", W_OK) == 0;
    snprintf(folder, sizeof folder, "%s/lathe-fuzz-XXXXXX", memory ? "/dev/shm" : "/tmp");
    fuzz_must(mkdtemp(folder) != NULL, "cannot make a folder like %s", folder);
    atexit(remove_folder);
    json_set_alloc_funcs(mem_alloc, mem_free);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_run(data, size);
    return 0;
}
