#!/bin/sh
# test_neon.sh -- build for 64-bit Arm (NEON) and run the tests under emulation.
#
#   scripts/test_neon.sh              packages, build, unit tests, a training against this machine's
#   scripts/test_neon.sh --packages   only the packages
#   scripts/test_neon.sh --help       print this
#
# The cross compiler and qemu-user come as packages of the distribution. The arm64 builds of zlib,
# jansson and cmocka are its packages, too, but are unpacked below build-neon/ and not installed, so
# this machine's packages stay as they are. With everything there, no network is used.
# A training is compared with one by build/lathe, if there is one.
# Environment: JOBS (parallel compilers and tests; the CPUs), LATHE_NEON_BUILD (build-neon),
# LATHE_HOST_BIN (build/lathe).
# Exit code 77: something is missing and could not be had; the text says how to get it.
#
# SPDX-License-Identifier: MIT
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
tools="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static"
libraries="libjansson4 libjansson-dev libcmocka0 libcmocka-dev zlib1g zlib1g-dev"
build=${LATHE_NEON_BUILD:-$root/build-neon}
jobs=${JOBS:-$(nproc)}

only_packages=no
case ${1:-} in
"") ;;
--packages) only_packages=yes ;;
--help | -h)
    sed -n '2,14s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
*)
    echo "test_neon.sh: '$1' is no option of it" >&2
    exit 2
    ;;
esac

skip() {
    echo "SKIP: NEON is not tested: $1"
    shift
    [ $# = 0 ] || echo "  It is enabled by:"
    for line in "$@"; do echo "    $line"; done
    exit 77
}

have_tools() {
    command -v aarch64-linux-gnu-gcc > /dev/null && command -v qemu-aarch64-static > /dev/null &&
        [ -e /usr/aarch64-linux-gnu/include/stdio.h ]
}

case $(uname -m) in
aarch64 | arm64) skip "this machine is one; scripts/test.sh tests it" ;;
esac
if ! have_tools; then
    command -v apt-get > /dev/null || skip "this is not Debian or Ubuntu" \
        "installing gcc for aarch64-linux-gnu and qemu-user of your distribution"
    install="apt-get update && apt-get install -y --no-install-recommends $tools"
    sudo=
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2> /dev/null || skip "no cross compiler, and this is not root" "$install"
        sudo=sudo
    fi
    echo "test_neon.sh: installing $tools"
    # shellcheck disable=SC2086  # lists are split on purpose
    { $sudo apt-get -q update && $sudo env DEBIAN_FRONTEND=noninteractive apt-get -q install -y \
        --no-install-recommends $tools; } > /dev/null || skip "packages could not be installed" \
        "$install"
    have_tools || skip "the cross compiler is still not there" "$install"
fi

# apt with lists of its own, for arm64 alone.
arm64_apt() {
    apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
        -o Dir::State::Lists="$build/apt/lists" -o Dir::Cache="$build/apt/cache" \
        -o APT::Sandbox::User="$(id -un)" "$@"
}
fetch_libraries() {
    mkdir -p "$build/apt/lists/partial" "$build/apt/cache/archives/partial" "$build/arm64" || return 1
    # shellcheck disable=SC2086
    (cd "$build/apt" && arm64_apt update && arm64_apt download $libraries) || return 1
    for package in "$build"/apt/*.deb; do
        dpkg-deb -x "$package" "$build/arm64" || return 1
    done
    rm -rf "$build/apt"
    touch "$build/arm64/complete"
}
if [ ! -e "$build/arm64/complete" ]; then
    mkdir -p "$build"
    echo "test_neon.sh: fetching the arm64 packages of zlib, jansson and cmocka"
    fetch_libraries > "$build/packages.log" 2>&1 || {
        tail -5 "$build/packages.log"
        skip "the arm64 packages could not be fetched (above is why)" \
            "scripts/test_neon.sh --packages     with a network and a mirror that has arm64"
    }
fi
[ $only_packages = no ] || exit 0

make_it() {
    cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLATHE_ARM64_ROOT="$build/arm64" \
        -DCMAKE_TOOLCHAIN_FILE="$root/scripts/toolchains/aarch64.cmake" \
        -DLATHE_HOST_BIN="${LATHE_HOST_BIN:-$root/build/lathe}" &&
        cmake --build "$build" -j "$jobs"
}
if ! make_it > "$build/build.log" 2>&1; then
    cat "$build/build.log"
    echo "test_neon.sh: the build failed"
    exit 1
fi
# What looks at the source alone is tested by the other stages.
ctest --test-dir "$build" --output-on-failure -j "$jobs" -L 'unit|neon' -E '^check_|op_index'
