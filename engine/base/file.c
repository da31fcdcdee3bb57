// file.c -- see file.h.
//
// SPDX-License-Identifier: MIT
#include "engine/base/file.h"
#include "engine/base/assert.h"
#include "engine/base/mem.h"
#include "engine/base/stop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { BLOCK = 1 << 20 };

Status path_join(char out[PATH_CAP], const char *dir, const char *name, Err *err)
{
    const size_t nd = strlen(dir), nn = strlen(name);
    const bool slash = nd && dir[nd - 1] != '/';
    if (nd + nn + 2 > PATH_CAP)
        return err_set(err, ERR_USAGE, "path of %zu bytes is too long: %.60s...", nd + nn + 1, dir);
    memmove(out, dir, nd);
    if (slash) out[nd] = '/';
    memcpy(out + nd + slash, name, nn + 1);
    return ERR_NONE;
}

const char *path_base(const char *path)
{
    const char *s = strrchr(path, '/');
    return s ? s + 1 : path;
}

Status path_dir(char out[PATH_CAP], const char *path, Err *err)
{
    const size_t n = (size_t)(path_base(path) - path);
    if (n >= PATH_CAP)
        return err_set(err, ERR_USAGE, "path of %zu bytes is too long: %.60s...", strlen(path),
                       path);
    const size_t keep = n > 1 ? n - 1 : 1; // of "/a" the slash
    memcpy(out, n ? path : ".", keep);
    out[keep] = 0;
    return ERR_NONE;
}

// Did stat say that nothing of that name is there? Any other failure (a bad disk, no permission)
// says nothing of the kind.
static bool is_absence(int errno_value)
{
    return errno_value == ENOENT || errno_value == ENOTDIR || errno_value == ENAMETOOLONG;
}

bool file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 || !is_absence(errno);
}

bool file_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? S_ISDIR(st.st_mode) : !is_absence(errno);
}

bool file_same(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

Status file_size(const char *path, uint64_t *bytes, Err *err)
{
    struct stat st;
    if (stat(path, &st) != 0) return err_errno(err, errno, "%s", path);
    *bytes = (uint64_t)st.st_size;
    return ERR_NONE;
}

Status file_read_part(int fd, const char *name, void *to, size_t cap, size_t *got, Err *err)
{
    enum { LOOK_MS = 200 };
    *got = 0;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        const int ready = poll(&p, 1, LOOK_MS); // files are always ready
        if (ready == 0 || (ready < 0 && errno == EINTR)) {
            if (!stop_requested()) continue;
            return err_set(err, ERR_STOPPED, "stopped by %s, waiting for %s",
                           stop_name(stop_requested()), name);
        }
        const ssize_t n = read(fd, to, cap);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return err_errno(err, errno, "read %s", name);
        *got = (size_t)n;
        return ERR_NONE;
    }
}

Status file_read_fd(int fd, const char *name, Buf *out, Err *err)
{
    for (;;) {
        if (out->cap < out->len + 2) // no room for a byte and the 0 behind it
            TRY_CTX(buf_reserve(out, BLOCK, err), err, "reading %s", name);
        const ssize_t n = read(fd, out->data + out->len, out->cap - out->len - 1);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return err_errno(err, errno, "read %s", name);
        out->len += (size_t)n;
        out->data[out->len] = 0;
        if (n == 0) return ERR_NONE;
    }
}

Status file_read(const char *path, Buf *out, Err *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return err_errno(err, errno, "open %s", path);
    struct stat st;
    Status s = ERR_NONE;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) // the whole file, and a byte to see its end
        s = buf_reserve(out, (size_t)st.st_size + 1, err);
    if (s != ERR_NONE) s = err_add(err, s, "reading %s", path);
    if (s == ERR_NONE) s = file_read_fd(fd, path, out, err);
    close(fd);
    return s;
}

Status file_map(const char *path, FileMap *out, Err *err)
{
    *out = (FileMap){0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return err_errno(err, errno, "open %s", path);
    struct stat st;
    if (fstat(fd, &st) != 0 || S_ISDIR(st.st_mode)) {
        const int e = S_ISDIR(st.st_mode) ? EISDIR : errno;
        close(fd);
        return err_errno(err, e, "read %s", path);
    }
    if (st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            const int e = errno;
            close(fd);
            return err_errno(err, e, "map %s", path);
        }
        out->data = p;
        out->size = (size_t)st.st_size;
    }
    close(fd);
    return ERR_NONE;
}

void file_unmap(FileMap *m)
{
    if (m->data) munmap((void *)(uintptr_t)m->data, m->size);
    *m = (FileMap){0};
}

