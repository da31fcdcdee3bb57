// test_corpus.c -- engine/data/corpus.h, mmididx.h, shard.h, meta.h
//
// SPDX-License-Identifier: MIT
#include "fake_data.h"
#include "engine/data/corpus.h"
#include "engine/data/mmididx.h"

static void expect_ids(const Corpus *c, const int32_t *want, int64_t n)
{
    Err      err = {0};
    int32_t *got = malloc((size_t)n * sizeof *got + 1);
    assert_int_equal(c->tokens, n);
    must(corpus_read(c, 0, n, 0, got, &err), &err);
    for (int64_t i = 0; i < n; i++) assert_int_equal(got[i], want[i]);
    for (int64_t i = 0; i < n; i++) { // and one by one, from every place
        must(corpus_read(c, i, 1, 0, got, &err), &err);
        assert_int_equal(got[0], want[i]);
    }
    free(got);
}

static void own_folder_reads_back_for_any_shard_size(void **state)
{
    (void)state;
    enum { N = 103 };
    int32_t       id[N];
    uint8_t       counts[N];
    const int64_t document[] = {0, 1, 40, 41, 99};
    static const struct {
        int64_t shard;
        int     bytes, shards;
    } cases[] = {{11, 2, 10}, {25, 4, 5}, {103, 2, 1}, {104, 4, 1}, {1 << 20, 2, 1}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        TestDir   d = test_dir();
        const int w = cases[k].bytes;
        for (int i = 0; i < N; i++) id[i] = w == 2 ? 65534 - i * 3 : 70000 + i;
        for (int i = 0; i < N; i++) counts[i] = i % 5 != 1;
        const FakeData f = {id, N, cases[k].shard, w, document, 5, counts, 100000, 7};
        const TestPath p = fake_data(&d, "data", &f, NULL);
        Corpus         c;
        Err            err = {0};
        must(corpus_open(&c, p.s, 0, &err), &err);
        expect_ids(&c, id, N);
        assert_int_equal(c.pieces, cases[k].shards);
        assert_int_equal(c.documents, 5);
        for (int i = 0; i < 5; i++) assert_int_equal(c.document[i], document[i]);
        for (int i = 0; i < N; i++) assert_int_equal(corpus_counts(&c, i), counts[i]);
        assert_int_equal(corpus_documents_until(&c, 0), 1);
        assert_int_equal(corpus_documents_until(&c, 1), 2);
        assert_int_equal(corpus_documents_until(&c, 40), 3);
        assert_int_equal(corpus_documents_until(&c, 98), 4);
        assert_int_equal(corpus_documents_until(&c, 102), 5);
        assert_int_equal(c.meta.tokenizer, 7);
        corpus_close(&c);
        test_dir_remove(&d);
    }
}

static void shards_are_laid_out_as_llm_c_has_them(void **state)
{
    (void)state;
    TestDir        d    = test_dir();
    const int32_t  id[] = {5, 65534, 0, 258};
    const FakeData f    = {id, 4, 3, 2, NULL, 0, NULL, 65535, 0};
    const TestPath p    = fake_data(&d, "data", &f, NULL);
    Buf            b    = {0};
    Err            err  = {0};
    TestPath       file = test_path(&d, "data/train-00000.bin");
    (void)p;
    must(file_read(file.s, &b, &err), &err);
    int32_t header[256] = {20240520, 1, 3};
    assert_int_equal(b.len, 1024 + 6);
    assert_memory_equal(b.data, header, 1024);
    assert_memory_equal(b.data + 1024, "\x05\x00\xfe\xff\x00\x00", 6);
    buf_clear(&b);
    file = test_path(&d, "data/train-00001.bin");
    must(file_read(file.s, &b, &err), &err);
    header[2] = 1;
    assert_int_equal(b.len, 1024 + 2);
    assert_memory_equal(b.data, header, 1024);
    assert_memory_equal(b.data + 1024, "\x02\x01", 2);
    buf_free(&b);
    FileList l;
    must(file_list(test_path(&d, "data").s, &l, &err), &err);
    assert_int_equal(l.n, 4); // meta.json, two shards, train.documents: nothing else is left
    file_list_free(&l);
    test_dir_remove(&d);
}

