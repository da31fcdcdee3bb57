// byte_reader.c -- see byte_reader.h.
//
// SPDX-License-Identifier: MIT
#include "engine/data/byte_reader.h"
#include "engine/base/file.h"
#include "engine/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { IN_BLOCK = 1 << 18 };

struct ByteReader {
    int       fd;
    bool      owns_fd;
    bool      gzip;
    bool      in_member; // between a member's header and its checksum
    bool      inflating; // z was initialised
    bool      file_end;
    z_stream  z;
    size_t    at, fill; // unread part of block
    uint64_t  taken;    // bytes read from fd
    char      name[PATH_CAP];
    uint8_t   block[IN_BLOCK];
};

// More bytes behind the unread ones. file_end is set when there are none.
static Status refill(ByteReader *r, Err *err)
{
    memmove(r->block, r->block + r->at, r->fill - r->at);
    r->fill -= r->at;
    r->at = 0;
    if (r->file_end) return ERR_NONE;
    size_t n;
    TRY(file_read_part(r->fd, r->name, r->block + r->fill, IN_BLOCK - r->fill, &n, err));
    r->file_end = n == 0;
    r->fill += n;
    r->taken += n;
    return ERR_NONE;
}

static Status refill_to(ByteReader *r, size_t want, Err *err)
{
    while (r->fill - r->at < want && !r->file_end) TRY(refill(r, err));
    return ERR_NONE;
}

static bool at_gzip_magic(const ByteReader *r)
{
    return r->fill - r->at >= 2 && r->block[r->at] == 0x1f && r->block[r->at + 1] == 0x8b;
}

static Status start(ByteReader *r, const char *path, Err *err)
{
    TRY(refill_to(r, 2, err));
    r->gzip        = at_gzip_magic(r);
    const size_t n = strlen(path);
    if (!r->gzip && n > 3 && strcmp(path + n - 3, ".gz") == 0)
        return err_set(err, ERR_FORMAT, "%s: the name ends in .gz, but this is not gzip data",
                       path);
    if (!r->gzip) return ERR_NONE;
    if (inflateInit2(&r->z, 15 + 16) != Z_OK) return mem_err(err, sizeof r->z, "gzip state");
    r->inflating = true;
    r->in_member = true;
    return ERR_NONE;
}

Status byte_reader_open(ByteReader **out, const char *path, Err *err)
{
    *out          = NULL;
    ByteReader *r = mem_calloc(1, sizeof *r);
    if (!r) return mem_err(err, sizeof *r, "an input buffer");
    const bool standard = strcmp(path, "-") == 0;
    const char *name    = standard ? "standard input" : path;
    memcpy(r->name, name, LT_MIN(strlen(name), (size_t)PATH_CAP - 1));
    r->owns_fd = !standard;
    r->fd      = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    Status s   = ERR_NONE;
    struct stat st;
    if (r->fd < 0)
        s = err_errno(err, errno, "open %s", path);
    else if (fstat(r->fd, &st) == 0 && S_ISDIR(st.st_mode))
        s = err_errno(err, EISDIR, "read %s", r->name);
    if (s == ERR_NONE) s = start(r, path, err);
    if (s != ERR_NONE) {
        byte_reader_close(r);
        return s;
    }
    *out = r;
    return ERR_NONE;
}

static Status read_gzip(ByteReader *r, void *dst, size_t cap, size_t *got, Err *err)
{
    for (;;) {
        TRY(refill_to(r, 2, err));
        if (r->fill == r->at && !r->in_member) return ERR_NONE;
        if (r->fill == r->at)
            return err_set(err, ERR_FORMAT, "%s: gzip data ends in the middle", r->name);
        if (!r->in_member) {
            if (!at_gzip_magic(r))
                return err_set(err, ERR_FORMAT, "%s: bytes that are not gzip data follow at %llu",
                               r->name, (unsigned long long)(r->taken - (r->fill - r->at)));
            inflateReset(&r->z);
            r->in_member = true;
        }
        r->z.next_in   = r->block + r->at;
        r->z.avail_in  = (uInt)(r->fill - r->at);
        r->z.next_out  = dst;
        r->z.avail_out = (uInt)LT_MIN(cap, (size_t)1 << 30);
        const uInt room = r->z.avail_out;
        const int  z    = inflate(&r->z, Z_NO_FLUSH);
        r->at           = r->fill - r->z.avail_in;
        *got            = room - r->z.avail_out;
        if (z == Z_STREAM_END) r->in_member = false;
        if (z == Z_MEM_ERROR) return mem_err(err, 1 << 16, "gzip state");
        if (z != Z_OK && z != Z_STREAM_END && z != Z_BUF_ERROR)
            return err_set(err, ERR_FORMAT, "%s: damaged gzip data near byte %llu: %s", r->name,
                           (unsigned long long)(r->taken - (r->fill - r->at)),
                           r->z.msg ? r->z.msg : "unknown");
        if (*got) return ERR_NONE;
    }
}

Status byte_reader_read(ByteReader *r, void *dst, size_t cap, size_t *got, Err *err)
{
    *got = 0;
    if (cap == 0) return ERR_NONE;
    if (r->gzip) return read_gzip(r, dst, cap, got, err);
    TRY(refill_to(r, 1, err));
    *got = LT_MIN(cap, r->fill - r->at);
    memcpy(dst, r->block + r->at, *got);
    r->at += *got;
    return ERR_NONE;
}

uint64_t byte_reader_consumed(const ByteReader *r) { return r->taken - (r->fill - r->at); }

void byte_reader_close(ByteReader *r)
{
    if (!r) return;
    if (r->inflating) inflateEnd(&r->z);
    if (r->owns_fd && r->fd >= 0) close(r->fd);
    mem_free(r);
}
