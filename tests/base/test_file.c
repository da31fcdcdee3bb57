// test_file.c -- engine/base/file.h, in a folder of its own under TMPDIR.
//
// SPDX-License-Identifier: MIT
#include "engine/base/file.h"
#include "engine/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define OK(call) assert_int_equal((call), ERR_NONE)

static char *at(const char *dir, const char *name) // the test's memory; freed by the caller
{
    char *p = mem_alloc(PATH_CAP);
    assert_non_null(p);
    OK(path_join(p, dir, name, NULL));
    return p;
}

static int enter(void **state)
{
    const char *root = getenv("TMPDIR");
    char        path[512];
    snprintf(path, sizeof path, "%s/lathe-file-XXXXXX", root && *root ? root : "/tmp");
    if (!mkdtemp(path)) return -1;
    *state = mem_strdup(path);
    return *state ? 0 : -1;
}

static int leave(void **state)
{
    const Status s = file_remove_tree(*state, NULL);
    const bool   gone = !file_exists(*state);
    mem_free(*state);
    return s == ERR_NONE && gone ? 0 : -1;
}

static void expect_content(const char *path, const char *want)
{
    Buf b = {0};
    OK(file_read(path, &b, NULL));
    assert_int_equal(b.len, strlen(want));
    assert_memory_equal(b.data, want, b.len);
    buf_free(&b);
}

static void paths_join_with_one_slash(void **state)
{
    (void)state;
    static const struct {
        const char *dir, *name, *want;
    } cases[] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"/", "b", "/b"}, {"a", "", "a/"}};
    char out[PATH_CAP];
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        OK(path_join(out, cases[i].dir, cases[i].name, NULL));
        assert_string_equal(out, cases[i].want);
    }
    strcpy(out, "a");
    OK(path_join(out, out, "b", NULL)); // in place
    assert_string_equal(out, "a/b");
    assert_string_equal(path_base("a/b"), "b");
    assert_string_equal(path_base("b"), "b");
    assert_string_equal(path_base("a/"), "");
}

static void a_path_has_a_folder(void **state)
{
    (void)state;
    static const struct {
        const char *path, *want;
    } cases[] = {{"a/b/c", "a/b"}, {"a/", "a"}, {"/a", "/"}, {"/", "/"}, {"a", "."}, {"", "."}};
    char out[PATH_CAP];
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        OK(path_dir(out, cases[i].path, NULL));
        assert_string_equal(out, cases[i].want);
    }
}

static void path_too_long_is_an_error_not_a_cut(void **state)
{
    (void)state;
    static char long_name[2 * PATH_CAP];
    char        out[PATH_CAP];
    FileWriter  w;
    Err         err;
    memset(long_name, 'x', sizeof long_name - 1);
    assert_int_equal(path_join(out, "a", long_name, &err), ERR_USAGE);
    assert_int_equal(file_create(&w, long_name, &err), ERR_USAGE);
    assert_int_equal(w.fd, -1);
    file_abandon(&w);
    assert_int_equal(file_mkdirs(long_name, &err), ERR_USAGE);
    long_name[PATH_CAP] = '/';
    assert_int_equal(path_dir(out, long_name, &err), ERR_USAGE);
    long_name[PATH_CAP] = 'x';
    // The longest one that fits, with room for the separator and the NUL: joined whole.
    long_name[PATH_CAP - 3] = 0;
    OK(path_join(out, "a", long_name, NULL));
    assert_int_equal(strlen(out), PATH_CAP - 1);
    long_name[PATH_CAP - 3] = 'x';
    long_name[PATH_CAP - 2] = 0;
    assert_int_equal(path_join(out, "a", long_name, &err), ERR_USAGE);
}

