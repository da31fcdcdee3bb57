// cli.c -- see cli.h.
//
// SPDX-License-Identifier: MIT
#include "engine/cli/cli.h"
#include "engine/base/log.h"
#include "engine/base/stop.h"
#include "engine/base/thread.h"
#include "engine/config/near_name.h"
#include "engine/config/options.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cuda/cuda_open.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct Command {
    const char *name;
    OptionCommand bit;
    bool speaks; // its result is what it writes on stdout: a lost byte is a failure
    const char *about;
    const char *usage; // one or more lines, each "  lathe ..."
} Command;

static const Command commands[] = {
    {"tokenizer", C_TOKENIZER, true, "train a tokenizer; text to token ids and back",
     "  lathe tokenizer train  --input=FILE|DIR --type=bpe|wordpiece|char --vocab_size=4096 "
     "--out=DIR\n"
     "  lathe tokenizer encode --tokenizer=DIR|FILE [FILE ...]\n"
     "  lathe tokenizer decode --tokenizer=DIR|FILE [FILE ...]\n"},
    {"data", C_DATA, false, "text to token shards",
     "  lathe data --input=FILE|DIR|- --tokenizer=DIR|FILE --out=DIR [--val_fraction=0.05]\n"},
    {"train", C_TRAIN, false, "train a model, or go on with a run",
     "  lathe train [CONFIG.ini] --data=DIR --run=DIR [--preset=NAME] [--init_from=DIR]\n"
     "              [--name=value ...]\n"
     "  lathe train --task=classify|tag|qa --init_from=DIR --data.train=FILE --run=DIR\n"
     "              [--data.val=FILE] [--name=value ...]\n"},
    {"generate", C_GENERATE, true, "continue a text",
     "  lathe generate --model=DIR --prompt=TEXT [--max_new_tokens=N] [--temperature=T]\n"},
    {"eval", C_EVAL, true, "loss, perplexity, bits per byte; multiple choice; last word",
     "  lathe eval --model=DIR --data=DIR|--text=FILE|--choices=FILE|--lastword=FILE\n"
     "  lathe eval --model=DIR --data.val=FILE\n"},
    {"predict", C_PREDICT, true, "labels, tags, answers or embeddings of texts",
     "  lathe predict --model=DIR [--embed=mean|cls] [FILE]\n"},
    {"inspect", C_INSPECT, true, "what is in a checkpoint, shard or tokenizer",
     "  lathe inspect PATH [--verify]\n"},
    {"plan", C_PLAN, true, "parameters, memory and FLOPs of a training, before it is started",
     "  lathe plan [CONFIG.ini] [--preset=NAME] [--name=value ...]\n"},
    {"convert", C_CONVERT, true, "a model folder with another element type, split, head or padding",
     "  lathe convert --from=DIR --to=DIR [--dtype=bf16] [--max_shard_mb=N] [--tie=true|false]\n"},
    {"bench", C_BENCH, true, "time the ops on this machine",
     "  lathe bench [OP] [--shape=NAME] [--json]\n"},
    {"ops", C_OPS, true, "the op table: which implementation each op would use here",
     "  lathe ops [OP] [--cpu.isa=NAME] [--ops.NAME=IMPL]\n"},
};

static Status run_command(OptionCommand bit, Options *o, Err *err)
{
    switch (bit) {
    case C_TOKENIZER: return cmd_tokenizer(o, err);
    case C_DATA: return cmd_data(o, err);
    case C_TRAIN: return cmd_train(o, err);
    case C_GENERATE: return cmd_generate(o, err);
    case C_EVAL: return cmd_eval(o, err);
    case C_INSPECT: return cmd_inspect(o, err);
    case C_PLAN: return cmd_plan(o, err);
    case C_CONVERT: return cmd_convert(o, err);
    case C_BENCH: return cmd_bench(o, err);
    case C_OPS: return cmd_ops(o, err);
    case C_PREDICT: return cmd_predict(o, err);
    }
    return err_set(err, ERR_USAGE, "no such command");
}

// Each line of the text gets the prefix, but for the indented ones ("  while ...").
static void print_error(const char *name, const Err *err)
{
    for (const char *line = err->text; *line;) {
        const int n = (int)strcspn(line, "\n");
        if (line[0] == ' ')
            fprintf(stderr, "%.*s\n", n, line);
        else
            fprintf(stderr, "lathe%s%s: %.*s\n", name[0] ? " " : "", name, n, line);
        line += n;
        line += *line == '\n';
    }
    if (err->hint[0]) fprintf(stderr, "  hint: %s\n", err->hint);
}

// Bytes that could not be written (a full disk, a closed pipe) show here at the latest.
static Status check_stdout(Err *err)
{
    const bool lost = ferror(stdout) != 0;
    if (fflush(stdout) != 0) return err_errno(err, errno, "write to standard output");
    if (lost) return err_set(err, ERR_IO, "not everything could be written to standard output");
    return ERR_NONE;
}

static Status print_usage(Buf *out, Err *err)
{
    TRY(buf_puts(out, "lathe: trains GPT and BERT models.\n\n", err));
    for (size_t i = 0; i < LT_COUNT(commands); i++)
        TRY(buf_printf(out, err, "  lathe %-10s %s\n", commands[i].name, commands[i].about));
    return buf_puts(out,
                    "\n"
                    "  lathe COMMAND --help   the command's options, defaults and bounds\n"
                    "  lathe options          the options of all commands on a page (markdown)\n"
                    "  lathe --version        version, build, devices, instruction sets\n\n"
                    "Exit codes: 0 ok, 1 runtime, 2 usage, 3 corrupt data or checkpoint,\n"
                    "4 diverged, 5 stopped by a signal or max_seconds, after a save.\n",
                    err);
}

