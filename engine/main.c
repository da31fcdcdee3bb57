// main.c -- the program: hands argv to the command line, prints its error, returns the exit code.
//
// SPDX-License-Identifier: MIT
#include "engine/cli/cli.h"

int main(int argc, char **argv) { return cli_main(argc, argv); }
