// other_file.cu -- a second file with kernels and variables of the names of runtime_test.cu.
//
// SPDX-License-Identifier: MIT
#include <cuda_runtime.h>
#include "tests/cudasim/cudart/tests/runtime_test.h"

namespace
{

__constant__ int table[4];
__device__ int total;

__global__ void named_alike(int *out)
{
    out[threadIdx.x] = table[threadIdx.x % 4] + 1000;
    if (threadIdx.x == 0) total = 77;
}

// A static object that uses the runtime before main and after it.
struct Early {
    int *memory = nullptr;
    int got = 0;

    Early()
    {
        cudaMalloc(&memory, sizeof(int));
        cudaMemset(memory, 0, sizeof(int));
        cudaMemcpy(&got, memory, sizeof(int), cudaMemcpyDeviceToHost);
    }
    ~Early() { cudaFree(memory); }
};

Early early;

} // namespace

int other_file_table(const int *values, int *out)
{
    int *d = nullptr, got = 0;
    cudaMalloc(&d, 8 * sizeof(int));
    cudaMemcpyToSymbol(table, values, sizeof table);
    named_alike<<<1, 8>>>(d);
    cudaMemcpy(out, d, 8 * sizeof(int), cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(&got, total, sizeof got);
    cudaFree(d);
    return got;
}

bool other_file_ran_early()
{
    return early.memory != nullptr && early.got == 0;
}
