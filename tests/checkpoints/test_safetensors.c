// test_safetensors.c -- the tensor file: what is written comes back, and no crafted file gets
// through.
//
// SPDX-License-Identifier: MIT
#include "tests/checkpoints/ckpt_fixture.h"

#include "checkpoints/safetensors.h"
#include "checkpoints/strip.h"
#include "engine/base/mem.h"
#include "engine/base/rng.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static void every_dtype_comes_back_as_written(void **state)
{
    (void)state;
    char dir[PATH_CAP], path[PATH_CAP];
    fixture_mkdir(dir);
    fixture_path(path, dir, "all.safetensors");
    uint8_t data[DTYPE_COUNT][8 * 6];
    Tensor  t[DTYPE_COUNT] = {0};
    for (int i = 0; i < DTYPE_COUNT; i++) {
        for (size_t b = 0; b < sizeof data[i]; b++) data[i][b] = (uint8_t)(i * 37 + (int)b * 11);
        snprintf(t[i].name, sizeof t[i].name, "odd \"name\" \\ %s", dtype_name((DType)i));
        t[i].dtype    = (DType)i;
        t[i].rank     = 2;
        t[i].shape[0] = 2;
        t[i].shape[1] = 3;
        t[i].data     = data[i];
    }
    Err               err;
    uint32_t          crc = 0, crc2 = 0;
    uint64_t          bytes = 0, bytes2 = 0;
    const char *const meta[] = {"format", "pt", "note", "a \"b\"\n", NULL};
    fixture_must(safe_write(path, t, DTYPE_COUNT, -1, meta, &crc, &bytes, &err), &err);
    fixture_must(file_crc(path, &crc2, &bytes2, &err), &err);
    assert_int_equal(crc, crc2);
    assert_int_equal(bytes, bytes2);
    SafeFile f;
    fixture_must(safe_open(&f, path, &err), &err);
    assert_int_equal(f.n, DTYPE_COUNT);
    assert_string_equal(safe_meta(&f, "format"), "pt");
    assert_string_equal(safe_meta(&f, "note"), "a \"b\"\n");
    assert_null(safe_meta(&f, "absent"));
    assert_null(safe_find(&f, "absent"));
    for (int i = 0; i < DTYPE_COUNT; i++) {
        const SafeEntry *e = safe_find(&f, t[i].name);
        assert_non_null(e);
        assert_int_equal(e->dtype, i);
        assert_int_equal(e->rank, 2);
        assert_int_equal(e->shape[1], 3);
        assert_int_equal(e->bytes, 6 * dtype_bytes((DType)i));
        assert_memory_equal(e->data, data[i], (size_t)e->bytes);
        assert_int_equal((uintptr_t)e->data % dtype_bytes((DType)i), 0); // wide types lie first
    }
    safe_close(&f);
    fixture_rmdir(dir);
}

static void scalars_empty_tensors_and_empty_files_are_legal(void **state)
{
    (void)state;
    char dir[PATH_CAP], path[PATH_CAP];
    fixture_mkdir(dir);
    fixture_path(path, dir, "x.safetensors");
    float    one  = 1.5f;
    Tensor   t[2] = {{.name = "scalar", .rank = 0, .data = &one},
                     {.name = "none", .rank = 2, .shape = {0, 7}, .data = &one}};
    Err      err;
    SafeFile f;
    fixture_must(safe_write(path, t, 2, -1, NULL, NULL, NULL, &err), &err);
    fixture_must(safe_open(&f, path, &err), &err);
    assert_int_equal(safe_find(&f, "scalar")->rank, 0);
    assert_int_equal(safe_find(&f, "scalar")->bytes, 4);
    assert_int_equal(safe_find(&f, "none")->bytes, 0);
    safe_close(&f);
    fixture_must(safe_write(path, NULL, 0, -1, NULL, NULL, NULL, &err), &err);
    fixture_must(safe_open(&f, path, &err), &err);
    assert_int_equal(f.n, 0);
    safe_close(&f);
    fixture_rmdir(dir);
}

