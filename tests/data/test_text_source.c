// test_text_source.c -- engine/data/text_source.h and byte_reader.h
//
// SPDX-License-Identifier: MIT
#include "support.h"
#include "engine/data/byte_reader.h"
#include "engine/data/text_source.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

// Documents of an input as one text: each in [ ], a completion behind |.
static Status join(const char *input, const char *separator, Buf *out, TextStats *stats, Err *err)
{
    TextSource *s;
    TRY(text_source_open(&s, input, separator, err));
    Status status = ERR_NONE;
    for (;;) {
        TextDocument d;
        bool         more;
        status = text_source_next(s, &d, &more, err);
        if (status != ERR_NONE || !more) break;
        must(buf_puts(out, "[", err), err);
        must(buf_append(out, d.text, d.bytes, err), err);
        if (d.completion) must(buf_puts(out, "|", err), err);
        if (d.completion) must(buf_append(out, d.completion, d.completion_bytes, err), err);
        must(buf_puts(out, "]", err), err);
    }
    if (stats) text_source_stats(s, stats);
    text_source_close(s);
    return status;
}

static size_t gzip(const char *text, size_t n, uint8_t *out, size_t cap)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in   = (Bytef *)(uintptr_t)text;
    z.avail_in  = (uInt)n;
    z.next_out  = out;
    z.avail_out = (uInt)cap;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    const size_t made = z.total_out;
    deflateEnd(&z);
    return made;
}

typedef struct Case {
    const char *name, *bytes;
    size_t      n;
    const char *separator, *want;
    size_t      want_n;
    int         empty, marks;
} Case;
#define BYTES(s) s, sizeof s - 1

