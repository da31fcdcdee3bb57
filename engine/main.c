// main.c -- the program: hands argv to the command line, prints its error, returns the exit code.
//
// SPDX-License-Identifier: MIT
#include "engine/base/json_text.h"
#include "engine/base/std_streams.h"
#include "engine/cli/cli.h"
#include "engine/cli/omp_wait.h"

int main(int argc, char **argv)
{
    std_streams_hold();
    json_text_init();
    omp_wait_short(argv);
    return cli_main(argc, argv);
}
