// host.h -- what the host side of the simulator calls: launches, device memory, tensor maps.
//
// tests/cudasim/cudart/ builds the CUDA runtime API on top of it; tests of single instructions
// call it directly with kernels that are plain C++ functions.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include "tests/cudasim/src/device.h"

namespace cudasim
{

struct Launch {
    const char *name;
    Dim3 grid, block, cluster; // cluster {1, 1, 1}: none
    size_t dyn_smem, static_smem;
    void (*body)(void *arg); // run by every thread
    void *arg;
};
enum class LaunchError { NONE, CONFIG, SMEM };
// Runs the grid to its end. An error of the kernel ends the program (see report.h).
LaunchError launch(const Launch &l);

enum { SMEM_MAX = 227 * 1024, SMEM_STATIC_MAX = 48 * 1024, SMEM_START = 1024 };

// Device memory: filled with 0xff bytes (NaN), guarded at both ends.
void *mem_alloc(size_t bytes);
bool mem_free(void *p); // false: not an address that mem_alloc gave
bool mem_find(const void *p, void **base, size_t *bytes); // the allocation that p lies in
void mem_check();                                         // error when a guard was overwritten
void mem_register(void *p, size_t bytes);         // a __device__ variable, for the race checker
void mem_host_write(const void *p, size_t bytes); // the host has written there (memcpy, memset)

// The driver's cuTensorMapEncodeTiled by plain numbers; 0, or the CUresult it would give (1).
struct TensorMapArgs {
    int data_type; // CUtensorMapDataType
    uint32_t rank;
    void *address;
    const uint64_t *dims, *strides; // strides: rank - 1, bytes
    const uint32_t *box, *element_strides;
    int interleave, swizzle, l2, oob_fill;
};
int tensor_map_encode(void *map128, const TensorMapArgs &a);

struct Stats {
    uint64_t launches, switches, mma_flops;
};
Stats stats();
bool race_mode(); // kernels were compiled for the race checker

} // namespace cudasim