static void documents_of_a_file(void **state)
{
    (void)state;
    static const Case cases[] = {
        {"a.txt", BYTES("one\ntwo\n"), "", BYTES("[one\ntwo\n]"), 0, 0},
        {"a.md", BYTES("any name is text"), "", BYTES("[any name is text]"), 0, 0},
        {"a.txt", BYTES(""), "", BYTES(""), 1, 0},
        {"a.txt", BYTES("\xef\xbb\xbf"), "", BYTES(""), 1, 1},
        {"a.txt", BYTES("\xef\xbb\xbfx\xef\xbb\xbf"), "", BYTES("[x\xef\xbb\xbf]"), 0, 1},
        {"a.txt", BYTES("a\r\nb\0c\xff\xfe\x80"), "", BYTES("[a\r\nb\0c\xff\xfe\x80]"), 0, 0},
        {"a.txt", BYTES("x"), "", BYTES("[x]"), 0, 0},
        {"a.txt", BYTES("a\n\nb\n\nc"), "\n\n", BYTES("[a][b][c]"), 0, 0},
        {"a.txt", BYTES("\n\na\n\n\n\nb\n\n"), "\n\n", BYTES("[a][b]"), 2, 0},
        {"a.txt", BYTES("a\n\n\nb"), "\n\n", BYTES("[a][\nb]"), 0, 0},
        {"a.txt", BYTES("aXYbXYc"), "XY", BYTES("[a][b][c]"), 0, 0},
        {"a.jsonl", BYTES("{\"text\":\"a\"}\n{\"text\":\"b\"}"), "zz", BYTES("[a][b]"), 0, 0},
        {"a.jsonl", BYTES("\xef\xbb\xbf{\"text\":\"a\",\"n\":[1,2]}\r\n\n \t\n{\"text\":\"\"}\n"),
         "", BYTES("[a]"), 1, 1},
        {"a.jsonl", BYTES("{\"text\":\"x\\u0000y\\ud83d\\ude00\"}"), "",
         BYTES("[x\0y\xf0\x9f\x98\x80]"), 0, 0},
        {"a.jsonl",
         BYTES("{\"prompt\":\"p\",\"completion\":\"c\"}\n"
               "{\"prompt\":\"\",\"completion\":\"\"}"),
         "", BYTES("[p|c]"), 1, 0},
        {"a.jsonl",
         BYTES("{\"prompt\":\"p\",\"completion\":\"\",\"text\":\"t\"}\n"
               "{\"prompt\":1,\"text\":\"t\"}"),
         "", BYTES("[p|][t]"), 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int packed = 0; packed < 2; packed++) {
            const Case *c = &cases[i];
            TestDir     d = test_dir();
            uint8_t     z[4096];
            char        name[32];
            snprintf(name, sizeof name, "%s%s", c->name, packed ? ".gz" : "");
            const size_t   n = packed ? gzip(c->bytes, c->n, z, sizeof z) : c->n;
            const TestPath p = test_file(&d, name, packed ? (const void *)z : c->bytes, n);
            Buf            got = {0};
            Err            err = {0};
            TextStats      st;
            must(join(p.s, c->separator, &got, &st, &err), &err);
            if (got.len != c->want_n || (got.len && memcmp(got.data, c->want, got.len) != 0))
                fail_msg("case %zu: got %s, want %s", i, got.data ? got.data : "", c->want);
            assert_int_equal(st.empty, c->empty);
            assert_int_equal(st.marks, c->marks);
            buf_free(&got);
            test_dir_remove(&d);
        }
}

static void separator_is_found_across_reads(void **state)
{
    (void)state;
    // The reader takes 256 KiB and 1 MiB at a time: put separators around those borders.
    TestDir d   = test_dir();
    Err     err = {0};
    for (int shift = -4; shift <= 4; shift++)
        for (int border = 1 << 18; border <= 1 << 20; border <<= 2) {
            Buf text = {0}, got = {0};
            for (int i = 0; i < border + shift; i++) must(buf_append(&text, "a", 1, &err), &err);
            must(buf_puts(&text, "<|end|>tail", &err), &err);
            const TestPath p = test_file(&d, "a.txt", text.data, text.len);
            must(join(p.s, "<|end|>", &got, NULL, &err), &err);
            assert_int_equal(got.len, border + shift + 2 + 6);
            assert_string_equal(got.data + got.len - 7, "][tail]");
            buf_free(&text);
            buf_free(&got);
        }
    test_dir_remove(&d);
}

static void folder_is_read_in_order(void **state)
{
    (void)state;
    TestDir d = test_dir();
    uint8_t z[256];
    test_folder(&d, "in/sub/deep");
    test_file(&d, "in/b.txt", "B", 1);
    test_file(&d, "in/a.jsonl", "{\"text\":\"A\"}", 12);
    test_file(&d, "in/c.txt.gz", z, gzip("C", 1, z, sizeof z));
    test_file(&d, "in/sub/x.txt", "X", 1);
    test_file(&d, "in/sub/deep/y.txt", "Y", 1);
    test_file(&d, "in/readme.md", "no", 2);
    test_file(&d, "in/.hidden.txt", "no", 2);
    Buf       got = {0};
    Err       err = {0};
    TextStats st;
    must(join(test_path(&d, "in").s, "", &got, &st, &err), &err);
    assert_string_equal(got.data, "[A][B][C][Y][X]");
    assert_int_equal(st.files, 5);
    assert_int_equal(st.documents, 5);
    buf_free(&got);
    test_dir_remove(&d);
}

static void skipped_files_are_counted_and_named(void **state)
{
    (void)state;
    TestDir d = test_dir();
    test_file(&d, "a.txt", "A", 1);
    test_file(&d, "z.csv", "no", 2);
    TextSource *s;
    Err         err = {0};
    TextStats   st;
    must(text_source_open(&s, d.path, "", &err), &err);
    text_source_stats(s, &st);
    assert_int_equal(st.skipped, 1);
    assert_non_null(strstr(st.first_skipped, "z.csv"));
    text_source_close(s);
    test_dir_remove(&d);
}

static void standard_input_is_text_or_jsonl(void **state)
{
    (void)state;
    static const struct {
        const char *in, *want;
    } cases[] = {{"plain text", "[plain text]"},
                 {"{\"text\":\"a\"}\n{\"text\":\"b\"}\n", "[a][b]"},
                 {"{ not json\n", "[{ not json\n]"},
                 {"{\"other\": 1}\n", "[{\"other\": 1}\n]"},
                 {"{\"prompt\":\"p\",\"completion\":\"c\"}", "[p|c]"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        TestDir        d    = test_dir();
        const TestPath p    = test_file(&d, "in", cases[i].in, strlen(cases[i].in));
        const int      keep = dup(0), fd = open(p.s, O_RDONLY);
        assert_int_equal(dup2(fd, 0), 0);
        close(fd);
        Buf          got    = {0};
        Err          err    = {0};
        const Status status = join("-", "", &got, NULL, &err);
        assert_int_equal(dup2(keep, 0), 0);
        close(keep);
        must(status, &err);
        assert_string_equal(got.data, cases[i].want);
        buf_free(&got);
        test_dir_remove(&d);
    }
}

static void bad_input_names_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *name, *bytes;
        size_t      n;
        Status      code;
        const char *part;
    } cases[] = {
        {"a.txt", BYTES("\xff\xfeh\0i\0"), ERR_FORMAT, "UTF-16"},
        {"a.txt", BYTES("\xfe\xff\0h\0i"), ERR_FORMAT, "UTF-16"},
        {"a.txt", BYTES("\0\0\xfe\xff\0\0\0h"), ERR_FORMAT, "UTF-32"},
        {"a.txt.gz", BYTES("not gzip"), ERR_FORMAT, "not gzip data"},
        {"a.txt.gz", BYTES(""), ERR_FORMAT, "not gzip data"},
        {"a.jsonl", BYTES("{\"text\":\"a\"}\n{\"text\":\n"), ERR_FORMAT, "a.jsonl:2: not JSON"},
        {"a.jsonl", BYTES("\n\n{\"txt\":\"a\"}\n"), ERR_FORMAT, "a.jsonl:3: no field \"text\""},
        {"a.jsonl", BYTES("{\"text\":5}\n"), ERR_FORMAT, "a.jsonl:1: field \"text\" is not a"},
        {"a.jsonl", BYTES("[\"text\"]\n"), ERR_FORMAT, "a.jsonl:1: not a JSON object"},
        {"a.jsonl", BYTES("{\"prompt\":\"p\"}\n"), ERR_FORMAT, "completion"},
        {"a.jsonl", BYTES("{\"text\":\"\xff\"}\n"), ERR_FORMAT, "a.jsonl:1: not JSON"},
        {"a.jsonl", BYTES("{\"text\":\"a\"} x\n"), ERR_FORMAT, "a.jsonl:1: not JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        TestDir        d   = test_dir();
        const TestPath p   = test_file(&d, cases[i].name, cases[i].bytes, cases[i].n);
        Buf            got = {0};
        Err            err = {0};
        expect_error(join(p.s, "", &got, NULL, &err), &err, cases[i].code, cases[i].part);
        expect_error(ERR_FORMAT, &err, ERR_FORMAT, p.s);
        buf_free(&got);
        test_dir_remove(&d);
    }
}

static void missing_input_and_empty_folder_are_errors(void **state)
{
    (void)state;
    TestDir d   = test_dir();
    Buf     got = {0};
    Err     err = {0};
    expect_error(join(test_path(&d, "none").s, "", &got, NULL, &err), &err, ERR_IO, "No such file");
    expect_error(join(d.path, "", &got, NULL, &err), &err, ERR_USAGE, "no .txt or .jsonl files");
    test_file(&d, "a.txt", "x", 1);
    assert_int_equal(symlink(".", test_path(&d, "loop").s), 0);
    expect_error(join(d.path, "", &got, NULL, &err), &err, ERR_USAGE, "a link to a folder it lies");
    buf_free(&got);
    test_dir_remove(&d);
}

static void damaged_gzip_never_is_a_shorter_text(void **state)
{
    (void)state;
    TestDir d = test_dir();
    char    text[5000];
    uint8_t z[8000], bad[8000];
    Err     err = {0};
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + (i * i * 7 + i / 13) % 26);
    const size_t n = gzip(text, sizeof text, z, sizeof z);
    for (size_t cut = 2; cut < n; cut += cut < 24 ? 1 : 97) {
        Buf            got = {0};
        const TestPath p   = test_file(&d, "a.txt.gz", z, cut);
        expect_error(join(p.s, "", &got, NULL, &err), &err, ERR_FORMAT, "ends in the middle");
        buf_free(&got);
    }
    for (size_t at = n - 8; at < n; at++) { // checksum and length
        Buf got = {0};
        memcpy(bad, z, n);
        bad[at] ^= 4;
        const TestPath p = test_file(&d, "a.txt.gz", bad, n);
        expect_error(join(p.s, "", &got, NULL, &err), &err, ERR_FORMAT, "damaged gzip");
        buf_free(&got);
    }
    Buf two = {0}, got = {0};
    must(buf_append(&two, z, n, &err), &err);
    must(buf_append(&two, z, n, &err), &err);
    const TestPath p = test_file(&d, "a.txt.gz", two.data, two.len);
    must(join(p.s, "", &got, NULL, &err), &err);
    assert_int_equal(got.len, 2 * sizeof text + 2); // members follow each other
    must(buf_append(&two, "junk", 4, &err), &err);
    test_file(&d, "a.txt.gz", two.data, two.len);
    expect_error(join(p.s, "", &got, NULL, &err), &err, ERR_FORMAT, "not gzip data follow");
    buf_free(&two);
    buf_free(&got);
    test_dir_remove(&d);
}

static void escapes_stand_for_their_bytes(void **state)
{
    (void)state;
    char out[16];
    Err  err = {0};
    must(text_unescape("a\\n\\t\\r\\\\b", out, sizeof out, &err), &err);
    assert_string_equal(out, "a\n\t\r\\b");
    expect_error(text_unescape("\\q", out, sizeof out, &err), &err, ERR_USAGE, "unknown escape");
    expect_error(text_unescape("x\\", out, sizeof out, &err), &err, ERR_USAGE, "unknown escape");
    expect_error(text_unescape("0123456789abcdef", out, sizeof out, &err), &err, ERR_USAGE,
                 "longer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_of_a_file),
        cmocka_unit_test(separator_is_found_across_reads),
        cmocka_unit_test(folder_is_read_in_order),
        cmocka_unit_test(skipped_files_are_counted_and_named),
        cmocka_unit_test(standard_input_is_text_or_jsonl),
        cmocka_unit_test(bad_input_names_its_place),
        cmocka_unit_test(missing_input_and_empty_folder_are_errors),
        cmocka_unit_test(damaged_gzip_never_is_a_shorter_text),
        cmocka_unit_test(escapes_stand_for_their_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