static void replace_is_all_or_nothing(void **state)
{
    char *path = at(*state, "f"), *tmp = at(*state, "f.tmp");
    OK(file_replace(path, "old", 3, NULL));
    expect_content(path, "old");

    FileWriter w;
    OK(file_create(&w, path, NULL));
    OK(file_write(&w, "new content", 11, NULL));
    expect_content(path, "old"); // until the commit
    assert_true(file_exists(tmp));
    file_abandon(&w);
    file_abandon(&w);
    expect_content(path, "old");
    assert_false(file_exists(tmp));

    OK(file_create(&w, path, NULL));
    OK(file_write(&w, "new", 3, NULL));
    OK(file_commit(&w, NULL));
    expect_content(path, "new");
    assert_false(file_exists(tmp));
    mem_free(path);
    mem_free(tmp);
}

static void writer_counts_and_checksums_any_split(void **state)
{
    enum { SIZE = 3 << 20 };
    char          *path  = at(*state, "big");
    unsigned char *bytes = mem_alloc(SIZE);
    assert_non_null(bytes);
    for (int i = 0; i < SIZE; i++) bytes[i] = (unsigned char)(i * 2654435761u >> 13);
    static const size_t pieces[] = {1, 1000, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, SIZE};
    for (size_t k = 0; k < LT_COUNT(pieces); k++) {
        FileWriter w;
        OK(file_create(&w, path, NULL));
        const size_t n = k == 0 ? 5000 : SIZE; // byte by byte only for a while
        for (size_t i = 0; i < n; i += pieces[k])
            OK(file_write(&w, bytes + i, LT_MIN(pieces[k], n - i), NULL));
        const uint64_t written = w.written;
        const uint32_t crc     = w.crc;
        OK(file_commit(&w, NULL));
        uint32_t again;
        uint64_t size, stat_size;
        OK(file_crc(path, &again, &size, NULL));
        OK(file_size(path, &stat_size, NULL));
        assert_int_equal(written, n);
        assert_int_equal(size, n);
        assert_int_equal(stat_size, n);
        assert_int_equal(crc, again);
        FileMap m;
        OK(file_map(path, &m, NULL));
        assert_int_equal(m.size, n);
        assert_memory_equal(m.data, bytes, n);
        file_unmap(&m);
    }
    mem_free(bytes);
    mem_free(path);
}

static void crc_is_zlibs(void **state)
{
    char    *path = at(*state, "crc");
    uint32_t crc;
    uint64_t n;
    OK(file_replace(path, "123456789", 9, NULL));
    OK(file_crc(path, &crc, &n, NULL));
    assert_int_equal(crc, 0xcbf43926u); // the check value of CRC-32
    OK(file_replace(path, "", 0, NULL));
    OK(file_crc(path, &crc, &n, NULL));
    assert_int_equal(crc, 0);
    assert_int_equal(n, 0);
    FileMap m;
    OK(file_map(path, &m, NULL));
    assert_true(m.data == NULL && m.size == 0);
    file_unmap(&m);
    mem_free(path);
}

static void failures_name_the_path_and_the_reason(void **state)
{
    char      *path = at(*state, "no/such"), *dir = at(*state, "");
    Err        err;
    Buf        b = {0};
    FileMap    m;
    FileList   l;
    FileWriter w;
    uint64_t   n;
    uint32_t   crc;
    const Status got[] = {
        file_read(path, &b, &err),       file_map(path, &m, &err),
        file_size(path, &n, &err),       file_crc(path, &crc, &n, &err),
        file_list(path, &l, &err),       file_create(&w, path, &err),
        file_replace(path, "", 0, &err), file_rename(path, dir, &err),
        file_sync_dir(path, &err),
    };
    for (size_t i = 0; i < LT_COUNT(got); i++) assert_int_equal(got[i], ERR_IO);
    assert_int_equal(file_read(path, &b, &err), ERR_IO);
    assert_non_null(strstr(err.text, "no/such: No such file or directory"));
    assert_int_equal(file_read(dir, &b, &err), ERR_IO);
    assert_non_null(strstr(err.text, "directory"));
    assert_int_equal(file_map(dir, &m, &err), ERR_IO);
    assert_null(m.data);
    assert_false(file_exists(path));
    assert_true(file_is_dir(dir));
    buf_free(&b);
    mem_free(path);
    mem_free(dir);
}

