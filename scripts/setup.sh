#!/bin/sh
# setup.sh -- install what lathe needs from the distribution's packages.
#
#   scripts/setup.sh             everything the build and the default tests need
#   scripts/setup.sh --build     only what the build and the quickstart need
#   scripts/setup.sh --print     print the package names and do nothing
#   scripts/setup.sh --help      print this
#
# Tested on Debian 12. Debian 13 and Ubuntu 24.04 have the same package names (not tested there).
# What is already installed is left alone; with nothing missing, no network is used. Without root
# rights sudo is used; without sudo the command to run is printed.
#
# SPDX-License-Identifier: MIT
set -eu

build="build-essential cmake ninja-build pkg-config zlib1g-dev libjansson-dev libcmocka-dev python3
bible-kjv"
tests="clang libomp-dev python3-venv"

usage() { sed -n '2,12s/^# \{0,1\}//p' "$0"; }

packages="$build $tests"
print=no
for arg in "$@"; do
    case $arg in
    --build) packages=$build ;;
    --print) print=yes ;;
    --help | -h)
        usage
        exit 0
        ;;
    *)
        echo "setup.sh: '$arg' is no option of it" >&2
        usage >&2
        exit 2
        ;;
    esac
done

# shellcheck disable=SC2086  # the list is split on purpose
if [ "$print" = yes ]; then
    printf '%s\n' $packages
    exit 0
fi

foreign() {
    echo "setup.sh: this is $1, not Debian or Ubuntu, so nothing was installed."
    echo "  lathe needs: a C11 compiler with OpenMP, cmake >= 3.25, ninja, pkg-config, python3, and the"
    echo "  development files of zlib, jansson and cmocka. On Fedora, for example:"
    echo "    dnf install gcc cmake ninja-build pkgconf python3 zlib-devel jansson-devel libcmocka-devel"
    echo "  Then: cmake --preset release && cmake --build build"
    echo "  (The quickstart's text comes from Debian's bible-kjv; give it a text file of your own:"
    echo "  scripts/quickstart.sh FILE)"
}

# On another distribution it is fine as long as the tools are there.
tools_are_there() {
    command -v cmake > /dev/null && command -v ninja > /dev/null && command -v cc > /dev/null &&
        command -v pkg-config > /dev/null && command -v python3 > /dev/null &&
        pkg-config --exists zlib jansson cmocka
}

name=unknown
kind=unknown
if [ -r /etc/os-release ]; then
    name=$(. /etc/os-release && echo "${PRETTY_NAME:-unknown}")
    kind=$(. /etc/os-release && echo "${ID:-unknown} ${ID_LIKE:-}")
fi
case " $kind " in
*" debian "* | *" ubuntu "*) ;;
*)
    if tools_are_there; then
        echo "setup.sh: $name: the tools are there; nothing to install"
        exit 0
    fi
    foreign "$name" >&2
    exit 1
    ;;
esac

missing=
for p in $packages; do
    # A tool that came from elsewhere than its package serves as well.
    case $p in
    cmake | python3 | clang) command -v "$p" > /dev/null && continue ;;
    build-essential) command -v cc > /dev/null && command -v make > /dev/null && continue ;;
    ninja-build) command -v ninja > /dev/null && continue ;;
    pkg-config) command -v pkg-config > /dev/null && continue ;;
    bible-kjv) command -v bible > /dev/null && continue ;;
    python3-venv) python3 -c 'import ensurepip, venv' 2> /dev/null && continue ;;
    esac
    state=$(dpkg-query -W -f='${db:Status-Status}' "$p" 2> /dev/null || true)
    [ "$state" = installed ] || missing="$missing $p"
done
if [ -z "$missing" ]; then
    echo "setup.sh: everything is installed"
    exit 0
fi

sudo=
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo > /dev/null; then
        echo "setup.sh: packages are missing; this is not root, and there is no sudo. As root, run:" >&2
        echo "    apt-get update && apt-get install -y --no-install-recommends$missing" >&2
        exit 1
    fi
    sudo=sudo
fi
echo "setup.sh: installing$missing"

apt() {
    # shellcheck disable=SC2086
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 \
        -o Acquire::http::Timeout=30 -o DPkg::Lock::Timeout=300 "$@"
}

# shellcheck disable=SC2086
if ! { apt update && apt install -y --no-install-recommends $missing; }; then
    echo "setup.sh: the packages could not be installed (above is why). No network? Then run this" >&2
    echo "  again when there is one, or install them from a local mirror or medium:" >&2
    echo "   $missing" >&2
    exit 1
fi
