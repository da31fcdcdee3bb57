// std_streams.c -- see std_streams.h.
//
// SPDX-License-Identifier: MIT
#include "engine/base/std_streams.h"

#include <fcntl.h>
#include <unistd.h>

void std_streams_hold(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) != -1) continue;
        // open() takes the lowest free number: this one. The direction is the wrong one on purpose.
        if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) return;
    }
}