static Status print_help(const Command *c, Buf *out, Err *err)
{
    TRY(buf_printf(out, err, "%s\n%s\n", c->about, c->usage));
    if (c->bit & (C_TRAIN | C_PLAN))
        TRY(buf_puts(out,
                     "CONFIG.ini has flat lines `name = value`. Precedence: default < preset <\n"
                     "config file < flag. A run that exists goes on; see --resume.\n\n",
                     err));
    return options_help(c->bit, out, err);
}

// " cuda:0 (NVIDIA H100, compute capability 9.0, 132 SMs, 79.6 GB)", or why there is none.
static Status print_gpus(const CudaFound *f, Buf *out, Err *err)
{
    for (int i = 0; i < f->n; i++) {
        const CudaGpu *g = &f->gpu[i];
        TRY(buf_printf(out, err, ", cuda:%d (%s, compute capability %d.%d, %d SMs, %.1f GB)%s", i,
                       g->name, g->cc / 10, g->cc % 10, g->sm_count, (double)g->bytes * 1e-9,
                       g->supported ? "" : " without kernels"));
    }
    if (f->built && f->first < 0) TRY(buf_printf(out, err, "; no GPU: %s", f->why));
    return ERR_NONE;
}

static Status print_version(Buf *out, Err *err)
{
    const char *names[8];
    const int n = cpu_list(names);
    CudaFound gpus;
    cuda_find(&gpus);
    TRY(buf_printf(out, err, "lathe %s\nbuild: %s, %s, %s%s%s\ndevices: cpu (%d CPUs)",
                   LATHE_VERSION, LATHE_BUILD, LATHE_COMPILER, LATHE_SYSTEM,
                   gpus.built ? ", CUDA " : "", gpus.toolkit, thread_cpus()));
    TRY(print_gpus(&gpus, out, err));
    char libraries[640];
    cuda_libraries(libraries, sizeof libraries);
    if (libraries[0]) TRY(buf_printf(out, err, "\nlibraries: %s", libraries));
    TRY(buf_puts(out, "\ninstruction sets:", err));
    for (int i = 0; i < n; i++) TRY(buf_printf(out, err, " %s", names[i]));
    return buf_puts(out, "\n", err);
}

static const Command *find_command(const char *name)
{
    for (size_t i = 0; i < LT_COUNT(commands); i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

static Status unknown_command(const char *name, Err *err)
{
    NearName near = {0};
    for (size_t i = 0; i < LT_COUNT(commands); i++) near_offer(&near, name, commands[i].name);
    const Status s = err_set(err, ERR_USAGE, "no command is called '%.100s'", name);
    if (near.best)
        err_hint(err, "nearest: lathe %s", near.best);
    else
        err_hint(err, "lathe --help lists the commands");
    return s;
}

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    return false;
}

// A command that writes files outlives the reader of its standard output. The others, whose result
// goes there, end with it, quietly, as Unix tools do (`lathe generate ... | head -1`).
static bool outlives_pipe(const Command *c, const Options *o)
{
    if (c->bit == C_TOKENIZER) return strcmp(o->args[0], "train") == 0;
    return (c->bit & (C_TRAIN | C_DATA | C_CONVERT)) != 0;
}

static Status command_main(const Command *c, int argc, char **argv, Err *err)
{
    Options o;
    options_init(&o);
    if (c->bit & (C_TRAIN | C_DATA)) stop_install(); // these ask, and leave nothing half done
    Status s = options_parse(&o, c->bit, argc, argv, err);
    if (s == ERR_NONE && outlives_pipe(c, &o)) stop_ignore_pipe();
    if (s == ERR_NONE) s = run_command(c->bit, &o, err);
    options_free(&o);
    if (s == ERR_NONE && c->speaks) s = check_stdout(err);
    return s;
}

// Everything that prints a page: help, version, the options page. ERR_NONE and nothing in `page`:
// not one of these.
static Status page_main(int argc, char **argv, Buf *page, Err *err)
{
    const char *word = argv[1];
    const Command *c = find_command(word);
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) return print_usage(page, err);
    if (strcmp(word, "--version") == 0) return print_version(page, err);
    if (strcmp(word, "options") == 0) return options_markdown(page, err);
    if (strcmp(word, "help") == 0) {
        if (argc == 2) return print_usage(page, err);
        c = find_command(argv[2]);
        return c ? print_help(c, page, err) : unknown_command(argv[2], err);
    }
    if (!c) return unknown_command(word, err);
    return asks_for_help(argc - 2, argv + 2) ? print_help(c, page, err) : ERR_NONE;
}

int cli_threads(const Options *o)
{
    return o->threads > 0 ? (int)o->threads : thread_cpus();
}

int cli_main(int argc, char **argv)
{
    Err err;
    Buf page = {0};
    err_clear(&err);
    stop_ignore_file_limit();
    if (argc < 2) {
        if (print_usage(&page, &err) == ERR_NONE) fputs(page.data, stderr);
        buf_free(&page);
        return err_exit_code(ERR_USAGE);
    }
    const char *name = "";
    Status s = page_main(argc, argv, &page, &err);
    if (s == ERR_NONE && page.len) {
        fwrite(page.data, 1, page.len, stdout);
        s = check_stdout(&err);
    } else if (s == ERR_NONE) {
        const Command *c = find_command(argv[1]);
        name = c->name;
        s = command_main(c, argc - 2, argv + 2, &err);
    }
    buf_free(&page);
    fflush(stdout); // what was said before the error stands before it
    if (s != ERR_NONE) print_error(name, &err);
    return err_exit_code(s);
}
