// test_options.c -- engine/config/options.h: flags, config files, presets, rules, the pages.
//
// SPDX-License-Identifier: MIT
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/config/near_name.h"
#include "engine/config/option_rows.h"
#include "engine/config/options.h"
#include "engine/config/presets.h"

enum { ARGS = 16 };

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/lathe-options-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return file_remove_tree(folder, NULL) == ERR_NONE ? 0 : -1;
}

// Words of `line`, split at '|', as argv. The caller's array owns nothing: `copy` holds the text.
static int split(const char *line, char *copy, size_t cap, char *argv[ARGS])
{
    int argc = 0;
    snprintf(copy, cap, "%s", line);
    for (char *w = strtok(copy, "|"); w; w = strtok(NULL, "|")) {
        assert_true(argc < ARGS);
        argv[argc++] = w;
    }
    return argc;
}

static char  parse_text[4096];
static char *parse_argv[ARGS];

static Status parse(Options *o, OptionCommand cmd, const char *line, Err *err)
{
    options_init(o);
    err_clear(err);
    const int argc = split(line, parse_text, sizeof parse_text, parse_argv);
    return options_parse(o, cmd, argc, parse_argv, err);
}

static void parse_ok(Options *o, OptionCommand cmd, const char *line)
{
    Err err;
    if (parse(o, cmd, line, &err) != ERR_NONE) fail_msg("%s\n-> %s", line, err.text);
}

static const char *put_file(const char *name, const char *text, char path[128])
{
    snprintf(path, 128, "%s/%s", folder, name);
    assert_int_equal(file_replace(path, text, strlen(text), NULL), ERR_NONE);
    return path;
}

static void defaults_are_those_of_the_table(void **state)
{
    (void)state;
    Options o;
    parse_ok(&o, C_TRAIN, "--data=d|--run=r");
    assert_int_equal(o.n_layer, 12);
    assert_true(o.beta2 == 0.95);
    assert_true(o.bias);
    assert_string_equal(o.schedule, "cosine");
    assert_false(options_given(&o, OPT_n_layer));
    assert_true(options_given(&o, OPT_data));
    options_free(&o);
}

static void later_and_closer_wins(void **state)
{
    (void)state;
    char path[128], line[512];
    put_file("a.ini",
             "preset = shakespeare-char\nn_layer=3 # fewer\ndropout = 0.1\n\n# end\nseed = 7\n",
             path);
    snprintf(line, sizeof line, "%s|--data=d|--run=r|--seed=8|--seed=9|--dropout=0.3", path);
    Options o;
    parse_ok(&o, C_TRAIN, line);
    assert_int_equal(o.n_embd, 384);
    assert_int_equal(o.origin[OPT_n_embd], ORIGIN_PRESET);
    assert_int_equal(o.n_layer, 3);
    assert_int_equal(o.origin[OPT_n_layer], ORIGIN_FILE);
    assert_true(o.dropout == 0.3);
    assert_int_equal(o.seed, 9);
    assert_int_equal(o.origin[OPT_seed], ORIGIN_FLAG);
    assert_int_equal(o.origin[OPT_beta1], ORIGIN_DEFAULT);
    options_free(&o);

    // A preset named by a flag replaces the file's, and still lies below the file's own lines.
    snprintf(line, sizeof line, "%s|--data=d|--run=r|--preset=gpt2-xl|--n_head=32", path);
    parse_ok(&o, C_TRAIN, line);
    assert_int_equal(o.n_embd, 1600);
    assert_int_equal(o.n_layer, 3);
    options_free(&o);
}

