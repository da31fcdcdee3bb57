#!/bin/sh
# nvcc_logged.sh LOG nvcc ARGUMENTS... -- runs nvcc and keeps all that it and ptxas say in LOG.
#
# ptxas tells registers and spills of each kernel (-Xptxas=-v), too much for a build's output; but
# warnings, errors, and the notices that it serialises wgmma (C75xx) are shown.
# scripts/check_sass reads the log.
#
# SPDX-License-Identifier: MIT
log=$1
shift
"$@" > "$log" 2>&1
code=$?
if [ $code != 0 ]; then
    cat "$log" >&2
else
    grep -v -e '^ptxas info *: [^(]' -e 'bytes stack frame' -e '^$' "$log" >&2
fi
exit $code
