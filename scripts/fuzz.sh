#!/bin/sh
# fuzz.sh -- looks for inputs that break a parser: the targets of tests/fuzz under libFuzzer.
#
#   scripts/fuzz.sh TARGET... | --all [--seconds=N] [--build=DIR]
#
# Builds with clang, AddressSanitizer and UndefinedBehaviorSanitizer into DIR (build-fuzz), runs each
# target for N seconds (20 minutes for safetensors and tokenizer_json, 5 for each other), and ends
# with a line a target. A run goes on from what the runs before it found (DIR/corpus), so a long one
# can be done in pieces; executions and seconds add up in DIR/fuzz-stats. What breaks a target lies
# in DIR/findings until it is removed. Exit code 0: no target broke; 1: one did; 77: no clang.
#
# SPDX-License-Identifier: MIT
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
usage() { sed -n '2,12s/^# \{0,1\}//p' scripts/fuzz.sh; }

targets=
all=no
seconds=
build=$root/build-fuzz
known=$(ls tests/fuzz/corpus)
for arg in "$@"; do
    case $arg in
    --all) all=yes ;;
    --seconds=*) seconds=${arg#*=} ;;
    --build=*) build=${arg#*=} ;;
    --help | -h)
        usage
        exit 0
        ;;
    *)
        if ! [ -d "tests/fuzz/corpus/$arg" ]; then
            echo "fuzz.sh: no target or option is called '$arg'; targets:" $known >&2
            exit 2
        fi
        targets="$targets $arg"
        ;;
    esac
done
[ "$all" = no ] || targets=$known
if [ -z "$targets" ]; then
    usage >&2
    exit 2
fi
if ! command -v clang > /dev/null; then
    echo "SKIP: clang is not installed; it brings libFuzzer (package clang)"
    exit 77
fi

mkdir -p "$build/corpus" "$build/findings" "$build/fuzz-stats"
if ! { cmake --preset fuzz -B "$build" && cmake --build "$build" --target fuzz; } \
    > "$build/build.log" 2>&1; then
    cat "$build/build.log"
    exit 1
fi

limit_of() {
    case $1 in
    safetensors | tokenizer_json) echo 1200 ;;
    *) echo 300 ;;
    esac
}

stat_of() { sed -n "s/^stat::$1: *//p" "$log" | tail -1; }

# run TARGET SECONDS: one line for the results, the whole output where it broke.
run() {
    name=$1
    own=$build/corpus/$name
    log=$build/fuzz-stats/$name.log
    sum=$build/fuzz-stats/$name
    mkdir -p "$own"
    dict=tests/fuzz/dict/$name.dict
    [ -f "$dict" ] && dict=-dict=$dict || dict=
    ASAN_OPTIONS=quarantine_size_mb=16 UBSAN_OPTIONS=print_stacktrace=1 \
        "$build/tests/fuzz/fuzz_$name" "$own" "tests/fuzz/corpus/$name" $dict \
        -max_total_time="$2" -max_len=8192 -timeout=5 -rss_limit_mb=2048 -malloc_limit_mb=1024 \
        -artifact_prefix="$build/findings/$name-" -print_final_stats=1 > "$log" 2>&1 ||
        tail -40 "$log"
    echo "$(stat_of number_of_executed_units) $2 $(stat_of new_units_added)" >> "$sum"
    found=$(find "$build/findings" -name "$name-*" | wc -l)
    awk -v name="$name" -v rss="$(stat_of peak_rss_mb)" -v found="$found" \
        '{ n += $1; s += $2; new += $3 }
         END { printf "%-15s %11d executions in %5d s, %5d new inputs, peak %4s MB, %d findings\n",
                      name, n, s, new, rss, found }' "$sum" >> "$results"
    [ "$found" = 0 ]
}

results=$(mktemp)
trap 'rm -f "$results"' EXIT
broke=no
for t in $targets; do
    run "$t" "${seconds:-$(limit_of "$t")}" || broke=yes
done
cat "$results"
[ "$broke" = no ]
