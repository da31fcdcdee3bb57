# aarch64.cmake -- toolchain file: build for 64-bit Arm on another machine, run under qemu-user.
#
#   cmake -B build-neon -DCMAKE_TOOLCHAIN_FILE=scripts/toolchains/aarch64.cmake
#
# scripts/test_neon.sh does that, and gets what it needs.
#
# The compiler is Debian's cross compiler; C library and OpenMP come with it. The other libraries
# (zlib, jansson, cmocka) are looked for in LATHE_ARM64_ROOT, where scripts/test_neon.sh unpacks the
# distribution's arm64 packages. -DLATHE_ARM64_CLANG=ON: clang with the same libraries.
#
# SPDX-License-Identifier: MIT
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
if(LATHE_ARM64_CLANG)
    set(CMAKE_C_COMPILER clang)
    set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu)
else()
    set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
endif()

set(LATHE_ARM64_ROOT "${CMAKE_CURRENT_LIST_DIR}/../../build-neon/arm64"
    CACHE PATH "unpacked arm64 packages of zlib, jansson and cmocka")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES LATHE_ARM64_ROOT LATHE_ARM64_CLANG)
set(CMAKE_FIND_ROOT_PATH "${LATHE_ARM64_ROOT}" /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} "${LATHE_ARM64_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig")
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${LATHE_ARM64_ROOT}")

# ctest puts this in front of the programs it runs; -L: where they find the C library.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L /usr/aarch64-linux-gnu)
