// inject.c -- makes the n-th allocation, open, read, write ... of the program fail.
//
// Linked into `lathe` by a build with -DLATHE_FAULTS=ON, and nowhere else. Nothing in the program
// knows of it: the linker (--wrap, see CMakeLists.txt here) sends every call of malloc, open64,
// write ... that our objects make to the __wrap_ function below, which counts it and then either
// fails it or calls the real one. So a place that goes around engine/base/mem.c or file.c is
// counted, too. What a library does for us it cannot see: jansson takes its memory from mem.c, for
// zlib its two calls that take memory stand in, and stdout becomes a stream that writes here.
//
// What to fail is said by the environment variable LATHE_FAULT:
//
//     KIND:N[+][=ERRNO]   the N-th call of that kind fails; with + all after it as well
//     short               every read and write moves about half of what was asked (legal)
//     interrupted         every second read, write, pread, pwrite ends with EINTR (legal)
//     count               nothing fails; the end prints "fault: count KIND=N ..."
//     trace               nothing fails; every call prints a line as if it had
//
// Kinds and the errno each fails with stand in the table. The first fault prints one line on
// standard error, "fault: KIND N ERRNO frame frame ...", frames for addr2line. ERRNO is a number.
//
// SPDX-License-Identifier: MIT
#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

typedef enum Kind {
    ALLOC,  // malloc, calloc, realloc, pages without a file, jansson's, zlib's
    OPEN,   // open, opendir
    READ,   // read, pread, readdir
    WRITE,  // write, pwrite, ftruncate, what goes to stdout
    SYNC,   // fsync
    CLOSE,  // close
    RENAME, // rename
    MKDIR,  // mkdir
    REMOVE, // unlink, rmdir
    STAT,   // stat, lstat, fstat
    MAP,    // pages of a file
    LOCK,   // flock
    THREAD, // pthread_create
    KINDS
} Kind;

static const struct {
    const char *name;
    int error; // a reason this call may really have
} kinds[KINDS] = {
    [ALLOC] = {"alloc", ENOMEM},   [OPEN] = {"open", EMFILE},   [READ] = {"read", EIO},
    [WRITE] = {"write", ENOSPC},   [SYNC] = {"sync", EIO},      [CLOSE] = {"close", EIO},
    [RENAME] = {"rename", ENOSPC}, [MKDIR] = {"mkdir", ENOSPC}, [REMOVE] = {"remove", EIO},
    [STAT] = {"stat", EIO},        [MAP] = {"map", ENOMEM},     [LOCK] = {"lock", ENOLCK},
    [THREAD] = {"thread", EAGAIN},
};

// Written once before main, by `start`; the counters by any thread.
static struct {
    bool fails, on, halves, interrupts, counts, traces;
    Kind kind;
    long long n;
    int error;
} plan;
static atomic_llong calls[KINDS];
static atomic_int told;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
int __real_open64(const char *path, int flags, ...);
DIR *__real_opendir(const char *path);
ssize_t __real_read(int fd, void *p, size_t n);
ssize_t __real_pread64(int fd, void *p, size_t n, off_t at);
struct dirent *__real_readdir64(DIR *d);
ssize_t __real_write(int fd, const void *p, size_t n);
ssize_t __real_pwrite64(int fd, const void *p, size_t n, off_t at);
int __real_ftruncate64(int fd, off_t n);
int __real_close(int fd);
int __real_rename(const char *from, const char *to);
int __real_mkdir(const char *path, mode_t mode);
int __real_unlink(const char *path);
int __real_rmdir(const char *path);
int __real_stat64(const char *path, struct stat *st);
int __real_lstat64(const char *path, struct stat *st);
int __real_fstat64(int fd, struct stat *st);
void *__real_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t off);
int __real_flock(int fd, int how);
int __real_pthread_create(pthread_t *id, const pthread_attr_t *a, void *(*body)(void *), void *arg);
int __real_inflateInit2_(z_streamp z, int bits, const char *version, int size);
int __real_inflate(z_streamp z, int flush);

static void tell(Kind kind, long long n)
{
    char line[512];
    void *frame[16];
    const int frames = backtrace(frame, 16);
    extern const char __executable_start;
    int at = snprintf(line, sizeof line, "fault: %s %lld %d", kinds[kind].name, n, plan.error);
    for (int i = 2; i < frames; i++) { // without this function and its caller
        const ptrdiff_t offset = (const char *)frame[i] - &__executable_start;
        if (offset > 0 && offset < (1 << 28))
            at += snprintf(line + at, sizeof line - (size_t)at, " 0x%tx", offset - 1);
    }
    line[at++] = '\n';
    (void)!__real_write(STDERR_FILENO, line, (size_t)at);
}

// Counts a call. True: it is to fail, and errno is set.
static bool fault(Kind kind)
{
    const long long n = atomic_fetch_add(&calls[kind], 1) + 1;
    if (plan.traces) tell(kind, n);
    if (!plan.fails || plan.kind != kind || n < plan.n || (n > plan.n && !plan.on)) return false;
    if (atomic_exchange(&told, 1) == 0) tell(kind, n);
    errno = plan.error;
    return true;
}

// ---- memory

void *__wrap_malloc(size_t n)
{
    return fault(ALLOC) ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fault(ALLOC) ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fault(ALLOC) ? NULL : __real_realloc(p, n);
}

void *__wrap_mmap64(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
    return fault(fd < 0 ? ALLOC : MAP) ? MAP_FAILED : __real_mmap64(at, n, prot, flags, fd, off);
}

