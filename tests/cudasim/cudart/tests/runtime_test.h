// runtime_test.h -- what other_file.cu gives to runtime_test.cu.
//
// SPDX-License-Identifier: MIT
#pragma once

int other_file_table(const int *values, int *out); // 8 numbers; returns its __device__ variable
bool other_file_ran_early();                       // its static object used the runtime