static void flags_of_every_spelling(void **state)
{
    (void)state;
    Options o;
    parse_ok(&o, C_TRAIN,
             "--data=d|--run=r|--recompute|--no-bias|--learning_rate=1e-3|--cpu.isa=avx2|"
             "--ops.matmul=ref|--ops.adamw=ref|--ops.matmul=avx2|--data.document_mask=Yes|"
             "--init_from=");
    assert_true(o.recompute);
    assert_false(o.bias);
    assert_true(o.learning_rate == 1e-3);
    assert_string_equal(o.cpu_isa, "avx2");
    assert_true(o.data_document_mask);
    assert_string_equal(o.init_from, "");
    assert_int_equal(o.n_ops, 2);
    assert_string_equal(o.ops[0].name, "matmul");
    assert_string_equal(o.ops[0].impl, "avx2");
    options_free(&o);

    parse_ok(&o, C_TOKENIZER, "encode|--tokenizer=t|-|--|--odd");
    assert_int_equal(o.n_args, 3);
    assert_string_equal(o.args[1], "-");
    assert_string_equal(o.args[2], "--odd");
    options_free(&o);
}

static void bad_command_lines_say_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        OptionCommand cmd;
        const char   *line;
        const char   *text[3]; // each must be in the report
    } cases[] = {
        {C_TRAIN, "--data=d|--run=r|--n_layr=4", {"--n_layr", "nearest: n_layer"}},
        {C_TRAIN, "--data=d|--run=r|--lr=1", {"nearest: learning_rate"}},
        {C_TRAIN, "--data=d|--run=r|--max_iters=1", {"nearest: max_steps"}},
        {C_TRAIN, "--data=d|--run=r|--zzzzzzzz=1", {"no option is called 'zzzzzzzz'", "--help"}},
        {C_TRAIN, "--data=d|--run=r|--top_k=4", {"option of generate, not of train"}},
        {C_TRAIN, "--data=d|--run=r|--n_layer", {"needs a value: --n_layer=NUMBER"}},
        {C_TRAIN, "--data=d|--run=r|--n_layer=", {"is not a whole number"}},
        {C_TRAIN, "--data=d|--run=r|--n_layer=4k", {"'4k' is not a whole number"}},
        {C_TRAIN, "--data=d|--run=r|--n_layer= 4", {"is not a whole number"}},
        {C_TRAIN, "--data=d|--run=r|--n_layer=4.0", {"is not a whole number"}},
        {C_TRAIN, "--data=d|--run=r|--n_layer=-1", {"-1 is not in the range 1 to 4095"}},
        {C_TRAIN, "--data=d|--run=r|--seed=99999999999999999999", {"not in the range"}},
        {C_TRAIN, "--data=d|--run=r|--learning_rate=nan", {"not a finite decimal number"}},
        {C_TRAIN, "--data=d|--run=r|--learning_rate=inf", {"not a finite decimal number"}},
        {C_TRAIN, "--data=d|--run=r|--learning_rate=0x1p3", {"not a finite decimal number"}},
        {C_TRAIN, "--data=d|--run=r|--learning_rate=1e999", {"not in the range 0 to 100"}},
        {C_TRAIN, "--data=d|--run=r|--learning_rate=1e-3x", {"not a finite decimal number"}},
        {C_TRAIN, "--data=d|--run=r|--dropout=1", {"1 is not in the range 0 to 0.999"}},
        {C_TRAIN, "--data=d|--run=r|--bias=maybe", {"'maybe' is not true or false"}},
        {C_TRAIN, "--data=d|--run=r|--schedule=cos", {"one of: cosine linear constant wsd"}},
        {C_TRAIN, "--data=d|--run=r|--schedule=", {"one of: cosine"}},
        {C_TRAIN, "--data=d|--run=r|--preset=gtp2", {"no preset 'gtp2'; nearest: gpt2"}},
        {C_TRAIN, "--data=d|--run=r|--preset=llama", {"there are: gpt2, gpt2-medium"}},
        {C_TRAIN, "--data=d|--run=r|--ops.matmul", {"--ops.NAME=IMPLEMENTATION"}},
        {C_TRAIN, "--data=d|--run=r|-n=4", {"'-n=4': options are written --name=value"}},
        {C_TRAIN, "a.ini|b.ini", {"'b.ini': one config file is read, and that is a.ini"}},
        {C_TRAIN, "--n_embd=100|--n_head=3", {"n_embd 100 is not a multiple of n_head 3"}},
        {C_TRAIN, "--max_steps=10", {"--data is missing", "--run is missing"}},
        {C_TRAIN,
         "--data=d|--run=r|--batch_size=4|--block_size=8|--batch_tokens=100",
         {"batch_tokens 100 is not a multiple", "4 x 8 = 32"}},
        {C_TRAIN, "--data=d|--run=r|--min_lr=0.1|--learning_rate=0.01", {"min_lr 0.1 is above"}},
        {C_TRAIN,
         "--data=d|--run=r|--warmup_steps=11|--max_steps=10",
         {"warmup_steps 11 is above"}},
        {C_TRAIN, "--data=d|--run=r|--schedule=constant|--decay_steps=10", {"has no meaning"}},
        {C_TRAIN, "--data=d|--run=r|--poly_power=2", {"no meaning for schedule=cosine"}},
        {C_TRAIN, "--data=d|--run=r|--optimizer=adam", {"one of: adamw lamb"}},
        {C_TRAIN,
         "--data=d|--run=r|--schedule=wsd|--decay_steps=80|--warmup_steps=30|"
         "--max_steps=100",
         {"warmup_steps 30 + decay_steps 80"}},
        {C_TRAIN, "--data=d|--run=r|--warmup_steps=30|--decay_steps=20", {"is below"}},
        {C_TRAIN, "--data=d|--run=r|--save_interval=0|--keep_every=5", {"saves nothing"}},
        {C_TRAIN, "--data=d|--run=r|--batch_size=1000000|--block_size=16000000", {"at most"}},
        {C_PLAN,
         "--n_layer=4095|--n_embd=1048576|--n_head=1024|--vocab_size=1073741824|"
         "--block_size=16777216",
         {"more bytes than 64 bits can count"}},
        {C_PLAN, "--learning_rate=1", {"option of train, not of plan"}},
        {C_GENERATE, "--model=m|stray", {"'stray': unexpected word"}},
        {C_GENERATE, "--prompt=x", {"--model is missing"}},
        {C_GENERATE, "--model=m|--prompt=x|--prompt_file=y", {"give one"}},
        {C_EVAL, "--model=m", {"nothing to evaluate on"}},
        {C_TOKENIZER, "", {"say lathe tokenizer train, encode or decode"}},
        {C_TOKENIZER, "enocde", {"'enocde' is unknown"}},
        {C_TOKENIZER, "train|--out=o", {"--input is missing"}},
        {C_TOKENIZER, "decode", {"--tokenizer is missing"}},
        {C_DATA, "--input=x|--out=o", {"--tokenizer is missing"}},
        {C_CONVERT, "--from=a", {"--to is missing"}},
        {C_INSPECT, "", {"nothing to look at"}},
    };
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        Options      o;
        Err          err;
        const Status s = parse(&o, cases[i].cmd, cases[i].line, &err);
        if (strncmp(cases[i].line, "a.ini", 5) == 0) {
            // The file does not exist, which is told first.
            assert_int_equal(s, ERR_IO);
        } else {
            if (s != ERR_USAGE) fail_msg("%s\n-> accepted (%s)", cases[i].line, err_name(s));
            for (int k = 0; k < 3 && cases[i].text[k]; k++)
                if (!strstr(err.text, cases[i].text[k]))
                    fail_msg("%s\n-> %s\nlacks: %s", cases[i].line, err.text, cases[i].text[k]);
        }
        options_free(&o);
    }
}

