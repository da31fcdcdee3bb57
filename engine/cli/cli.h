// cli.h -- subcommands: each parses its options, does its work through the libraries, and returns a
// Status; cli_main prints the Err once and turns it into the exit code.
//
// SPDX-License-Identifier: MIT
#pragma once
#include "engine/base/err.h"
#include "engine/config/options.h"

LT_C_BEGIN
int cli_main(int argc, char **argv); // returns the exit code
int cli_threads(const Options *o);   // as the option says, or one for each CPU

// One a subcommand; o is parsed and valid.
LT_MUST_CHECK Status cmd_tokenizer(const Options *o, Err *err); // args[0]: train, encode, decode
LT_MUST_CHECK Status cmd_data(const Options *o, Err *err);
LT_MUST_CHECK Status cmd_train(Options *o, Err *err);
LT_MUST_CHECK Status cmd_generate(const Options *o, Err *err);
LT_MUST_CHECK Status cmd_eval(const Options *o, Err *err);
LT_MUST_CHECK Status cmd_predict(const Options *o, Err *err);
LT_MUST_CHECK Status cmd_inspect(const Options *o, Err *err);
LT_MUST_CHECK Status cmd_plan(const Options *o, Err *err);
LT_MUST_CHECK Status cmd_convert(const Options *o, Err *err);
LT_MUST_CHECK Status cmd_bench(const Options *o, Err *err);
LT_MUST_CHECK Status cmd_ops(const Options *o, Err *err);
LT_C_END
