#!/bin/sh
# quickstart.sh -- from a fresh clone to a trained GPT and its first words, in a few minutes.
#
#   scripts/quickstart.sh          trains on the King James Bible (Debian package bible-kjv)
#   scripts/quickstart.sh FILE     trains on your own text (plain text, a megabyte or more)
#
# Packages, build, a BPE tokenizer of 4,096 tokens, token shards, training of a small GPT
# (scripts/configs/quickstart.ini), a sample. Everything is made below build/, data/ and runs/. Run it
# again and it goes on where it stopped; delete runs/quickstart* to train again.
#
# SPDX-License-Identifier: MIT
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
text=
usage() { sed -n '2,9s/^# \{0,1\}//p' "$0"; }
case ${1:-} in
--help | -h)
    usage
    exit 0
    ;;
esac
if [ $# -gt 1 ]; then
    usage >&2
    exit 2
fi
if [ $# = 1 ]; then
    if [ ! -f "$1" ] || [ ! -r "$1" ] || [ ! -s "$1" ]; then
        echo "quickstart.sh: $1 is no readable text file" >&2
        exit 2
    fi
    text=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
fi
cd "$root"
for folder in "$root" "$root/build" "$root/data" "$root/runs"; do
    if [ -e "$folder" ] && { [ ! -d "$folder" ] || [ ! -w "$folder" ]; }; then
        echo "quickstart.sh: $folder is not a folder that you may write to; nothing was done" >&2
        exit 1
    fi
done
began=$(date +%s)

say() { printf '\n== %s\n' "$*"; }

say "packages"
scripts/setup.sh --build

say "build"
printf 'building build/lathe ... '
mkdir -p build
start=$(date +%s)
if ! { cmake --preset release -DLATHE_TESTS=OFF && cmake --build build --target lathe; } \
    > build/quickstart.log 2>&1; then
    echo "failed:"
    cat build/quickstart.log >&2
    exit 1
fi
echo "$(($(date +%s) - start)) s"
lathe=$root/build/lathe
"$lathe" --version

name=quickstart
if [ -n "$text" ]; then name=quickstart-$(cksum < "$text" | cut -d' ' -f1); fi
data=data/$name
run=runs/$name
new=$data.new

if [ ! -d "$data" ]; then
    rm -rf "$new"
    mkdir -p "$new"
    if [ -z "$text" ]; then
        if ! command -v bible > /dev/null; then
            echo "quickstart.sh: no 'bible' program (Debian package bible-kjv); give a text file:" >&2
            echo "    scripts/quickstart.sh FILE" >&2
            exit 1
        fi
        # A verse a line, each behind its reference ("Ge1:1 "), which is cut off.
        bible -f gen1:1-rev22:21 | sed 's/^[^ ]* //' > "$new/text.txt"
        text=$new/text.txt
    fi
    say "tokenizer: 4,096 tokens from $(wc -c < "$text") bytes"
    "$lathe" tokenizer train --input="$text" --type=bpe --vocab_size=4096 --out="$new/tokenizer"
    say "data: text to token shards"
    "$lathe" data --input="$text" --tokenizer="$new/tokenizer" --out="$new/shards"
    mv "$new" "$data"
fi

say "train"
"$lathe" train scripts/configs/quickstart.ini --data="$data/shards" --run="$run"

say "sample"
"$lathe" generate --model="$run" --prompt="And it came to pass" --max_new_tokens=120 \
    --temperature=0.8 --seed=1

took=$(($(date +%s) - began))
say "done in $((took / 60)) min $((took % 60)) s"
echo "The run is in $run: config.ini, metrics.jsonl, checkpoints/. Next:"
echo "  build/lathe generate --model=$run --prompt=\"In the beginning\""
echo "  build/lathe eval     --model=$run --data=$data/shards"
echo "  build/lathe train    --help"