Status file_create(FileWriter *w, const char *path, Err *err)
{
    w->fd = -1;
    w->block = NULL;
    w->written = 0;
    w->fill = 0;
    w->crc = 0;
    if (strlen(path) + 5 > PATH_CAP)
        return err_set(err, ERR_USAGE, "path too long: %.60s...", path);
    memcpy(w->path, path, strlen(path) + 1);
    snprintf(w->tmp, PATH_CAP, "%.*s.tmp", PATH_CAP - 5, path);
    w->block = mem_alloc(BLOCK);
    if (!w->block) return mem_err(err, BLOCK, "a file buffer");
    w->fd = open(w->tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (w->fd < 0) {
        const int e = errno;
        mem_free(w->block);
        w->block = NULL;
        return err_errno(err, e, "create %s", w->tmp);
    }
    return ERR_NONE;
}

static Status write_all(int fd, const char *name, const char *p, size_t n, Err *err)
{
    while (n) {
        const ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return err_errno(err, errno, "write %s", name);
        p += k;
        n -= (size_t)k;
    }
    return ERR_NONE;
}

static Status flush_block(FileWriter *w, Err *err)
{
    TRY(write_all(w->fd, w->tmp, w->block, w->fill, err));
    w->fill = 0;
    return ERR_NONE;
}

Status file_write(FileWriter *w, const void *bytes, size_t n, Err *err)
{
    ASSERT(w->fd >= 0, "%s is not open", w->path);
    w->crc = (uint32_t)crc32_z(w->crc, bytes, n);
    w->written += n;
    if (w->fill + n > BLOCK) TRY(flush_block(w, err));
    if (n >= BLOCK) return write_all(w->fd, w->tmp, bytes, n, err);
    if (n) memcpy(w->block + w->fill, bytes, n);
    w->fill += n;
    return ERR_NONE;
}

Status file_commit(FileWriter *w, Err *err)
{
    ASSERT(w->fd >= 0, "%s is not open", w->path);
    Status s = flush_block(w, err);
    if (s == ERR_NONE && fsync(w->fd) != 0) s = err_errno(err, errno, "fsync %s", w->tmp);
    if (close(w->fd) != 0 && s == ERR_NONE) s = err_errno(err, errno, "close %s", w->tmp);
    w->fd = -1;
    mem_free(w->block);
    w->block = NULL;
    if (s == ERR_NONE) s = file_rename(w->tmp, w->path, err);
    if (s != ERR_NONE) unlink(w->tmp);
    return s;
}

void file_abandon(FileWriter *w)
{
    if (w->fd < 0) return;
    close(w->fd);
    w->fd = -1;
    mem_free(w->block);
    w->block = NULL;
    unlink(w->tmp);
}

Status file_replace(const char *path, const void *bytes, size_t n, Err *err)
{
    FileWriter w;
    TRY(file_create(&w, path, err));
    const Status s = file_write(&w, bytes, n, err);
    if (s != ERR_NONE) {
        file_abandon(&w);
        return s;
    }
    return file_commit(&w, err);
}

Status file_mkdirs(const char *path, Err *err)
{
    char part[PATH_CAP];
    if (strlen(path) + 1 > PATH_CAP)
        return err_set(err, ERR_USAGE, "path too long: %.60s...", path);
    if (!*path) return err_errno(err, ENOENT, "create folder \"\"");
    snprintf(part, sizeof part, "%s", path);
    for (char *s = part + 1;; s++) {
        if (*s && *s != '/') continue;
        const char c = *s;
        *s = 0;
        if (mkdir(part, 0777) == 0) {
            // Or a power cut could take the new folder and with it files that are synced in it.
            char parent[PATH_CAP];
            Status synced = path_dir(parent, part, err);
            if (synced == ERR_NONE) synced = file_sync_dir(parent, err);
            if (synced != ERR_NONE) {
                rmdir(part); // as if it had not been called
                return synced;
            }
        } else if (errno != EEXIST) {
            return err_errno(err, errno, "create folder %s", part);
        }
        *s = c;
        if (!c) break;
    }
    if (!file_is_dir(path)) return err_errno(err, ENOTDIR, "create folder %s", path);
    return ERR_NONE;
}

Status file_rename(const char *from, const char *to, Err *err)
{
    if (rename(from, to) != 0) return err_errno(err, errno, "rename %s to %s", from, to);
    char dir[PATH_CAP];
    TRY(path_dir(dir, to, err));
    return file_sync_dir(dir, err);
}

Status file_remove(const char *path, Err *err)
{
    if (unlink(path) != 0 && errno != ENOENT) return err_errno(err, errno, "remove %s", path);
    return ERR_NONE;
}

Status file_remove_tree(const char *path, Err *err)
{
    struct stat st;
    if (lstat(path, &st) != 0) {
        if (errno == ENOENT) return ERR_NONE;
        return err_errno(err, errno, "remove %s", path);
    }
    if (!S_ISDIR(st.st_mode)) return file_remove(path, err);
    FileList l;
    TRY(file_list(path, &l, err));
    Status s = ERR_NONE;
    for (int i = 0; i < l.n && s == ERR_NONE; i++) {
        char child[PATH_CAP];
        s = path_join(child, path, l.name[i], err);
        if (s == ERR_NONE) s = file_remove_tree(child, err);
    }
    file_list_free(&l);
    if (s == ERR_NONE && rmdir(path) != 0 && errno != ENOENT)
        s = err_errno(err, errno, "remove folder %s", path);
    return s;
}

Status file_remove_empty(const char *path, Err *err)
{
    if (rmdir(path) != 0) return err_errno(err, errno, "remove folder %s", path);
    return ERR_NONE;
}

Status file_sync_dir(const char *path, Err *err)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return err_errno(err, errno, "open folder %s", path);
    Status s = ERR_NONE;
    if (fsync(fd) != 0 && errno != EINVAL && errno != EROFS)
        s = err_errno(err, errno, "fsync folder %s", path);
    close(fd);
    return s;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

Status file_list(const char *dir, FileList *out, Err *err)
{
    *out = (FileList){0};
    DIR *d = opendir(dir);
    if (!d) return err_errno(err, errno, "open folder %s", dir);
    int cap = 0;
    Status s = ERR_NONE;
    for (;;) {
        errno = 0;
        const struct dirent *e = readdir(d);
        if (!e) {
            if (errno) s = err_errno(err, errno, "read folder %s", dir);
            break;
        }
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if (out->n == cap) {
            const int n = cap ? cap * 2 : 16;
            char **p = mem_realloc(out->name, (size_t)n * sizeof *p);
            if (!p) {
                s = mem_err(err, (size_t)n * sizeof *p, "a folder listing");
                break;
            }
            out->name = p;
            cap = n;
        }
        char *name = mem_strdup(e->d_name);
        if (!name) {
            s = mem_err(err, strlen(e->d_name) + 1, "a folder listing");
            break;
        }
        out->name[out->n++] = name;
    }
    closedir(d);
    if (s != ERR_NONE)
        file_list_free(out);
    else if (out->n)
        qsort(out->name, (size_t)out->n, sizeof *out->name, by_bytes);
    return s;
}

void file_list_free(FileList *l)
{
    for (int i = 0; i < l->n; i++) mem_free(l->name[i]);
    mem_free(l->name);
    *l = (FileList){0};
}

static Status held_by_another(int fd, const char *path, Err *err)
{
    char pid[32] = "unknown";
    const ssize_t n = pread(fd, pid, sizeof pid - 1, 0);
    if (n > 0) pid[strspn(pid, "0123456789")] = 0;
    return err_set(err, ERR_USAGE, "%s is held by process %s", path, pid[0] ? pid : "unknown");
}

Status file_lock(FileLock *l, const char *path, Err *err)
{
    enum { TRIES = 100 };
    l->fd = -1;
    for (int i = 0; i < TRIES; i++) {
        const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0) return err_errno(err, errno, "open %s", path);
        if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            const Status s = errno == EWOULDBLOCK ? held_by_another(fd, path, err)
                                                  : err_errno(err, errno, "lock %s", path);
            close(fd);
            return s;
        }
        l->fd = fd;
        if (file_lock_stands(l, path)) break;
        file_unlock(l); // between open and flock its holder removed it: the name is another file
    }
    if (l->fd < 0) return err_set(err, ERR_IO, "%s is removed again and again", path);
    char pid[32];
    const int n = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    // The id is only for the message above; the lock itself is already ours.
    if (ftruncate(l->fd, 0) != 0 || pwrite(l->fd, pid, (size_t)n, 0) != n) errno = 0;
    return ERR_NONE;
}

