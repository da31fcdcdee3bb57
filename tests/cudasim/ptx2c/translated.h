// translated.h -- what a translated file tells the runtime: its kernels and its variables.
//
// A translated file has one static object per kernel and per __device__ or __constant__
// variable; their constructors put them into two lists, which the replacement of libcudart
// searches by name. Names are the mangled ones that nvcc's host code registers.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include "tests/cudasim/src/device.h"

namespace cudasim
{

struct KernelParam {
    unsigned offset, bytes; // in the parameter block, which is aligned to 128 bytes
};

struct Kernel {
    const char *name;
    void (*body)(void *params); // run by every thread
    const KernelParam *params;
    unsigned param_count, param_bytes;
    size_t static_smem;   // .shared variables of the kernel
    size_t dynamic_align; // of its extern __shared__ array; 1: it has none
    size_t local_bytes;   // of arrays in local memory
    Dim3 max_threads;     // __launch_bounds__; {0, 0, 0}: not given
    Dim3 cluster;         // __cluster_dims__; {0, 0, 0}: not given
    const char *file;     // of the kernel's first line
    int line;
    const Kernel *next;
};

struct DeviceVariable {
    const char *name;
    void *address;
    size_t bytes;
    bool constant;
    const DeviceVariable *next;
};

inline const Kernel *&kernel_list()
{
    static const Kernel *first;
    return first;
}

inline const DeviceVariable *&variable_list()
{
    static const DeviceVariable *first;
    return first;
}

struct KernelEntry {
    Kernel kernel;
    explicit KernelEntry(const Kernel &k) : kernel(k)
    {
        kernel.next = kernel_list();
        kernel_list() = &kernel;
    }
};

struct VariableEntry {
    DeviceVariable variable;
    VariableEntry(const char *name, void *address, size_t bytes, bool constant)
        : variable{name, address, bytes, constant, variable_list()}
    {
        variable_list() = &variable;
    }
};

} // namespace cudasim