static void all_problems_come_at_once(void **state)
{
    (void)state;
    char path[128], line[512], want[200];
    put_file("bad.ini",
             "[train]\nn_layer = 2\nn_layr = 3\njust words\nn_head = x\nseed = \"7\nmin_lr=2\n",
             path);
    snprintf(line, sizeof line, "%s|--data=d|--learning_rate=1|--top_p=0.5|stray.ini", path);
    Options o;
    Err     err;
    assert_int_equal(parse(&o, C_TRAIN, line, &err), ERR_USAGE);
    const char *const found[] = {
        ":1: sections are not used",        ":3: no option is called 'n_layr'",
        ":4: a line is `key = value`",      ":5: n_head: 'x' is not a whole",
        ":6: the closing quote is missing", "--top_p: 'top_p' is an option",
        "'stray.ini': one config file",     "--run is missing",
        "min_lr 2 is above learning_rate 1"};
    for (size_t i = 0; i < LT_COUNT(found); i++) {
        if (found[i][0] == ':')
            snprintf(want, sizeof want, "%s%s", path, found[i]);
        else
            snprintf(want, sizeof want, "%s", found[i]);
        if (!strstr(err.text, want)) fail_msg("lacks: %s\nin:\n%s", want, err.text);
    }
    // n_head was refused: no rule may complain about it on top.
    assert_null(strstr(err.text, "multiple of n_head"));
    options_free(&o);
}

