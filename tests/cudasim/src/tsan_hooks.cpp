// tsan_hooks.cpp -- what the compiler calls for every load and store of an instrumented kernel.
//
// SPDX-License-Identifier: MIT