int __wrap_inflateInit2_(z_streamp z, int bits, const char *version, int size)
{
    return fault(ALLOC) ? Z_MEM_ERROR : __real_inflateInit2_(z, bits, version, size);
}

int __wrap_inflate(z_streamp z, int flush) // its first call takes the window
{
    return fault(ALLOC) ? Z_MEM_ERROR : __real_inflate(z, flush);
}

// ---- files

int __wrap_open64(const char *path, int flags, mode_t mode)
{
    return fault(OPEN) ? -1 : __real_open64(path, flags, mode);
}

DIR *__wrap_opendir(const char *path)
{
    return fault(OPEN) ? NULL : __real_opendir(path);
}

struct dirent *__wrap_readdir64(DIR *d)
{
    return fault(READ) ? NULL : __real_readdir64(d);
}

// The legal ways not to do all that was asked.
static bool interrupted(Kind kind)
{
    if (!plan.interrupts || atomic_load(&calls[kind]) % 2 == 0) return false;
    errno = EINTR;
    return true;
}

static size_t part_of(size_t n)
{
    return plan.halves ? n - n / 2 : n;
}

ssize_t __wrap_read(int fd, void *p, size_t n)
{
    return fault(READ) || interrupted(READ) ? -1 : __real_read(fd, p, part_of(n));
}

ssize_t __wrap_pread64(int fd, void *p, size_t n, off_t at)
{
    return fault(READ) || interrupted(READ) ? -1 : __real_pread64(fd, p, part_of(n), at);
}

ssize_t __wrap_write(int fd, const void *p, size_t n)
{
    return fault(WRITE) || interrupted(WRITE) ? -1 : __real_write(fd, p, part_of(n));
}

ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at)
{
    return fault(WRITE) || interrupted(WRITE) ? -1 : __real_pwrite64(fd, p, part_of(n), at);
}

int __wrap_ftruncate64(int fd, off_t n)
{
    return fault(WRITE) ? -1 : __real_ftruncate64(fd, n);
}

int __wrap_fsync(int fd) // nobody cuts the power here: waiting for the disk would show nothing
{
    (void)fd;
    return fault(SYNC) ? -1 : 0;
}

int __wrap_close(int fd) // on Linux the descriptor is gone, whatever close says
{
    const bool fails = fault(CLOSE);
    const int e = errno, done = __real_close(fd);
    if (fails) errno = e;
    return fails ? -1 : done;
}

int __wrap_rename(const char *from, const char *to)
{
    return fault(RENAME) ? -1 : __real_rename(from, to);
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    return fault(MKDIR) ? -1 : __real_mkdir(path, mode);
}

int __wrap_unlink(const char *path)
{
    return fault(REMOVE) ? -1 : __real_unlink(path);
}

int __wrap_rmdir(const char *path)
{
    return fault(REMOVE) ? -1 : __real_rmdir(path);
}

int __wrap_stat64(const char *path, struct stat *st)
{
    return fault(STAT) ? -1 : __real_stat64(path, st);
}

int __wrap_lstat64(const char *path, struct stat *st)
{
    return fault(STAT) ? -1 : __real_lstat64(path, st);
}

int __wrap_fstat64(int fd, struct stat *st)
{
    return fault(STAT) ? -1 : __real_fstat64(fd, st);
}

int __wrap_flock(int fd, int how)
{
    return fault(LOCK) ? -1 : __real_flock(fd, how);
}

// ---- threads

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *a, void *(*body)(void *), void *arg)
{
    return fault(THREAD) ? errno : __real_pthread_create(id, a, body, arg);
}

// ---- before and behind main

static ssize_t out_write(void *cookie, const char *p, size_t n)
{
    (void)cookie;
    size_t done = 0;
    while (done < n) { // what libc's own writer does
        const ssize_t k = __wrap_write(STDOUT_FILENO, p + done, n - done);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) break;
        done += (size_t)k;
    }
    return (ssize_t)done;
}

static void print_counts(void)
{
    if (!plan.counts) return;
    fprintf(stderr, "fault: count");
    for (int i = 0; i < KINDS; i++) fprintf(stderr, " %s=%lld", kinds[i].name, (long long)calls[i]);
    fprintf(stderr, "\n");
}

static void read_plan(const char *said)
{
    plan.counts = strcmp(said, "count") == 0;
    plan.traces = strcmp(said, "trace") == 0;
    plan.halves = strcmp(said, "short") == 0;
    plan.interrupts = strcmp(said, "interrupted") == 0;
    if (plan.counts || plan.traces || plan.halves || plan.interrupts) return;
    const size_t name = strcspn(said, ":");
    for (int i = 0; i < KINDS && said[name] == ':'; i++) {
        if (strlen(kinds[i].name) != name || strncmp(said, kinds[i].name, name) != 0) continue;
        char *end;
        plan.kind = (Kind)i;
        plan.n = strtoll(said + name + 1, &end, 10);
        plan.on = *end == '+';
        end += plan.on;
        plan.error = *end == '=' ? (int)strtol(end + 1, &end, 10) : kinds[i].error;
        plan.fails = plan.n > 0 && *end == 0;
    }
    if (plan.fails) return;
    fprintf(stderr, "fault: LATHE_FAULT=%s is no fault\n", said);
    _exit(99);
}

__attribute__((constructor)) static void start(void)
{
    const char *said = getenv("LATHE_FAULT");
    void *frame[1];
    if (!said) return;
    (void)backtrace(frame, 1); // its first call takes memory and opens a library
    FILE *out = fopencookie(NULL, "w", (cookie_io_functions_t){.write = out_write});
    if (out) stdout = out;
    read_plan(said);
    atexit(print_counts);
}