static void more_problems_than_fit_are_counted(void **state)
{
    (void)state;
    Buf  text = {0};
    char path[128], line[512];
    for (int i = 0; i < 500; i++)
        assert_int_equal(buf_printf(&text, NULL, "qqqqqqqqqq%d = 1\n", i), ERR_NONE);
    put_file("many.ini", text.data, path);
    buf_free(&text);
    snprintf(line, sizeof line, "%s|--data=d|--run=r", path);
    Options o;
    Err     err;
    assert_int_equal(parse(&o, C_TRAIN, line, &err), ERR_USAGE);
    const char *more = strstr(err.text, "\n(and ");
    assert_non_null(more);
    int lines = 0;
    for (const char *c = err.text; c < more; c++) lines += *c == '\n';
    assert_int_equal(lines + 1 + atoi(more + 6), 500);
    options_free(&o);
}

static void config_file_syntax(void **state)
{
    (void)state;
    static const struct {
        const char *text, *data; // data NULL: refused
    } cases[] = {
        {"data = a", "a"},
        {"data=a", "a"},
        {"\t data\t=\ta b\t \r\n", "a b"},
        {"\xEF\xBB\xBF" "data = bom\r\n", "bom"},
        {"data = a#b", "a#b"},
        {"data = a #b", "a"},
        {"data = # nothing", ""},
        {"data =# nothing", "# nothing"},
        {"data =", ""},
        {"data = \"a # b\" # c", "a # b"},
        {"data = \" \\\"q\\\" \\\\ \\n\\t\"", " \"q\" \\ \n\t"},
        {"data = a=b", "a=b"},
        {"data = one\ndata = two", "two"},
        {"data = \"a\" b", NULL},
        {"data = \"a\\x\"", NULL},
        {"data", NULL},
        {"= a", NULL},
        {"da ta = a", NULL},
        {"[data]", NULL},
    };
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        char path[128], line[256];
        put_file("syntax.ini", cases[i].text, path);
        snprintf(line, sizeof line, "%s|--run=r", path);
        Options      o;
        Err          err;
        const Status s = parse(&o, C_TRAIN, line, &err);
        if (!cases[i].data) {
            if (s != ERR_USAGE) fail_msg("accepted: %s", cases[i].text);
        } else if (!cases[i].data[0]) {
            assert_string_equal(o.data, "");
        } else {
            if (s != ERR_NONE) fail_msg("%s\n-> %s", cases[i].text, err.text);
            assert_string_equal(o.data, cases[i].data);
        }
        options_free(&o);
    }
}