static void meta_keeps_crc_of_every_file(void **state)
{
    (void)state;
    TestDir        d          = test_dir();
    const int32_t  id[]       = {1, 2, 3, 4, 5};
    const uint8_t  counts[]   = {1, 0, 0, 1, 1};
    const FakeData f          = {id, 5, 2, 4, NULL, 0, counts, 70000, 0};
    const TestPath p          = fake_data(&d, "data", &f, &f);
    Err            err        = {0};
    DataMeta       m;
    must(data_meta_read(&m, p.s, &err), &err);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < m.split[k].shards + 2; i++) {
            const MetaSplit *s = &m.split[k];
            const MetaFile  *x = i < s->shards    ? &s->shard[i]
                                 : i == s->shards ? &s->index
                                                  : &s->mask;
            char             path[PATH_CAP];
            uint32_t         crc;
            uint64_t         bytes;
            must(path_join(path, p.s, x->name, &err), &err);
            must(file_crc(path, &crc, &bytes, &err), &err);
            assert_int_equal(crc, x->crc);
            assert_int_equal(bytes, x->bytes);
        }
    assert_int_equal(m.split[0].counted_tokens, 3);
    data_meta_free(&m);
    test_dir_remove(&d);
}

static void plain_llm_c_shards_are_read(void **state)
{
    (void)state;
    TestDir        d   = test_dir();
    const int32_t  a[] = {50256, 1, 2}, b[] = {3, 4}, v[] = {9, 8, 7};
    const int32_t  all[] = {50256, 1, 2, 3, 4};
    Err            err = {0};
    Corpus         c;
    const TestPath one = test_shard(&d, "text_train_000001.bin", a, 3, false);
    test_shard(&d, "text_train_000002.bin", b, 2, true);
    test_shard(&d, "text_val_000000.bin", v, 3, false);
    must(corpus_open(&c, d.path, 0, &err), &err);
    expect_ids(&c, all, 5);
    assert_null(c.document);
    assert_false(c.has_meta);
    corpus_close(&c);
    must(corpus_open(&c, d.path, 1, &err), &err);
    expect_ids(&c, v, 3);
    corpus_close(&c);
    must(corpus_open(&c, one.s, 0, &err), &err); // a single file
    expect_ids(&c, a, 3);
    corpus_close(&c);
    test_dir_remove(&d);
}

static void headerless_uint16_is_read_as_nanogpt_names_it(void **state)
{
    (void)state;
    TestDir        d       = test_dir();
    const uint16_t train[] = {1, 65535, 3}, val[] = {4, 5};
    const int32_t  want[]  = {1, 65535, 3}, want_val[] = {4, 5};
    Err            err     = {0};
    Corpus         c;
    test_file(&d, "train.bin", train, sizeof train);
    test_file(&d, "val.bin", val, sizeof val);
    must(corpus_open(&c, d.path, 0, &err), &err);
    expect_ids(&c, want, 3);
    corpus_close(&c);
    must(corpus_open(&c, d.path, 1, &err), &err);
    expect_ids(&c, want_val, 2);
    corpus_close(&c);
    test_dir_remove(&d);
}

// tests/data/golden, made by scripts/golden_mmididx.py.
static void megatron_dataset_is_read_with_its_documents(void **state)
{
    (void)state;
    const char *source = getenv("LATHE_SOURCE_DIR");
    static const char *const names[] = {"mmididx", "mmididx.bin", ""};
    int32_t                  want[20];
    for (int i = 0; i < 20; i++) want[i] = 70000 - 3 * i;
    for (size_t k = 0; k < 3; k++) { // the prefix, the file, the folder
        char   path[512];
        Corpus c;
        Err    err = {0};
        snprintf(path, sizeof path, "%s/tests/data/golden/%s", source ? source : ".", names[k]);
        must(corpus_open(&c, path, 0, &err), &err);
        expect_ids(&c, want, 20);
        assert_int_equal(c.documents, 3);
        assert_int_equal(c.document[0], 0);
        assert_int_equal(c.document[1], 5);
        assert_int_equal(c.document[2], 11);
        corpus_close(&c);
    }
}

typedef struct Idx { // an .idx in the making
    Buf b;
} Idx;

static void put(Idx *x, uint64_t v, size_t bytes)
{
    Err err = {0};
    must(buf_append(&x->b, &v, bytes, &err), &err); // little-endian, as the file is
}