static void conversion_while_writing_equals_dtype_convert(void **state)
{
    (void)state;
    enum { N = 300000 }; // more than one strip
    char dir[PATH_CAP], path[PATH_CAP];
    fixture_mkdir(dir);
    fixture_path(path, dir, "x.safetensors");
    float *x    = mem_alloc(N * sizeof *x);
    void  *want = mem_alloc(N * sizeof *x), *in = mem_alloc(N * sizeof *x);
    rng_fill_normal(x, N, 5, 0, 3.0);
    const DType types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    for (size_t a = 0; a < LT_COUNT(types); a++)
        for (size_t b = 0; b < LT_COUNT(types); b++) {
            dtype_convert(in, types[a], x, DTYPE_F32, N);
            dtype_convert(want, types[b], in, types[a], N);
            Tensor   t = {.name = "x", .dtype = types[a], .rank = 1, .shape = {N}, .data = in};
            Err      err;
            SafeFile f;
            fixture_must(safe_write(path, &t, 1, (int)types[b], NULL, NULL, NULL, &err), &err);
            fixture_must(safe_open(&f, path, &err), &err);
            assert_int_equal(f.entry[0].dtype, types[b]);
            assert_memory_equal(f.entry[0].data, want, N * dtype_bytes(types[b]));
            safe_close(&f);
        }
    mem_free(x);
    mem_free(in);
    mem_free(want);
    fixture_rmdir(dir);
}

// Transposed writing, and reading back from an odd address, against the two-line definition.
static void transposing_through_strips_is_a_transposition(void **state)
{
    (void)state;
    static const struct {
        int64_t rows, cols;
        DType   from, to;
    } cases[] = {
        {1, 1, DTYPE_F32, DTYPE_F32},        {3, 5, DTYPE_F32, DTYPE_BF16},
        {33, 65, DTYPE_BF16, DTYPE_F32},     {700, 900, DTYPE_F32, DTYPE_F32},
        {300000, 2, DTYPE_F32, DTYPE_F16},   {2, 300000, DTYPE_F16, DTYPE_F32},
        {600001, 1, DTYPE_BF16, DTYPE_BF16}, {513, 1025, DTYPE_F32, DTYPE_BF16},
    };
    char dir[PATH_CAP], path[PATH_CAP];
    Err  err;
    fixture_mkdir(dir);
    fixture_path(path, dir, "x");
    for (size_t k = 0; k < LT_COUNT(cases); k++) {
        const int64_t rows = cases[k].rows, cols = cases[k].cols, n = rows * cols;
        float        *x    = mem_alloc((size_t)n * 4);
        void         *src  = mem_alloc((size_t)n * 4), *back = mem_alloc((size_t)n * 4);
        rng_fill_normal(x, n, k, 1, 1.0);
        dtype_convert(src, cases[k].from, x, DTYPE_F32, n);
        Strip      s;
        FileWriter w;
        Buf        file = {0};
        fixture_must(strip_init(&s, &err), &err);
        fixture_must(file_create(&w, path, &err), &err);
        fixture_must(file_write(&w, "x", 1, &err), &err);
        fixture_must(strip_write(&s, &w, src, cases[k].from, cases[k].to, rows, cols, true, &err),
                     &err);
        fixture_must(file_commit(&w, &err), &err);
        fixture_must(file_read(path, &file, &err), &err);
        assert_int_equal(file.len, 1 + (size_t)n * dtype_bytes(cases[k].to));
        strip_read(&s, back, cases[k].to, (const uint8_t *)file.data + 1, cases[k].to, rows, cols,
                   true);
        void *aligned = mem_alloc((size_t)n * 4);
        memcpy(aligned, file.data + 1, file.len - 1);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++) {
                float v = dtype_load(src, cases[k].from, i * cols + j), r;
                dtype_convert(&r, cases[k].to, &v, DTYPE_F32, 1);
                v = dtype_load(&r, cases[k].to, 0);
                if (dtype_load(aligned, cases[k].to, j * rows + i) < v ||
                    dtype_load(aligned, cases[k].to, j * rows + i) > v)
                    fail_msg("case %zu: file [%d,%d]", k, (int)j, (int)i);
                if (dtype_load(back, cases[k].to, i * cols + j) < v ||
                    dtype_load(back, cases[k].to, i * cols + j) > v)
                    fail_msg("case %zu: memory [%d,%d]", k, (int)i, (int)j);
            }
        strip_free(&s);
        buf_free(&file);
        mem_free(aligned);
        mem_free(x);
        mem_free(src);
        mem_free(back);
    }
    fixture_rmdir(dir);
}