bool file_lock_stands(const FileLock *l, const char *path)
{
    struct stat ours, named;
    return fstat(l->fd, &ours) == 0 && stat(path, &named) == 0 && ours.st_dev == named.st_dev &&
           ours.st_ino == named.st_ino;
}

void file_unlock(FileLock *l)
{
    if (l->fd >= 0) close(l->fd);
    l->fd = -1;
}

Status file_crc(const char *path, uint32_t *crc, uint64_t *bytes, Err *err)
{
    return file_crc_on(path, NULL, crc, bytes, err);
}

Status file_crc_on(const char *path, const OnProgress *on, uint32_t *crc, uint64_t *bytes, Err *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return err_errno(err, errno, "open %s", path);
    unsigned char *block = mem_alloc(BLOCK);
    if (!block) {
        close(fd);
        return mem_err(err, BLOCK, "a file buffer");
    }
    *crc = 0;
    *bytes = 0;
    Status s = ERR_NONE;
    for (;;) {
        const ssize_t n = read(fd, block, BLOCK);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) s = err_errno(err, errno, "read %s", path);
        if (n <= 0) break;
        *crc = (uint32_t)crc32_z(*crc, block, (size_t)n);
        *bytes += (uint64_t)n;
        on_progress(on, (double)*bytes, 0);
    }
    mem_free(block);
    close(fd);
    return s;
}
