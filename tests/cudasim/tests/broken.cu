// broken.cu -- kernels that are wrong in one line each, marked `wrong: NAME CODE`.
//
// broken_test.py runs each and expects the exit code and a report that names the marked line. The
// cases named race_* are wrong in the race build only.
//
// SPDX-License-Identifier: MIT
#include <cstdio>
#include <cstring>
#include "ptx.cuh"

namespace
{

__global__ void shared_outside(int *out)
{
    extern __shared__ int s[];
    s[threadIdx.x] = 1;
    *out = s[threadIdx.x + 64]; // wrong: shared_outside 86
}

__global__ void global_outside(int *out)
{
    out[1 << 20] = 1; // wrong: global_outside 86
}

__global__ void diverged(int *out)
{
    if (threadIdx.x < 16)
        __syncwarp();
    else
        out[threadIdx.x] = __shfl_xor_sync(~0u, 1, 1); // wrong: diverged 86
}

__global__ void deadlock(int *out)
{
    __shared__ uint64_t bar;
    if (threadIdx.x == 0) ptx::mbar_init(&bar, 2);
    __syncthreads();
    if (threadIdx.x == 0) ptx::mbar_arrive(&bar);
    while (!ptx::mbar_try_wait(&bar, 0)) { // wrong: deadlock 87
    }
    *out = 1;
}

__global__ void failed_assert(int *out)
{
    if (out[0] != 12345) __trap(); // wrong: failed_assert 86
}

__global__ void race_shared(int *out)
{
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;
    const int x = s[63 - threadIdx.x]; // wrong: race_shared 88
    out[threadIdx.x] = x;
}

__global__ void race_blocks(int *out)
{
    out[threadIdx.x] = blockIdx.x; // wrong: race_blocks 88
}

__global__ void race_uninitialised(int *out)
{
    __shared__ int s[64];
    if (threadIdx.x < 32) s[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x]; // wrong: race_uninitialised 88
}

__global__ void race_fence(int *out)
{
    __shared__ alignas(128) int s[64];
    s[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;" ::"l"(out),
                     "r"(ptx::smem_u32(s)) // the asm statement ends in the marked line
                     : "memory");          // wrong: race_fence 88
        ptx::bulk_commit();
        ptx::bulk_wait<0>();
    }
}

struct Case {
    const char *name;
    void (*kernel)(int *);
    int blocks;
};

} // namespace

int main(int argc, char **argv)
{
    const Case cases[] = {
        {"shared_outside", shared_outside, 1},
        {"global_outside", global_outside, 1},
        {"diverged", diverged, 1},
        {"deadlock", deadlock, 1},
        {"failed_assert", failed_assert, 1},
        {"race_shared", race_shared, 1},
        {"race_blocks", race_blocks, 2},
        {"race_uninitialised", race_uninitialised, 1},
        {"race_fence", race_fence, 1},
    };
    int *out = nullptr;
    cudaMalloc(reinterpret_cast<void **>(&out), 256);
    cudaMemset(out, 0, 256);
    for (const Case &c : cases) {
        if (argc > 1 && strcmp(argv[1], c.name) == 0) c.kernel<<<c.blocks, 64, 256>>>(out);
    }
    return cudaDeviceSynchronize() != cudaSuccess;
}