static Idx idx_begin(int code, int sequences, int documents)
{
    Idx x   = {{0}};
    Err err = {0};
    must(buf_append(&x.b, "MMIDIDX\0\0", 9, &err), &err);
    put(&x, 1, 8);
    put(&x, (uint64_t)code, 1);
    put(&x, (uint64_t)sequences, 8);
    put(&x, (uint64_t)documents, 8);
    return x;
}

static void megatron_types_and_empty_documents(void **state)
{
    (void)state;
    static const struct {
        int code, bytes;
    } types[] = {{1, 1}, {2, 1}, {3, 2}, {4, 4}, {5, 8}, {8, 2}};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        TestDir       d = test_dir();
        const int     w = types[k].bytes;
        Idx           x = idx_begin(types[k].code, 3, 6), bin = {{0}};
        const int32_t want[]    = {10, 20, 30, 40};
        const int     lengths[] = {2, 0, 2}, documents[] = {0, 0, 1, 2, 3, 3};
        for (int i = 0; i < 3; i++) put(&x, (uint64_t)lengths[i], 4);
        put(&x, 0, 8);
        put(&x, (uint64_t)(2 * w), 8);
        put(&x, (uint64_t)(2 * w), 8);
        for (int i = 0; i < 6; i++) put(&x, (uint64_t)documents[i], 8);
        put(&x, 7, 3); // what follows is not read
        for (int i = 0; i < 4; i++) put(&bin, (uint64_t)want[i], (size_t)w);
        test_file(&d, "x.idx", x.b.data, x.b.len);
        test_file(&d, "x.bin", bin.b.data, bin.b.len);
        Corpus c;
        Err    err = {0};
        must(corpus_open(&c, d.path, 0, &err), &err);
        expect_ids(&c, want, 4);
        assert_int_equal(c.documents, 2); // [0,2) and [2,4); the others have no tokens
        assert_int_equal(c.document[0], 0);
        assert_int_equal(c.document[1], 2);
        corpus_close(&c);
        buf_free(&x.b);
        buf_free(&bin.b);
        test_dir_remove(&d);
    }
}