static void full_disk_leaves_the_old_file(void **state)
{
    char       *path = at(*state, "limited");
    OK(file_replace(path, "old", 3, NULL));
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) { // no file may grow past 1 MB: write fails as on a full disk
        static char         block[1 << 20];
        const struct rlimit r = {1 << 20, 1 << 20};
        FileWriter          w;
        Err                 err;
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &r) != 0 || file_create(&w, path, &err) != ERR_NONE) _exit(1);
        Status s = ERR_NONE;
        for (int i = 0; i < 4 && s == ERR_NONE; i++) s = file_write(&w, block, sizeof block, &err);
        if (s != ERR_IO || !strstr(err.text, "write")) _exit(2);
        file_abandon(&w);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    expect_content(path, "old");
    mem_free(path);
}

static void mkdirs_makes_parents_and_accepts_what_exists(void **state)
{
    char *deep = at(*state, "a/b/c"), *slash = at(*state, "d/e/"), *file = at(*state, "plain"),
         *under = at(*state, "plain/x");
    Err   err;
    OK(file_mkdirs(deep, NULL));
    OK(file_mkdirs(deep, NULL));
    OK(file_mkdirs(slash, NULL));
    OK(file_mkdirs(".", NULL));
    OK(file_mkdirs("/", NULL));
    assert_true(file_is_dir(deep) && file_is_dir(slash));
    OK(file_replace(file, "", 0, NULL));
    assert_int_equal(file_mkdirs(file, &err), ERR_IO);
    assert_int_equal(file_mkdirs(under, &err), ERR_IO);
    assert_int_equal(file_mkdirs("", &err), ERR_IO);
    mem_free(deep);
    mem_free(slash);
    mem_free(file);
    mem_free(under);
}

static void list_is_sorted_by_bytes(void **state)
{
    static const char *const names[] = {"b", "a", "B", "\xc3\xa4", "a.tmp", "10", "9"};
    static const char *const want[]  = {"10", "9", "B", "a", "a.tmp", "b", "\xc3\xa4"};
    FileList                 l;
    char                    *dir = at(*state, "listed");
    OK(file_mkdirs(dir, NULL));
    OK(file_list(dir, &l, NULL));
    assert_int_equal(l.n, 0);
    file_list_free(&l);
    for (size_t i = 0; i < LT_COUNT(names); i++) {
        char *p = at(dir, names[i]);
        OK(file_replace(p, "", 0, NULL));
        mem_free(p);
    }
    OK(file_list(dir, &l, NULL));
    assert_int_equal(l.n, LT_COUNT(want));
    for (size_t i = 0; i < LT_COUNT(want); i++) assert_string_equal(l.name[i], want[i]);
    file_list_free(&l);
    file_list_free(&l);
    mem_free(dir);
}

static void remove_tree_takes_all_of_it_and_no_more(void **state)
{
    char *tree = at(*state, "tree"), *deep = at(*state, "tree/x/y"), *f = at(*state, "tree/x/f"),
         *link = at(*state, "tree/x/link"), *outside = at(*state, "outside"),
         *kept = at(*state, "outside/kept");
    OK(file_mkdirs(deep, NULL));
    OK(file_mkdirs(outside, NULL));
    OK(file_replace(f, "f", 1, NULL));
    OK(file_replace(kept, "k", 1, NULL));
    assert_int_equal(symlink(outside, link), 0);
    OK(file_remove_tree(tree, NULL));
    assert_false(file_exists(tree));
    assert_true(file_exists(kept)); // a link is removed, not followed
    OK(file_remove_tree(tree, NULL));
    OK(file_remove(f, NULL));
    OK(file_remove(kept, NULL));
    assert_int_equal(file_remove(outside, NULL), ERR_IO); // a folder is no file
    OK(file_remove_tree(outside, NULL));
    mem_free(tree);
    mem_free(deep);
    mem_free(f);
    mem_free(link);
    mem_free(outside);
    mem_free(kept);
}