static void odd_files_are_errors_that_name_them(void **state)
{
    (void)state;
    char    path[128], line[256];
    Options o;
    Err     err;
    assert_int_equal(parse(&o, C_TRAIN, "/nonexistent/x.ini|--run=r", &err), ERR_IO);
    assert_non_null(strstr(err.text, "/nonexistent/x.ini"));
    options_free(&o);
    snprintf(line, sizeof line, "%s|--run=r", folder);
    assert_int_equal(parse(&o, C_TRAIN, line, &err), ERR_IO);
    options_free(&o);
    snprintf(path, sizeof path, "%s/zero.ini", folder);
    assert_int_equal(file_replace(path, "data=\0x", 7, NULL), ERR_NONE);
    snprintf(line, sizeof line, "%s|--run=r", path);
    assert_int_equal(parse(&o, C_TRAIN, line, &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "zero byte"));
    options_free(&o);
    put_file("empty.ini", "", path);
    snprintf(line, sizeof line, "%s/empty.ini|--run=r|--data=d", folder);
    parse_ok(&o, C_TRAIN, line);
    options_free(&o);
}

static void plan_reads_a_training_config(void **state)
{
    (void)state;
    char path[128];
    put_file("t.ini", "n_layer = 5\nlearning_rate = 1e-3\ndata = d\nrun = r\n", path);
    Options o;
    parse_ok(&o, C_PLAN, path);
    assert_int_equal(o.n_layer, 5);
    options_free(&o);
    Err err;
    put_file("t.ini", "top_k = 5\n", path);
    assert_int_equal(parse(&o, C_PLAN, path, &err), ERR_USAGE);
    options_free(&o);
}

static void a_shortened_run_may_end_within_its_warmup(void **state)
{
    (void)state;
    Options o;
    parse_ok(&o, C_TRAIN, "--data=d|--run=r|--preset=shakespeare-char-cpu|--max_steps=20");
    assert_int_equal(o.warmup_steps, 100);
    options_free(&o);
}

// Every option away from its default, with values that need care.
static void set_everything(Options *o)
{
    char value[64];
    for (int id = 0; id < OPT_COUNT; id++) {
        const OptionRow *row = &option_rows[id];
        switch (row->kind) {
        case OPTION_I64: snprintf(value, sizeof value, "%lld", (long long)row->i.max); break;
        case OPTION_F64:
            snprintf(value, sizeof value, "%.17g", row->f.min + (row->f.max - row->f.min) / 3);
            break;
        case OPTION_BOOL: snprintf(value, sizeof value, "%d", !row->i.def); break;
        case OPTION_STR:
            if (row->words[0])
                snprintf(value, sizeof value, "%s", strrchr(row->words, ' ') + 1);
            else
                snprintf(value, sizeof value, " %d # \"q\" \\n\n\t= ", id);
            break;
        }
        Err err;
        if (options_set(o, row->name, value, ORIGIN_FLAG, &err) != ERR_NONE)
            fail_msg("%s", err.text);
    }
}