static void lying_megatron_indexes_are_errors(void **state)
{
    (void)state;
    static const struct {
        int         code, sequences, length, pointer, document;
        int64_t     cut;
        int         bin_bytes;
        const char *part;
    } cases[] = {
        {8, 1, 2, 0, 0, 0, 3, "3 bytes, but"},
        {8, 1, 2, 0, 0, 0, 6, "6 bytes, but"},
        {6, 1, 2, 0, 0, 0, 4, "tokens of type 6"},
        {77, 1, 2, 0, 0, 0, 4, "tokens of type 77"},
        {8, 1, 2, 2, 0, 0, 4, "lies at byte 2, expected 0"},
        {8, 1, -2, 0, 0, 0, 4, "has -2 tokens"},
        {8, 1, 2, 0, 9, 0, 4, "begins at sequence 9"},
        {8, 1000, 2, 0, 0, 0, 4, "too few for 1000 sequences"},
        {8, 1, 2, 0, 0, 1, 4, "too few"},
        {8, 1, 2, 0, 0, 30, 4, "unknown magic, expected MMIDIDX"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        TestDir d = test_dir();
        Idx     x = idx_begin(cases[k].code, cases[k].sequences, 2);
        put(&x, (uint64_t)(uint32_t)cases[k].length, 4);
        put(&x, (uint64_t)cases[k].pointer, 8);
        put(&x, (uint64_t)cases[k].document, 8);
        put(&x, 1, 8);
        test_file(&d, "x.idx", x.b.data, x.b.len - (size_t)cases[k].cut);
        test_file(&d, "x.bin", "\1\0\2\0\3\0", (size_t)cases[k].bin_bytes);
        Corpus c;
        Err    err = {0};
        expect_error(corpus_open(&c, d.path, 0, &err), &err, ERR_FORMAT, cases[k].part);
        buf_free(&x.b);
        test_dir_remove(&d);
    }
}

static void lying_shards_are_errors(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t     magic, version, tokens;
        int         bytes; // of the file
        const char *part;
    } cases[] = {
        {"x.bin", 20240520, 1, 3, 1024 + 5, "1029 bytes, but the header says 3 tokens"},
        {"x.bin", 20240520, 1, 3, 1024 + 8, "1032 bytes, but the header says 3 tokens"},
        {"x.bin", 20240801, 7, 3, 1024 + 6, "1030 bytes, but the header says 3 tokens"},
        {"x.bin", 20240520, 1, -1, 1024, "says -1 tokens"},
        {"x.bin", 20240520, 1, INT32_MAX, 1024 + 6, "the header says 2147483647 tokens"},
        {"x.bin", 20240520, 2, 3, 1024 + 6, "shard version 2, expected 1"},
        {"x.bin", 20240801, 1, 3, 1024 + 12, "shard version 1, expected 7"},
        {"x.bin", 20240520, 1, 3, 100, "100 bytes, a shard's header alone has 1024"},
        {"x.bin", 7, 1, 3, 1024 + 6, "unknown magic 7"},
        {"x.bin", 7, 1, 3, 0, "unknown magic"},
        {"train.bin", 7, 1, 3, 13, "no whole number of uint16"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        TestDir       d           = test_dir();
        uint8_t       bytes[2048] = {0};
        const int32_t header[]    = {cases[k].magic, cases[k].version, cases[k].tokens};
        memcpy(bytes, header, sizeof header);
        test_file(&d, cases[k].name, bytes, (size_t)cases[k].bytes);
        Corpus c;
        Err    err = {0};
        expect_error(corpus_open(&c, d.path, 0, &err), &err, ERR_FORMAT, cases[k].part);
        assert_non_null(strstr(err.text, d.path));
        test_dir_remove(&d);
    }
}

static void damage_text(const TestPath *p, const char *name, const char *from, const char *to)
{
    char path[PATH_CAP];
    Err  err = {0};
    Buf  b   = {0}, out = {0};
    must(path_join(path, p->s, name, &err), &err);
    must(file_read(path, &b, &err), &err);
    const char *at = strstr(b.data, from);
    assert_non_null(at);
    must(buf_append(&out, b.data, (size_t)(at - b.data), &err), &err);
    must(buf_puts(&out, to, &err), &err);
    must(buf_puts(&out, at + strlen(from), &err), &err);
    must(file_replace(path, out.data, out.len, &err), &err);
    buf_free(&b);
    buf_free(&out);
}

static void damaged_own_folders_are_errors(void **state)
{
    (void)state;
    static const struct {
        const char *file, *bytes; // bytes: the file's new content (NULL: gone; "": from, to below)
        const char *from, *to;
        Status      code;
        const char *part;
    } cases[] = {
        {"train-00000.bin", NULL, "", "", ERR_IO, "No such file"},
        {"train-00001.bin", "short", "", "", ERR_FORMAT, "unknown magic"},
        {"train.documents", "LTHDOCS1", "", "", ERR_FORMAT, "8 bytes, expected 24"},
        {"train.documents", "LTHDOCS0abcdefgh12345678", "", "", ERR_FORMAT, "expected LTHDOCS1"},
        {"train.documents", "LTHDOCS1abcdefgh12345678", "", "", ERR_FORMAT, "out of order"},
        {"train.mask", "LTHMASK1", "", "", ERR_FORMAT, "8 bytes, expected 9"},
        {"meta.json", "{", "", "", ERR_FORMAT, "not JSON"},
        {"meta.json", "[]", "", "", ERR_FORMAT, "\"format\""},
        {"meta.json", "", "lathe-data", "other", ERR_FORMAT, "\"format\" is not"},
        {"meta.json", "", "\"version\": 1", "\"version\": 2", ERR_FORMAT, "\"version\" is not 1"},
        {"meta.json", "", "\"vocab_size\": 70", "\"vocab_size\": -70", ERR_FORMAT, "vocab_size"},
        {"meta.json", "", "\"tokens\": 2", "\"tokens\": 3", ERR_FORMAT, "sum of the shards"},
        {"meta.json", "", "train-00000.bin", "../../passwd", ERR_FORMAT, "not a name in the"},
        {"meta.json", "", "\"crc32\": \"", "\"crc32\": \"x", ERR_FORMAT, "hexadecimal"},
        {"meta.json", "", "\"token_bytes\": 2", "\"token_bytes\": 3", ERR_FORMAT, "token_bytes"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        TestDir        d        = test_dir();
        const int32_t  id[]     = {1, 2, 3, 4, 5};
        const uint8_t  counts[] = {1, 0, 0, 1, 1};
        const int64_t  docs[]   = {0, 3};
        const FakeData f        = {id, 5, 2, 2, docs, 2, counts, 70, 0};
        const TestPath p        = fake_data(&d, "data", &f, NULL);
        char           path[PATH_CAP];
        Err            err = {0};
        must(path_join(path, p.s, cases[k].file, &err), &err);
        if (!cases[k].bytes)
            must(file_remove(path, &err), &err);
        else if (cases[k].from[0])
            damage_text(&p, cases[k].file, cases[k].from, cases[k].to);
        else
            must(file_replace(path, cases[k].bytes, strlen(cases[k].bytes), &err), &err);
        Corpus c;
        expect_error(corpus_open(&c, p.s, 0, &err), &err, cases[k].code, cases[k].part);
        test_dir_remove(&d);
    }
}

static void empty_and_interrupted_folders_are_errors(void **state)
{
    (void)state;
    TestDir       d    = test_dir();
    const int32_t id[] = {1, 2, 3};
    Err           err  = {0};
    Corpus        c;
    expect_error(corpus_open(&c, d.path, 0, &err), &err, ERR_USAGE, "no tokens in its train split");
    expect_error(corpus_open(&c, test_path(&d, "x").s, 0, &err), &err, ERR_IO, "No such file");
    const TestPath p = test_shard(&d, "train-00000.bin", id, 3, false);
    expect_error(corpus_open(&c, d.path, 1, &err), &err, ERR_USAGE, "no tokens in its val split");
    expect_error(corpus_open(&c, p.s, 1, &err), &err, ERR_USAGE, "no tokens in its val split");
    test_file(&d, META_MARKER, "x", 1);
    expect_error(corpus_open(&c, d.path, 0, &err), &err, ERR_FORMAT, "did not finish");
    const FakeData f   = {id, 3, 9, 2, NULL, 0, NULL, 70, 0};
    const TestPath own = fake_data(&d, "own", &f, NULL);
    expect_error(corpus_open(&c, own.s, 1, &err), &err, ERR_USAGE, "val_fraction");
    test_dir_remove(&d);
}

static void ids_outside_the_vocabulary_name_their_place(void **state)
{
    (void)state;
    TestDir       d   = test_dir();
    const int32_t a[] = {1, 2}, b[] = {3, 700, 4};
    int32_t       got[5];
    Err           err = {0};
    Corpus        c;
    test_shard(&d, "a.bin", a, 2, false);
    test_shard(&d, "b.bin", b, 3, false);
    must(corpus_open(&c, d.path, 0, &err), &err);
    must(corpus_read(&c, 0, 5, 701, got, &err), &err);
    expect_error(corpus_read(&c, 0, 5, 700, got, &err), &err, ERR_FORMAT,
                 "b.bin: token 1 is id 700, but the vocabulary has 700 ids");
    corpus_close(&c);
    const int32_t negative[] = {1, -5};
    test_dir_remove(&d);
    d = test_dir();
    test_shard(&d, "a.bin", negative, 2, true); // as uint32 it is above any id
    must(corpus_open(&c, d.path, 0, &err), &err);
    expect_error(corpus_read(&c, 0, 2, 0, got, &err), &err, ERR_FORMAT, "id 4294967291");
    corpus_close(&c);
    test_dir_remove(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_folder_reads_back_for_any_shard_size),
        cmocka_unit_test(shards_are_laid_out_as_llm_c_has_them),
        cmocka_unit_test(meta_keeps_crc_of_every_file),
        cmocka_unit_test(plain_llm_c_shards_are_read),
        cmocka_unit_test(headerless_uint16_is_read_as_nanogpt_names_it),
        cmocka_unit_test(megatron_dataset_is_read_with_its_documents),
        cmocka_unit_test(megatron_types_and_empty_documents),
        cmocka_unit_test(lying_megatron_indexes_are_errors),
        cmocka_unit_test(lying_shards_are_errors),
        cmocka_unit_test(damaged_own_folders_are_errors),
        cmocka_unit_test(empty_and_interrupted_folders_are_errors),
        cmocka_unit_test(ids_outside_the_vocabulary_name_their_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