static void a_file_is_renamed(void **state)
{
    char *path = at(*state, "log");
    OK(file_replace(path, "one\n", 4, NULL));
    char *moved = at(*state, "log2");
    OK(file_rename(path, moved, NULL));
    assert_false(file_exists(path));
    expect_content(moved, "one\n");
    mem_free(path);
    mem_free(moved);
}

static void pipe_is_read_to_its_end(void **state)
{
    (void)state;
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(write(fd[1], "abc", 3), 3);
    close(fd[1]);
    Buf b = {0};
    OK(file_read_fd(fd[0], "standard input", &b, NULL));
    assert_string_equal(b.data, "abc");
    close(fd[0]);
    buf_free(&b);
}

static void lock_is_held_by_one_process_and_dies_with_it(void **state)
{
    char *path = at(*state, "lock");
    int   ready[2], go[2];
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        FileLock mine;
        char     byte = file_lock(&mine, path, NULL) == ERR_NONE ? 'y' : 'n';
        close(go[1]);
        if (write(ready[1], &byte, 1) != 1) _exit(1);
        (void)!read(go[0], &byte, 1);
        _exit(0); // without file_unlock
    }
    char byte = 0;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    FileLock l;
    Err      err;
    char     number[32];
    assert_int_equal(file_lock(&l, path, &err), ERR_USAGE);
    assert_int_equal(l.fd, -1);
    snprintf(number, sizeof number, "process %ld", (long)pid);
    assert_non_null(strstr(err.text, number));
    assert_non_null(strstr(err.text, "lock"));
    close(go[1]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    OK(file_lock(&l, path, &err));
    FileLock second;
    assert_int_equal(file_lock(&second, path, &err), ERR_USAGE); // also within one process
    file_unlock(&l);
    file_unlock(&l);
    OK(file_lock(&l, path, &err));
    file_unlock(&l);
    close(ready[0]);
    close(ready[1]);
    close(go[0]);
    mem_free(path);
}

static void a_lock_stands_while_its_name_leads_to_it(void **state)
{
    char *path = at(*state, "lock");
    FileLock l, other;
    OK(file_lock(&l, path, NULL));
    assert_true(file_lock_stands(&l, path));
    OK(file_remove(path, NULL));
    assert_false(file_lock_stands(&l, path));
    OK(file_lock(&other, path, NULL)); // the name is free again
    assert_true(file_lock_stands(&other, path) && !file_lock_stands(&l, path));
    file_unlock(&other);
    file_unlock(&l);
    mem_free(path);
}

static void only_an_empty_folder_is_removed_as_one(void **state)
{
    char *folder = at(*state, "folder"), *inside = at(*state, "folder/file");
    OK(file_mkdirs(folder, NULL));
    OK(file_replace(inside, "x", 1, NULL));
    assert_int_equal(file_remove_empty(folder, NULL), ERR_IO);
    assert_true(file_exists(inside));
    OK(file_remove(inside, NULL));
    OK(file_remove_empty(folder, NULL));
    assert_false(file_exists(folder));
    mem_free(folder);
    mem_free(inside);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_join_with_one_slash),
        cmocka_unit_test(a_path_has_a_folder),
        cmocka_unit_test(path_too_long_is_an_error_not_a_cut),
        cmocka_unit_test(replace_is_all_or_nothing),
        cmocka_unit_test(writer_counts_and_checksums_any_split),
        cmocka_unit_test(crc_is_zlibs),
        cmocka_unit_test(failures_name_the_path_and_the_reason),
        cmocka_unit_test(full_disk_leaves_the_old_file),
        cmocka_unit_test(mkdirs_makes_parents_and_accepts_what_exists),
        cmocka_unit_test(list_is_sorted_by_bytes),
        cmocka_unit_test(remove_tree_takes_all_of_it_and_no_more),
        cmocka_unit_test(a_file_is_renamed),
        cmocka_unit_test(pipe_is_read_to_its_end),
        cmocka_unit_test(lock_is_held_by_one_process_and_dies_with_it),
        cmocka_unit_test(a_lock_stands_while_its_name_leads_to_it),
        cmocka_unit_test(only_an_empty_folder_is_removed_as_one),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
