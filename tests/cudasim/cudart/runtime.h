// runtime.h -- what the files of the replaced libcudart share.
//
// Every API function checks its arguments like the driver, and returns the error the driver
// returns; where the driver would leave the reason open, misuse() says it on standard error.
//
// Streams. Without a seed, work is done when it is issued, which is a legal order. With
// CUDASIM_LAZY or CUDASIM_SEED it waits in its stream until something asks for it (a
// synchronisation, an event, a blocking copy) or a random moment comes: then a host program that
// forgets to wait reads what is not there yet.
//
// Environment, for tests of programs that use the runtime:
//   CUDASIM_DEVICES=0        no device            CUDASIM_DRIVER=none  no driver; old: of CUDA 12.2
//   CUDASIM_CC=75            its compute capability, 90 without
//   CUDASIM_MEMORY_MB=n      its memory           CUDASIM_FAULT=n      the n-th launch (from 1)
//                            becomes an illegal address, found at the next synchronisation
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>
#include <cstdint>
#include <functional>
#include "tests/cudasim/ptx2c/translated.h"
#include "tests/cudasim/src/host.h"

namespace cudasim
{
namespace rt
{

// ---- error.cpp ----
// Remembers an error for cudaGetLastError and returns it.
cudaError_t fail(cudaError_t e);
// Says what is wrong with a call, then as above.
cudaError_t misuse(cudaError_t e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void set_sticky(cudaError_t e);
cudaError_t sticky(); // an error of earlier work that no call gets past
// Is there a device at all? The first thing every function asks.
cudaError_t check_device();
uint64_t env_number(const char *name, uint64_t otherwise);

// ---- registry.cpp ----
struct Function {
    const Kernel *kernel;
    int max_dynamic_smem; // set by cudaFuncSetAttribute; -1: not set
    bool nonportable_cluster;
    int carveout;
};
// By the address that host code uses, or by a handle given out before; nullptr: not a kernel.
Function *find_function(const void *host);
const DeviceVariable *find_variable(const void *host);
const DeviceVariable *variable_at(const void *p); // the variable that an address lies in
void watch_variables();                           // tells the race checker about them

// ---- stream.cpp ----
// Does `work` in stream `s`, now or later; an error when `s` is no stream.
cudaError_t enqueue(cudaStream_t s, std::function<void()> work);
cudaError_t finish(cudaStream_t s); // runs everything that is in the stream
void finish_all();

// ---- memory.cpp ----
enum class Space { HOST, PINNED, DEVICE };
// Where [p, p+n) lies; an error (reported by `what`) when it leaves its allocation.
cudaError_t locate(const char *what, const void *p, size_t n, Space *space);

#define CHECK(call)                                                                                \
    do {                                                                                           \
        const cudaError_t check_error = (call);                                                    \
        if (check_error != cudaSuccess) return check_error;                                        \
    } while (0)

} // namespace rt
} // namespace cudasim