static void resolved_config_reads_back_to_the_same_bits(void **state)
{
    (void)state;
    char path[128];
    for (int full = 0; full < 2; full++) {
        Options o, back;
        Buf     text = {0}, told = {0};
        Err     err;
        options_init(&o);
        options_init(&back);
        if (full) set_everything(&o);
        o.n_head = o.n_embd = 64; // so that the rules hold
        o.batch_size = o.block_size = 4;
        o.n_layer = o.head_rows = 2;
        o.vocab_size = o.n_inner = 100;
        o.batch_tokens              = 32;
        o.learning_rate             = 100;
        o.warmup_steps = o.decay_steps = 0;
        if (!full) {
            assert_int_equal(options_set(&o, "data", "d", ORIGIN_FLAG, NULL), ERR_NONE);
            assert_int_equal(options_set(&o, "run", "r", ORIGIN_FLAG, NULL), ERR_NONE);
        }
        assert_int_equal(options_set(&o, "ops.matmul", "ref", ORIGIN_FLAG, NULL), ERR_NONE);
        assert_int_equal(options_text(&o, C_TRAIN, &text, NULL), ERR_NONE);
        put_file("resolved.ini", text.data, path);
        assert_int_equal(options_set(&back, "run", "r", ORIGIN_FLAG, NULL), ERR_NONE);
        if (options_resume(&back, path, &told, &err) != ERR_NONE) fail_msg("%s", err.text);
        assert_int_equal(told.len, 0);
        for (int id = 0; id < OPT_COUNT; id++) {
            const OptionRow *row = &option_rows[id];
            if (!(row->commands & C_TRAIN) || row->resume == OPTION_NA) continue;
            if (!option_equal(&o, &back, id)) fail_msg("%s did not come back", row->name);
            assert_int_equal(back.origin[id], ORIGIN_RUN);
        }
        assert_int_equal(back.n_ops, 1);
        buf_free(&text);
        buf_free(&told);
        options_free(&o);
        options_free(&back);
    }
}

static void resume_keeps_tells_and_refuses(void **state)
{
    (void)state;
    static const char run[] = "n_layer = 6\nn_embd = 48\nn_head = 4\nseed = 7\nmax_steps = 100\n"
                              "data = somewhere/x\nbatch_size = 8\nblock_size = 16\n"
                              "learning_rate = 1e-3\nprecision = bf16\ncpu.isa = avx2\n"
                              "ops.matmul = ref\n";
    static const struct {
        const char *line;
        Status      status;
        const char *text[3]; // in the error, or told
    } cases[] = {
        {"--run=R", ERR_NONE, {NULL}},
        {"--run=R|--data=somewhere/x/", ERR_NONE, {NULL}},
        {"--run=R|--max_steps=200|--learning_rate=0.002", ERR_NONE,
         {"max_steps: 100 -> 200", "learning_rate: 0.001 -> 0.002"}},
        {"--run=R|--n_layer=6", ERR_NONE, {NULL}},
        {"--run=R|--precision=auto|--cpu.isa=auto", ERR_NONE, {NULL}},
        {"--run=R|--cpu.isa=avx512", ERR_NONE, {"cpu.isa: avx2 -> avx512"}},
        {"--run=R|--batch_size=4", ERR_NONE, {"batch_size: 8 -> 4"}},
        {"--run=R|--ops.matmul=avx2", ERR_NONE, {"ops.matmul: ref -> avx2"}},
        {"--run=R|--preset=gpt2", ERR_USAGE, {"preset", "'gpt2'"}},
        {"--run=R|--n_layer=4|--seed=8", ERR_USAGE,
         {"n_layer cannot change", "the run has '6', the flag says '4'", "seed cannot change"}},
        {"--run=R|--data=other", ERR_USAGE, {"'somewhere/x'", "'other'"}},
        {"--run=R|--precision=fp32", ERR_USAGE, {"'bf16'", "'fp32'"}},
        {"--run=R|--batch_tokens=256", ERR_USAGE, {"'128'", "'256'"}},
        {"--run=R|--batch_size=3", ERR_USAGE, {"batch_tokens 128 is not a multiple"}},
    };
    char path[128], config[160], line[512];
    for (size_t i = 0; i < LT_COUNT(cases); i++) {
        snprintf(path, sizeof path, "%s/run", folder);
        assert_int_equal(file_mkdirs(path, NULL), ERR_NONE);
        snprintf(config, sizeof config, "%s/config.ini", path);
        assert_int_equal(file_replace(config, run, strlen(run), NULL), ERR_NONE);
        snprintf(line, sizeof line, "--run=%s%s", path, cases[i].line + strlen("--run=R"));
        Options o;
        Err     err;
        Buf     told = {0};
        parse_ok(&o, C_TRAIN, line); // the run brings --data: no complaint yet
        const Status s = options_resume(&o, config, &told, &err);
        if (s != cases[i].status) fail_msg("%s\n-> %s: %s", cases[i].line, err_name(s), err.text);
        const char *const text = s == ERR_NONE ? (told.data ? told.data : "") : err.text;
        for (int k = 0; k < 3 && cases[i].text[k]; k++)
            if (!strstr(text, cases[i].text[k]))
                fail_msg("%s\n-> %s\nlacks: %s", cases[i].line, text, cases[i].text[k]);
        if (s == ERR_NONE && !cases[i].text[0]) assert_string_equal(text, "");
        if (s == ERR_NONE) {
            assert_int_equal(o.n_layer, 6);
            assert_int_equal(o.batch_tokens, 128);
            assert_string_equal(o.precision, "bf16");
        }
        buf_free(&told);
        options_free(&o);
    }
}