#define T(NAME, DTYPE, SHAPE, OFFSETS)                                                             \
    "\"" NAME "\":{\"dtype\":\"" DTYPE "\",\"shape\":" SHAPE ",\"data_offsets\":" OFFSETS "}"

static const struct {
    const char *what;
    const char *header;
    size_t      data;   // bytes behind it
    uint64_t    length; // header length to claim; 0: the true one
    const char *says;   // part of the message
} hostile[] = {
    {"no header at all", "", 0, 1000, "header of 1000 bytes"},
    {"header longer than the file", "{}", 0, 1u << 30, "header of 1073741824 bytes"},
    {"header length near 2^64", "{}", 0, UINT64_MAX - 7, "header of 18446744073709551608 bytes"},
    {"header cut in the middle", "{\"a\":{\"dtype\":\"F32\"", 0, 0, "not valid JSON"},
    {"empty header", "", 0, 0, "not valid JSON"},
    {"header is an array", "[]", 0, 0, "header is an array"},
    {"header is a number", "7", 0, 0, "header is an integer"},
    {"bytes behind the JSON", "{} x", 0, 0, "not valid JSON"},
    {"not UTF-8", "{\"\xff\":1}", 0, 0, "not valid JSON"},
    {"duplicate name", "{" T("a", "U8", "[1]", "[0,1]") "," T("a", "U8", "[1]", "[1,2]") "}", 2, 0,
     "duplicate"},
    {"entry is a number", "{\"a\":3}", 0, 0, "\"a\": described by"},
    {"dtype missing", "{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, 0, "dtype is missing"},
    {"dtype is a number", "{\"a\":{\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, 0,
     "dtype is missing or not a string"},
    {"unknown dtype", "{" T("a", "F4", "[1]", "[0,1]") "}", 1, 0, "unknown dtype \"F4\""},
    {"shape missing", "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, 0,
     "shape is missing"},
    {"shape is a string", "{" T("a", "U8", "\"1\"", "[0,1]") "}", 1, 0, "shape is missing or not"},
    {"negative dimension", "{" T("a", "F32", "[-1]", "[0,4]") "}", 4, 0, "negative dimension"},
    {"two negative dimensions", "{" T("a", "F32", "[-1,-1]", "[0,4]") "}", 4, 0,
     "negative dimension"},
    {"fractional dimension", "{" T("a", "F32", "[1.0]", "[0,4]") "}", 4, 0, "not an integer"},
    {"nine dimensions", "{" T("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, 0, "more than 8"},
    {"product passes 2^64", "{" T("a", "F32", "[4294967296,4294967296]", "[0,0]") "}", 0, 0,
     "larger than any memory"},
    {"bytes pass 2^64", "{" T("a", "I64", "[2305843009213693952]", "[0,0]") "}", 0, 0,
     "larger than any memory"},
    {"dimension above 2^63", "{" T("a", "U8", "[9223372036854775808]", "[0,0]") "}", 0, 0,
     "not valid JSON"},
    {"offsets missing", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, 0,
     "data_offsets is missing"},
    {"three offsets", "{" T("a", "U8", "[1]", "[0,1,2]") "}", 1, 0, "not two integers"},
    {"negative offset", "{" T("a", "U8", "[1]", "[-1,0]") "}", 1, 0, "negative"},
    {"offsets backwards", "{" T("a", "U8", "[1]", "[1,0]") "}", 1, 0, "wrong order"},
    {"data cut short", "{" T("a", "F32", "[4]", "[0,16]") "}", 15, 0, "only 15 (is it cut short?)"},
    {"offsets beyond 2^62",
     "{" T("a", "U8", "[1]", "[4611686018427387904,4611686018427387905]") "}", 1, 0,
     "ends at byte 4611686018427387905"},
    {"offsets disagree with shape", "{" T("a", "F32", "[3]", "[0,16]") "}", 16, 0, "need 12 bytes"},
    {"overlap", "{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[4]", "[2,6]") "}", 6, 0,
     "overlapping: \"a\""},
    {"gap", "{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[2]", "[6,8]") "}", 8, 0,
     "gap: \"a\""},
    {"gap at the start", "{" T("a", "U8", "[4]", "[2,6]") "}", 6, 0, "gap"},
    {"bytes of nobody at the end", "{" T("a", "U8", "[4]", "[0,4]") "}", 6, 0,
     "2 bytes at the end"},
    {"metadata is a string", "{\"__metadata__\":\"x\"}", 0, 0, "__metadata__ is a string"},
    {"metadata holds a number", "{\"__metadata__\":{\"a\":1}}", 0, 0,
     "__metadata__ holds an integer"},
    {"zero dimension with bytes", "{" T("a", "U8", "[0]", "[0,1]") "}", 1, 0, "need 0 bytes"},
};

static void hostile_files_are_refused_by_name(void **state)
{
    (void)state;
    char dir[PATH_CAP], path[PATH_CAP];
    fixture_mkdir(dir);
    fixture_path(path, dir, "hostile.safetensors");
    for (size_t i = 0; i < LT_COUNT(hostile); i++) {
        const size_t   h = strlen(hostile[i].header), n = 8 + h + hostile[i].data;
        const uint64_t len   = hostile[i].length ? hostile[i].length : h;
        uint8_t       *bytes = mem_calloc(n, 1);
        for (int k = 0; k < 8; k++) bytes[k] = (uint8_t)(len >> (8 * k));
        memcpy(bytes + 8, hostile[i].header, h);
        fixture_put(path, bytes, n);
        mem_free(bytes);
        SafeFile f;
        Err      err;
        if (safe_open(&f, path, &err) != ERR_FORMAT) fail_msg("%s: not refused", hostile[i].what);
        if (!strstr(err.text, path)) fail_msg("%s: no path in: %s", hostile[i].what, err.text);
        if (!strstr(err.text, hostile[i].says)) fail_msg("%s: %s", hostile[i].what, err.text);
        if (strchr(err.text, '\n')) fail_msg("%s: more than one line", hostile[i].what);
        assert_null(f.entry);
    }
    for (size_t n = 0; n < 8; n++) { // shorter than its own length field
        SafeFile f;
        fixture_put(path, "\1\0\0\0\0\0\0", n);
        assert_int_equal(safe_open(&f, path, NULL), ERR_FORMAT);
    }
    fixture_rmdir(dir);
}

static void deep_nesting_does_not_break_the_stack(void **state)
{
    (void)state;
    enum { DEEP = 1 << 20 };
    char dir[PATH_CAP], path[PATH_CAP];
    fixture_mkdir(dir);
    fixture_path(path, dir, "deep.safetensors");
    char *bytes = mem_alloc(DEEP + 8);
    memset(bytes, '[', DEEP + 8);
    for (int k = 0; k < 8; k++) bytes[k] = (char)((uint64_t)DEEP >> (8 * k));
    fixture_put(path, bytes, DEEP + 8);
    mem_free(bytes);
    SafeFile f;
    assert_int_equal(safe_open(&f, path, NULL), ERR_FORMAT);
    fixture_rmdir(dir);
}

static void tensors_beyond_4_gib_are_found_where_they_are(void **state)
{
    (void)state;
    static const char header[] =
        "{\"big\":{\"dtype\":\"F32\",\"shape\":[1342177280],\"data_offsets\":[0,5368709120]},"
        "\"last\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[5368709120,5368709124]}} ";
    char dir[PATH_CAP], path[PATH_CAP];
    fixture_mkdir(dir);
    fixture_path(path, dir, "sparse.safetensors");
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (int k = 0; k < 8; k++) fputc((int)((uint64_t)strlen(header) >> (8 * k) & 255), f);
    assert_int_equal(fwrite(header, 1, strlen(header), f), strlen(header));
    assert_int_equal(fseeko(f, (off_t)5368709120, SEEK_CUR), 0); // a hole: it takes no room
    assert_int_equal(fwrite("tail", 1, 4, f), 4);
    const bool written = fclose(f) == 0;
    SafeFile   s;
    Err        err;
    if (written) {
        fixture_must(safe_open(&s, path, &err), &err);
        assert_int_equal(safe_find(&s, "big")->bytes, 5368709120);
        assert_int_equal(safe_find(&s, "big")->data[0], 0);
        assert_memory_equal(safe_find(&s, "last")->data, "tail", 4);
        safe_close(&s);
    } else {
        print_message("SKIP: this file system has no files of 5 GiB\n");
    }
    fixture_rmdir(dir);
}

static void every_truncation_and_flip_is_refused_or_harmless(void **state)
{
    (void)state;
    char dir[PATH_CAP], path[PATH_CAP], from[PATH_CAP], golden[PATH_CAP];
    fixture_mkdir(dir);
    fixture_path(path, dir, "x.safetensors");
    fixture_path(from, fixture_golden(golden, "bf16"), "model.safetensors");
    Buf file = {0};
    Err err;
    fixture_must(file_read(from, &file, &err), &err);
    SafeFile f;
    for (size_t n = 0; n < file.len; n += n < 64 ? 1 : 61) {
        fixture_put(path, file.data, n);
        if (safe_open(&f, path, NULL) != ERR_FORMAT) fail_msg("cut to %zu bytes: not refused", n);
    }
    for (size_t i = 0; i < 3000; i += 3) { // in the header: any outcome but a crash
        file.data[i] = (char)(file.data[i] ^ (1 << (i % 8)));
        fixture_put(path, file.data, file.len);
        if (safe_open(&f, path, NULL) == ERR_NONE) safe_close(&f);
        file.data[i] = (char)(file.data[i] ^ (1 << (i % 8)));
    }
    buf_free(&file);
    fixture_rmdir(dir);
}

static void a_full_disk_leaves_the_old_file_and_no_new_one(void **state)
{
    (void)state;
    char dir[PATH_CAP], path[PATH_CAP], tmp[PATH_CAP];
    fixture_mkdir(dir);
    fixture_path(path, dir, "x.safetensors");
    fixture_path(tmp, dir, "x.safetensors.tmp");
    float *x = mem_calloc(1 << 20, sizeof *x);
    Tensor t = {.name = "x", .rank = 1, .shape = {4}, .data = x};
    Err    err;
    fixture_must(safe_write(path, &t, 1, -1, NULL, NULL, NULL, &err), &err);
    t.shape[0]       = 1 << 20;
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small          = old;
    small.rlim_cur = 1 << 16;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const Status s = safe_write(path, &t, 1, -1, NULL, NULL, NULL, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(s, ERR_IO);
    assert_non_null(strstr(err.text, "x.safetensors.tmp: File too large"));
    assert_false(file_exists(tmp));
    SafeFile f;
    fixture_must(safe_open(&f, path, &err), &err);
    assert_int_equal(f.entry[0].shape[0], 4);
    safe_close(&f);
    mem_free(x);
    fixture_rmdir(dir);
}

int main(void)
{
    signal(SIGXFSZ, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_comes_back_as_written),
        cmocka_unit_test(scalars_empty_tensors_and_empty_files_are_legal),
        cmocka_unit_test(conversion_while_writing_equals_dtype_convert),
        cmocka_unit_test(transposing_through_strips_is_a_transposition),
        cmocka_unit_test(hostile_files_are_refused_by_name),
        cmocka_unit_test(deep_nesting_does_not_break_the_stack),
        cmocka_unit_test(tensors_beyond_4_gib_are_found_where_they_are),
        cmocka_unit_test(every_truncation_and_flip_is_refused_or_harmless),
        cmocka_unit_test(a_full_disk_leaves_the_old_file_and_no_new_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