// What is not part of a run is not kept with it, nor taken from a file that an older version wrote.
static void options_of_one_command_do_not_stay_with_a_run(void **state)
{
    (void)state;
    char    path[128];
    Options o, back;
    Buf     text = {0}, told = {0};
    Err     err;
    parse_ok(&o, C_TRAIN, "--data=d|--run=r|--max_seconds=7");
    assert_int_equal(options_text(&o, C_TRAIN, &text, NULL), ERR_NONE);
    assert_non_null(strstr(text.data, "max_steps = "));
    assert_null(strstr(text.data, "max_seconds"));
    assert_null(strstr(text.data, "run = "));
    assert_null(strstr(text.data, "resume = "));
    assert_int_equal(buf_puts(&text, "max_seconds = 3\nrun = x\nresume = /gone\n", NULL), ERR_NONE);
    put_file("config.ini", text.data, path);
    for (int given = 0; given < 2; given++) {
        parse_ok(&back, C_TRAIN, given ? "--data=d|--run=r|--max_seconds=5" : "--data=d|--run=r");
        if (options_resume(&back, path, &told, &err) != ERR_NONE) fail_msg("%s", err.text);
        assert_int_equal(told.len, 0);
        assert_true(back.max_seconds == (given ? 5 : 0));
        assert_string_equal(back.run, "r");
        assert_string_equal(back.resume, "auto");
        options_free(&back);
    }
    options_free(&o);
    buf_free(&text);
    buf_free(&told);
}

static void a_damaged_run_config_is_a_format_error(void **state)
{
    (void)state;
    char    path[128];
    Options o;
    Err     err;
    Buf     told = {0};
    put_file("config.ini", "n_layer = 6\nn_layer\nfrom_the_future = 1\n", path);
    options_init(&o);
    assert_int_equal(options_resume(&o, path, &told, &err), ERR_FORMAT);
    assert_non_null(strstr(err.text, ":2: "));
    assert_non_null(strstr(err.text, "from_the_future"));
    options_free(&o);
    buf_free(&told);
}

static void presets_apply_and_are_listed(void **state)
{
    (void)state;
    const OptionRow *row = &option_rows[OPT_preset];
    for (int i = 0; i < preset_count(); i++) {
        const Preset *p = preset_at(i);
        char          line[128];
        Options       o;
        snprintf(line, sizeof line, "--data=d|--run=r|--preset=%s", p->name);
        parse_ok(&o, C_TRAIN, line);
        assert_string_equal(o.preset, p->name);
        assert_int_equal(o.origin[OPT_n_embd], ORIGIN_PRESET);
        if (!strstr(row->help, p->name)) fail_msg("%s is not in the option's help", p->name);
        options_free(&o);
    }
    assert_null(preset_find("gpt"));
    assert_null(preset_find(""));
}

static void nearest_names(void **state)
{
    (void)state;
    assert_int_equal(near_distance("", "abc"), 3);
    assert_int_equal(near_distance("abc", "abc"), 0);
    assert_int_equal(near_distance("abcd", "acbd"), 1);
    assert_int_equal(near_distance("kitten", "sitting"), 3);
    NearName n = {0};
    near_offer(&n, "trian", "train");
    near_offer(&n, "trian", "plan");
    assert_string_equal(n.best, "train");
    NearName none = {0};
    near_offer(&none, "xyz", "train");
    assert_null(none.best);
}

static void help_shows_the_options_of_a_command(void **state)
{
    (void)state;
    Buf out = {0};
    assert_int_equal(options_help(C_GENERATE, &out, NULL), ERR_NONE);
    assert_non_null(strstr(out.data, "--temperature=X"));
    assert_non_null(strstr(out.data, "--stop_at_end=BOOL"));
    assert_non_null(strstr(out.data, "BOOL is true, yes, on or 1, or false, no, off or 0"));
    assert_null(strstr(out.data, "n_layer"));
    int column = 0;
    for (const char *c = out.data; *c; c++) {
        column = *c == '\n' ? 0 : column + 1;
        if (column > 100) fail_msg("a line of --help is longer than 100 columns");
    }
    buf_free(&out);
}

static void options_page_is_up_to_date(void **state)
{
    (void)state;
    const char *source = getenv("LATHE_SOURCE_DIR");
    if (!source) skip();
    char path[PATH_CAP];
    Buf  want = {0}, got = {0};
    assert_int_equal(path_join(path, source, "engine/config/OPTIONS.md", NULL), ERR_NONE);
    assert_int_equal(options_markdown(&want, NULL), ERR_NONE);
    assert_int_equal(file_read(path, &got, NULL), ERR_NONE);
    if (got.len != want.len || memcmp(got.data, want.data, got.len) != 0)
        fail_msg("stale; run: build/lathe options > engine/config/OPTIONS.md");
    buf_free(&want);
    buf_free(&got);
}

static void shipped_configs_parse(void **state)
{
    (void)state;
    const char *source = getenv("LATHE_SOURCE_DIR");
    if (!source) skip();
    char     path[PATH_CAP], file[PATH_CAP], line[PATH_CAP + 32];
    FileList list;
    assert_int_equal(path_join(path, source, "scripts/configs", NULL), ERR_NONE);
    assert_int_equal(file_list(path, &list, NULL), ERR_NONE);
    assert_true(list.n > 0);
    for (int i = 0; i < list.n; i++) {
        Options o;
        Err     err;
        assert_int_equal(path_join(file, path, list.name[i], NULL), ERR_NONE);
        snprintf(line, sizeof line, "%s|--data=d|--run=r", file);
        if (parse(&o, C_TRAIN, line, &err) != ERR_NONE) fail_msg("%s", err.text);
        options_free(&o);
    }
    file_list_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_table),
        cmocka_unit_test(later_and_closer_wins),
        cmocka_unit_test(flags_of_every_spelling),
        cmocka_unit_test(bad_command_lines_say_what_is_wrong),
        cmocka_unit_test(all_problems_come_at_once),
        cmocka_unit_test(more_problems_than_fit_are_counted),
        cmocka_unit_test(config_file_syntax),
        cmocka_unit_test(odd_files_are_errors_that_name_them),
        cmocka_unit_test(plan_reads_a_training_config),
        cmocka_unit_test(a_shortened_run_may_end_within_its_warmup),
        cmocka_unit_test(resolved_config_reads_back_to_the_same_bits),
        cmocka_unit_test(resume_keeps_tells_and_refuses),
        cmocka_unit_test(options_of_one_command_do_not_stay_with_a_run),
        cmocka_unit_test(a_damaged_run_config_is_a_format_error),
        cmocka_unit_test(presets_apply_and_are_listed),
        cmocka_unit_test(nearest_names),
        cmocka_unit_test(help_shows_the_options_of_a_command),
        cmocka_unit_test(options_page_is_up_to_date),
        cmocka_unit_test(shipped_configs_parse),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
