// runtime_test.cu -- a CUDA program that tries the runtime API: what works, and what is refused.
//
//   runtime_test [case]     one case, or all that can run in one process
//
// It is plain CUDA; nothing in it knows of the simulator except the names of the environment
// variables that some cases are run with (CMakeLists.txt).
//
// SPDX-License-Identifier: MIT
#include <cuda.h>
#include <cuda_runtime.h>
#include <cassert>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "tests/cudasim/cudart/tests/runtime_test.h"

namespace
{

int failures;

#define EXPECT(what)                                                                               \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            printf("%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                              \
            ++failures;                                                                            \
        }                                                                                          \
    } while (0)
#define EXPECT_ERROR(want, call)                                                                   \
    do {                                                                                           \
        const cudaError_t got_ = (call);                                                           \
        if (got_ != (want)) {                                                                      \
            printf("%s:%d: %s is %s, expected %s\n", __FILE__, __LINE__, #call,                    \
                   cudaGetErrorName(got_), #want);                                                 \
            ++failures;                                                                            \
        }                                                                                          \
    } while (0)
#define OK(call) EXPECT_ERROR(cudaSuccess, call)
// A launch's error is the last one.
#define EXPECT_LAUNCH(want) EXPECT_ERROR(want, cudaGetLastError())

__constant__ int table[4] = {5, 6, 7, 8};
__device__ int total = 3;

__global__ void fill(int *out, int value, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = value + i;
}

__global__ void named_alike(int *out)
{
    out[threadIdx.x] = table[threadIdx.x % 4];
    if (threadIdx.x == 0) total += 1;
}

__global__ void __launch_bounds__(64) bounded(int *out)
{
    out[threadIdx.x] = 1;
}

__global__ void dynamic_sum(int *out)
{
    __shared__ int fixed[8];
    extern __shared__ __align__(128) int dynamic[];
    if (threadIdx.x < 8) fixed[threadIdx.x] = threadIdx.x;
    dynamic[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = fixed[threadIdx.x % 8] + dynamic[blockDim.x - 1 - threadIdx.x];
    unsigned at = 0;
    asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(at) : "l"(dynamic));
    if (at % 128 != 0) out[threadIdx.x] = -1;
}

struct Many {
    char c;
    double d;
    short s[3];
    int *out;
};

__global__ void many_parameters(char a, double b, Many m, short c, const __grid_constant__ Many g)
{
    m.out[0] = a + static_cast<int>(b) + m.c + static_cast<int>(m.d) + m.s[2] + c + g.s[1];
}

__global__ void ranks(int *out)
{
    unsigned rank = 0, size = 0;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    if (threadIdx.x == 0) out[blockIdx.x] = static_cast<int>(rank + 10 * size);
}

__global__ void __cluster_dims__(2, 1, 1) ranks_of_two(int *out)
{
    unsigned rank = 0;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) out[blockIdx.x] = static_cast<int>(rank);
}

__global__ void say(int n)
{
    printf("n=%d s=%s f=%.2f l=%lld %%\n", n, "text", 0.5 * n, 1ll << 40);
}

__global__ void check_positive(int n)
{
    assert(n > 0);
}

__global__ void read_at(int *out, const int *p)
{
    out[0] = *p;
}

int *device_ints(int n)
{
    int *p = nullptr;
    OK(cudaMalloc(&p, n * sizeof(int)));
    return p;
}

// ---- cases ----
void launches()
{
    int *const d = device_ints(100), h[100];
    fill<<<4, 32>>>(d, 7, 100);
    EXPECT_LAUNCH(cudaSuccess);
    OK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
    EXPECT(h[0] == 7 && h[99] == 106);
    fill<<<0, 32>>>(d, 7, 100);
    EXPECT_LAUNCH(cudaErrorInvalidConfiguration);
    EXPECT_LAUNCH(cudaSuccess); // asked once, forgotten
    fill<<<1, 1025>>>(d, 7, 100);
    EXPECT_ERROR(cudaErrorInvalidConfiguration, cudaPeekAtLastError());
    EXPECT_LAUNCH(cudaErrorInvalidConfiguration);
    fill<<<dim3(1, 65536), 32>>>(d, 7, 100);
    EXPECT_LAUNCH(cudaErrorInvalidConfiguration);
    fill<<<1, dim3(1, 1, 65)>>>(d, 7, 100);
    EXPECT_LAUNCH(cudaErrorInvalidConfiguration);
    bounded<<<1, 64>>>(d);
    EXPECT_LAUNCH(cudaSuccess);
    bounded<<<1, 96>>>(d);
    EXPECT_LAUNCH(cudaErrorLaunchOutOfResources);
    EXPECT_ERROR(cudaErrorInvalidDeviceFunction,
                 cudaLaunchKernel(h, dim3(1), dim3(1), nullptr, 0, 0));
    cudaGetLastError();
    OK(cudaFree(d));
}

void parameters()
{
    int *const d = device_ints(1), got = 0;
    Many m = {1, 2.0, {3, 4, 5}, d}, g = {0, 0, {0, 100, 0}, nullptr};
    many_parameters<<<1, 1>>>(10, 20.5, m, 30, g);
    OK(cudaMemcpy(&got, d, sizeof got, cudaMemcpyDeviceToHost));
    EXPECT(got == 10 + 20 + 1 + 2 + 5 + 30 + 100);
    OK(cudaFree(d));
}

void dynamic_shared()
{
    int *const d = device_ints(64), h[64];
    dynamic_sum<<<1, 64, 64 * sizeof(int)>>>(d);
    EXPECT_LAUNCH(cudaSuccess);
    OK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
    EXPECT(h[0] == 63 && h[9] == 1 + 54);
    cudaFuncAttributes a = {};
    OK(cudaFuncGetAttributes(&a, dynamic_sum));
    const int fixed = static_cast<int>(a.sharedSizeBytes);
    EXPECT(fixed >= 32 && a.maxDynamicSharedSizeBytes == 48 * 1024 - fixed);
    dynamic_sum<<<1, 64, 48 * 1024 - fixed>>>(d);
    EXPECT_LAUNCH(cudaSuccess);
    dynamic_sum<<<1, 64, 48 * 1024>>>(d);
    EXPECT_LAUNCH(cudaErrorInvalidValue);
    const cudaFuncAttribute what = cudaFuncAttributeMaxDynamicSharedMemorySize;
    EXPECT_ERROR(cudaErrorInvalidValue, cudaFuncSetAttribute(dynamic_sum, what, 227 * 1024));
    EXPECT_LAUNCH(cudaErrorInvalidValue); // the last error
    OK(cudaFuncSetAttribute(dynamic_sum, what, 227 * 1024 - fixed));
    dynamic_sum<<<1, 64, 227 * 1024 - fixed>>>(d);
    EXPECT_LAUNCH(cudaSuccess);
    dynamic_sum<<<1, 64, 227 * 1024 - fixed + 1>>>(d);
    EXPECT_LAUNCH(cudaErrorInvalidValue);
    OK(cudaDeviceSynchronize());
    OK(cudaFree(d));
}

void clusters()
{
    int *const d = device_ints(16), h[16];
    cudaLaunchAttribute attr = {};
    attr.id = cudaLaunchAttributeClusterDimension;
    attr.val.clusterDim.x = 4;
    attr.val.clusterDim.y = attr.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(8);
    config.blockDim = dim3(32);
    config.attrs = &attr;
    config.numAttrs = 1;
    OK(cudaLaunchKernelEx(&config, ranks, d));
    OK(cudaMemcpy(h, d, 8 * sizeof(int), cudaMemcpyDeviceToHost));
    EXPECT(h[0] == 40 && h[3] == 43 && h[4] == 40 && h[7] == 43);
    config.gridDim = dim3(6);
    EXPECT_ERROR(cudaErrorInvalidClusterSize, cudaLaunchKernelEx(&config, ranks, d));
    config.gridDim = dim3(16);
    attr.val.clusterDim.x = 16;
    EXPECT_ERROR(cudaErrorInvalidClusterSize, cudaLaunchKernelEx(&config, ranks, d));
    OK(cudaFuncSetAttribute(ranks, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    OK(cudaLaunchKernelEx(&config, ranks, d));
    OK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
    EXPECT(h[15] == 175);
    ranks_of_two<<<4, 32>>>(d);
    OK(cudaMemcpy(h, d, 4 * sizeof(int), cudaMemcpyDeviceToHost));
    EXPECT(h[0] == 0 && h[1] == 1 && h[2] == 0 && h[3] == 1);
    attr.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attr.val.programmaticStreamSerializationAllowed = 1;
    OK(cudaLaunchKernelEx(&config, ranks, d));
    attr.id = cudaLaunchAttributeLaunchCompletionEvent;
    EXPECT_ERROR(cudaErrorNotSupported, cudaLaunchKernelEx(&config, ranks, d));
    int most = 0;
    attr.id = cudaLaunchAttributeClusterDimension;
    attr.val.clusterDim.x = 2;
    OK(cudaOccupancyMaxActiveClusters(&most, ranks, &config));
    EXPECT(most == 132 * 32 / 2);
    cudaGetLastError();
    OK(cudaFree(d));
}

void memory()
{
    int *const d = device_ints(10), h[20] = {};
    const size_t n = 10 * sizeof(int);
    OK(cudaMemset(d, 0, n));
    OK(cudaMemcpy(h, d, n, cudaMemcpyDefault));
    EXPECT(h[9] == 0);
    EXPECT_ERROR(cudaErrorInvalidValue, cudaMemcpy(d, h, n + 1, cudaMemcpyHostToDevice));
    EXPECT_ERROR(cudaErrorInvalidValue, cudaMemcpy(d + 1, h, n, cudaMemcpyHostToDevice));
    EXPECT_ERROR(cudaErrorInvalidValue, cudaMemcpy(h, h + 10, n, cudaMemcpyHostToDevice));
    EXPECT_ERROR(cudaErrorInvalidValue, cudaMemcpy(h, d, n, cudaMemcpyHostToDevice));
    EXPECT_ERROR(cudaErrorInvalidValue, cudaMemcpy(d, d, n, cudaMemcpyDeviceToHost));
    EXPECT_ERROR(cudaErrorInvalidValue, cudaMemcpy(d, nullptr, n, cudaMemcpyHostToDevice));
    EXPECT_ERROR(cudaErrorInvalidValue, cudaMemset(d, 0, n + 1));
    EXPECT_ERROR(cudaErrorInvalidValue, cudaMemset(h, 0, n));
    EXPECT_ERROR(cudaErrorInvalidValue, cudaFree(d + 1));
    EXPECT_ERROR(cudaErrorInvalidValue, cudaFree(h));
    OK(cudaFree(nullptr));
    int *empty = d;
    OK(cudaMalloc(&empty, 0));
    EXPECT(empty == nullptr);
    size_t free_before = 0, free_after = 0, all = 0;
    OK(cudaMemGetInfo(&free_before, &all));
    int *const e = device_ints(1 << 20);
    OK(cudaMemGetInfo(&free_after, &all));
    EXPECT(free_before - free_after == 4 << 20);
    EXPECT_ERROR(cudaErrorMemoryAllocation, cudaMalloc(&empty, all));
    OK(cudaFree(e));
    OK(cudaFree(d));
    EXPECT_ERROR(cudaErrorInvalidValue, cudaFree(d)); // twice
    cudaGetLastError();
}

void pitched()
{
    char *d = nullptr, h[6 * 5], back[6 * 5] = {};
    size_t pitch = 0;
    OK(cudaMallocPitch(&d, &pitch, 5, 6));
    EXPECT(pitch >= 5 && pitch % 512 == 0);
    for (int i = 0; i < 30; ++i) h[i] = static_cast<char>(i);
    OK(cudaMemcpy2D(d, pitch, h, 5, 5, 6, cudaMemcpyHostToDevice));
    OK(cudaMemset2D(d, pitch, 99, 2, 6));
    OK(cudaMemcpy2D(back, 5, d, pitch, 5, 6, cudaMemcpyDeviceToHost));
    EXPECT(back[0] == 99 && back[1] == 99 && back[2] == 2 && back[29] == 29 && back[26] == 99);
    EXPECT_ERROR(cudaErrorInvalidPitchValue,
                 cudaMemcpy2D(d, 4, h, 5, 5, 6, cudaMemcpyHostToDevice));
    EXPECT_ERROR(cudaErrorInvalidValue, cudaMemcpy2D(d, pitch, h, 5, 5, 7, cudaMemcpyHostToDevice));
    cudaGetLastError();
    OK(cudaFree(d));
}

void pinned()
{
    int *p = nullptr, *q = nullptr, local = 0;
    OK(cudaMallocHost(&p, 64));
    cudaPointerAttributes a = {};
    OK(cudaPointerGetAttributes(&a, p + 3));
    EXPECT(a.type == cudaMemoryTypeHost);
    OK(cudaPointerGetAttributes(&a, &local));
    EXPECT(a.type == cudaMemoryTypeUnregistered);
    int *const d = device_ints(4);
    OK(cudaPointerGetAttributes(&a, d + 3));
    EXPECT(a.type == cudaMemoryTypeDevice && a.device == 0);
    OK(cudaHostGetDevicePointer(&q, p, 0));
    fill<<<1, 16>>>(q, 1, 16); // the device writes host memory
    OK(cudaDeviceSynchronize());
    EXPECT(p[15] == 16);
    EXPECT_ERROR(cudaErrorInvalidValue, cudaMemcpy(d, p + 13, 16, cudaMemcpyHostToDevice));
    OK(cudaHostRegister(&local, sizeof local, 0));
    EXPECT_ERROR(cudaErrorHostMemoryAlreadyRegistered, cudaHostRegister(&local, sizeof local, 0));
    OK(cudaHostUnregister(&local));
    EXPECT_ERROR(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(&local));
    OK(cudaFreeHost(p));
    EXPECT_ERROR(cudaErrorInvalidValue, cudaFreeHost(&local));
    cudaGetLastError();
    OK(cudaFree(d));
}

void symbols()
{
    int *const d = device_ints(8), h[8], value = 0;
    named_alike<<<1, 8>>>(d);
    OK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
    EXPECT(h[0] == 5 && h[7] == 8); // as initialised
    OK(cudaMemcpyFromSymbol(&value, total, sizeof value));
    EXPECT(value == 4);
    const int two[2] = {60, 70};
    OK(cudaMemcpyToSymbol(table, two, sizeof two, sizeof(int)));
    const int other[4] = {1, 2, 3, 4};
    int got[8];
    EXPECT(other_file_table(other, got) == 77);
    EXPECT(got[0] == 1001 && got[7] == 1004);
    named_alike<<<1, 8>>>(d);
    OK(cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost));
    EXPECT(h[0] == 5 && h[1] == 60 && h[2] == 70 && h[3] == 8); // not the other file's
    OK(cudaMemcpyFromSymbol(&value, total, sizeof value));
    EXPECT(value == 5);
    EXPECT_ERROR(cudaErrorInvalidValue, cudaMemcpyToSymbol(table, two, sizeof two, 12));
    EXPECT_ERROR(cudaErrorInvalidSymbol,
                 cudaMemcpyToSymbol(static_cast<const void *>(h), two, sizeof two));
    size_t bytes = 0;
    void *at = nullptr;
    OK(cudaGetSymbolSize(&bytes, table));
    OK(cudaGetSymbolAddress(&at, total));
    EXPECT(bytes == sizeof table);
    OK(cudaMemset(at, 0, sizeof(int)));
    OK(cudaMemcpyFromSymbol(&value, total, sizeof value));
    EXPECT(value == 0);
    EXPECT_ERROR(cudaErrorInvalidValue, cudaMemset(at, 0, 8));
    EXPECT(other_file_ran_early());
    cudaGetLastError();
    OK(cudaFree(d));
}

void count_call(void *p)
{
    ++*static_cast<int *>(p);
}

void streams()
{
    const int n = 1000;
    int *const d = device_ints(n), *h = nullptr;
    OK(cudaMallocHost(&h, n * sizeof(int)));
    memset(h, 0, n * sizeof(int));
    cudaStream_t s = nullptr, t = nullptr;
    cudaEvent_t e = nullptr, start = nullptr;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithPriority(&t, cudaStreamNonBlocking, -1));
    OK(cudaEventCreate(&e));
    OK(cudaEventCreate(&start));
    EXPECT_ERROR(cudaSuccess, cudaEventQuery(e)); // never recorded
    OK(cudaEventRecord(start, s));
    OK(cudaMemsetAsync(d, 0, n * sizeof(int), s));
    fill<<<32, 32, 0, s>>>(d, 5, n);
    OK(cudaEventRecord(e, s));
    OK(cudaStreamWaitEvent(t, e, 0));
    OK(cudaMemcpyAsync(h, d, n * sizeof(int), cudaMemcpyDeviceToHost, t));
    if (getenv("CUDASIM_LAZY") != nullptr) EXPECT(h[0] == 0); // nobody has waited yet
    int calls = 0;
    OK(cudaLaunchHostFunc(t, count_call, &calls));
    OK(cudaStreamSynchronize(t));
    EXPECT(h[0] == 5 && h[999] == 1004 && calls == 1);
    OK(cudaEventSynchronize(e));
    float ms = -1;
    OK(cudaEventElapsedTime(&ms, start, e));
    EXPECT(ms >= 0);
    fill<<<1, 32, 0, s>>>(d, 9, n);
    int asked = 0;
    while (cudaStreamQuery(s) == cudaErrorNotReady) ++asked;
    EXPECT(asked < 100);
    // A pageable source may be changed as soon as the call is back; a pinned one may not.
    int pageable[4] = {1, 2, 3, 4};
    OK(cudaMemcpyAsync(d, pageable, sizeof pageable, cudaMemcpyHostToDevice, s));
    pageable[0] = 100;
    OK(cudaMemcpyAsync(pageable, d, sizeof pageable, cudaMemcpyDeviceToHost, s));
    EXPECT(pageable[0] == 1);
    int priority = 0;
    OK(cudaStreamGetPriority(t, &priority));
    EXPECT(priority == -1);
    OK(cudaEventDestroy(e));
    EXPECT_ERROR(cudaErrorInvalidResourceHandle, cudaEventRecord(e, s));
    OK(cudaEventDestroy(start));
    OK(cudaStreamDestroy(t));
    EXPECT_ERROR(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(t));
    OK(cudaStreamDestroy(s));
    cudaGetLastError();
    OK(cudaFreeHost(h));
    OK(cudaFree(d));
}

// The default stream waits for blocking streams, and they for it.
void default_stream()
{
    int *const d = device_ints(64), *h = nullptr;
    OK(cudaMallocHost(&h, 64 * sizeof(int)));
    cudaStream_t s = nullptr;
    OK(cudaStreamCreate(&s));
    for (int round = 0; round < 20; ++round) {
        fill<<<1, 64, 0, s>>>(d, round, 64);
        OK(cudaMemcpyAsync(h, d, 64 * sizeof(int), cudaMemcpyDeviceToHost, 0));
        OK(cudaMemsetAsync(d, 0, 64 * sizeof(int), s));
        OK(cudaStreamSynchronize(0));
        EXPECT(h[63] == round + 63);
    }
    OK(cudaStreamDestroy(s));
    OK(cudaFreeHost(h));
    OK(cudaFree(d));
}

void pools()
{
    cudaStream_t s = nullptr;
    OK(cudaStreamCreate(&s));
    int *p = nullptr, h[32];
    OK(cudaMallocAsync(&p, sizeof h, s));
    fill<<<1, 32, 0, s>>>(p, 3, 32);
    OK(cudaMemcpyAsync(h, p, sizeof h, cudaMemcpyDeviceToHost, s));
    OK(cudaFreeAsync(p, s));
    OK(cudaStreamSynchronize(s));
    EXPECT(h[31] == 34);
    EXPECT_ERROR(cudaErrorInvalidValue, cudaFreeAsync(p, s)); // freed before
    cudaMemPool_t pool = nullptr;
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    uint64_t keep = UINT64_MAX;
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    OK(cudaStreamDestroy(s));
    cudaGetLastError();
}

void device()
{
    int count = 0, v = 0;
    OK(cudaGetDeviceCount(&count));
    EXPECT(count == 1);
    OK(cudaSetDevice(0));
    EXPECT_ERROR(cudaErrorInvalidDevice, cudaSetDevice(1));
    cudaDeviceProp p;
    OK(cudaGetDeviceProperties(&p, 0));
    EXPECT(p.major == 9 && p.minor == 0 && p.multiProcessorCount == 132);
    EXPECT(p.sharedMemPerBlockOptin == 232448 && p.sharedMemPerBlock == 49152);
    EXPECT(p.totalGlobalMem > 79ull << 30 && p.l2CacheSize == 50 << 20);
    OK(cudaDeviceGetAttribute(&v, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    EXPECT(v == 232448);
    OK(cudaDeviceGetAttribute(&v, cudaDevAttrMultiProcessorCount, 0));
    EXPECT(v == 132);
    OK(cudaDeviceGetAttribute(&v, cudaDevAttrComputeCapabilityMajor, 0));
    EXPECT(v == 9);
    OK(cudaDriverGetVersion(&v));
    EXPECT(v == 13000);
    OK(cudaRuntimeGetVersion(&v));
    EXPECT(v == 13000);
    EXPECT(strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory") == 0);
    EXPECT(strcmp(cudaGetErrorName(cudaErrorNoDevice), "cudaErrorNoDevice") == 0);
    EXPECT(strcmp(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code") ==
           0);
    cudaFuncAttributes a = {};
    OK(cudaFuncGetAttributes(&a, bounded));
    EXPECT(a.maxThreadsPerBlock == 64 && a.binaryVersion == 90);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&v, fill, 1024, 0));
    EXPECT(v == 1); // 64 registers a thread are assumed
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&v, fill, 64, 40 * 1024));
    EXPECT(v == 5); // of 228 KiB, each block takes 41
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&v, fill, 2048, 0));
    EXPECT(v == 0);
    int grid = 0, block = 0;
    OK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, fill));
    EXPECT(block == 1024 && grid == 132);
    cudaGetLastError();
}

typedef CUresult (*EncodeTiled)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

void tensor_maps()
{
    void *fn = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    OK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &fn, 12000, 0, &found));
    EXPECT(fn != nullptr && found == cudaDriverEntryPointSuccess);
    const auto encode = reinterpret_cast<EncodeTiled>(fn);
    int *const d = device_ints(64 * 64);
    alignas(64) CUtensorMap map;
    const cuuint64_t dims[2] = {64, 64};
    cuuint64_t strides[1] = {256};
    cuuint32_t box[2] = {32, 8}, ones[2] = {1, 1};
    const auto with = [&](void *address, CUtensorMapSwizzle swizzle) {
        return encode(&map, CU_TENSOR_MAP_DATA_TYPE_INT32, 2, address, dims, strides, box, ones,
                      CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    };
    EXPECT(with(d, CU_TENSOR_MAP_SWIZZLE_128B) == CUDA_SUCCESS);
    EXPECT(with(d + 1, CU_TENSOR_MAP_SWIZZLE_NONE) == CUDA_ERROR_INVALID_VALUE); // 16-byte aligned
    EXPECT(with(d, CU_TENSOR_MAP_SWIZZLE_64B) == CUDA_ERROR_INVALID_VALUE); // box row 128 bytes
    strides[0] = 250;
    EXPECT(with(d, CU_TENSOR_MAP_SWIZZLE_128B) == CUDA_ERROR_INVALID_VALUE);
    strides[0] = 256;
    box[1] = 257;
    EXPECT(with(d, CU_TENSOR_MAP_SWIZZLE_128B) == CUDA_ERROR_INVALID_VALUE);
    box[1] = 0;
    EXPECT(with(d, CU_TENSOR_MAP_SWIZZLE_128B) == CUDA_ERROR_INVALID_VALUE);
    OK(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &fn, 12000, 0, &found));
    EXPECT(fn == nullptr && found == cudaDriverEntryPointSymbolNotFound);
    OK(cudaFree(d));
}

void graphs()
{
    cudaStream_t s = nullptr;
    OK(cudaStreamCreate(&s));
    EXPECT_ERROR(cudaErrorNotSupported,
                 cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    EXPECT_LAUNCH(cudaErrorNotSupported);
    OK(cudaStreamDestroy(s));
}

// ---- cases with an environment of their own ----
void no_device()
{
    int count = 7, *p = nullptr;
    EXPECT_ERROR(cudaErrorNoDevice, cudaGetDeviceCount(&count));
    EXPECT(count == 7);
    EXPECT_ERROR(cudaErrorNoDevice, cudaMalloc(&p, 4));
    fill<<<1, 1>>>(p, 0, 0);
    EXPECT_LAUNCH(cudaErrorNoDevice);
}

void no_driver()
{
    int version = 7, count = 7;
    void *fn = &version;
    cudaDriverEntryPointQueryResult found;
    OK(cudaDriverGetVersion(&version));
    EXPECT(version == 0);
    EXPECT_ERROR(cudaErrorInsufficientDriver, cudaGetDeviceCount(&count));
    EXPECT_ERROR(cudaErrorInsufficientDriver,
                 cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &fn, 12000, 0, &found));
    EXPECT(fn == nullptr);
}

void old_device()
{
    cudaDeviceProp p;
    OK(cudaGetDeviceProperties(&p, 0));
    EXPECT(p.major == 7 && p.minor == 5);
}

void small_memory()
{
    void *p = nullptr, *q = nullptr;
    OK(cudaMalloc(&p, 3 << 20));
    EXPECT_ERROR(cudaErrorMemoryAllocation, cudaMalloc(&q, 2 << 20));
    EXPECT_LAUNCH(cudaErrorMemoryAllocation);
    OK(cudaFree(p));
    OK(cudaMalloc(&q, 7 << 19));
    OK(cudaFree(q));
}

// The second launch goes wrong; no call gets past it any more.
void fault()
{
    int *const d = device_ints(4);
    fill<<<1, 4>>>(d, 0, 4);
    OK(cudaDeviceSynchronize());
    fill<<<1, 4>>>(d, 0, 4);
    EXPECT_ERROR(cudaErrorIllegalAddress, cudaDeviceSynchronize());
    EXPECT_LAUNCH(cudaErrorIllegalAddress);
    EXPECT_LAUNCH(cudaErrorIllegalAddress); // sticky
    EXPECT_ERROR(cudaErrorIllegalAddress, cudaFree(d));
}

// ---- cases that end the program with a report ----
void print()
{
    say<<<1, 1>>>(3);
    cudaDeviceSynchronize();
}

void device_assert()
{
    check_positive<<<1, 1>>>(-1);
    cudaDeviceSynchronize();
}

void read_null()
{
    read_at<<<1, 1>>>(device_ints(1), nullptr);
    cudaDeviceSynchronize();
}

void read_freed()
{
    int *const d = device_ints(1), *const gone = device_ints(1 << 20);
    cudaFree(gone);
    read_at<<<1, 1>>>(d, gone);
    cudaDeviceSynchronize();
}

void read_misaligned()
{
    int *const d = device_ints(4);
    read_at<<<1, 1>>>(d, reinterpret_cast<int *>(reinterpret_cast<char *>(d) + 2));
    cudaDeviceSynchronize();
}

struct Case {
    const char *name;
    void (*run)();
    bool alone; // needs a process of its own
};

const Case cases[] = {
    {"launches", launches, false},
    {"parameters", parameters, false},
    {"dynamic_shared", dynamic_shared, false},
    {"clusters", clusters, false},
    {"memory", memory, false},
    {"pitched", pitched, false},
    {"pinned", pinned, false},
    {"symbols", symbols, false},
    {"streams", streams, false},
    {"default_stream", default_stream, false},
    {"pools", pools, false},
    {"device", device, false},
    {"tensor_maps", tensor_maps, false},
    {"graphs", graphs, false},
    {"no_device", no_device, true},
    {"no_driver", no_driver, true},
    {"old_device", old_device, true},
    {"small_memory", small_memory, true},
    {"fault", fault, true},
    {"print", print, true},
    {"device_assert", device_assert, true},
    {"read_null", read_null, true},
    {"read_freed", read_freed, true},
    {"read_misaligned", read_misaligned, true},
};

} // namespace

int main(int argc, char **argv)
{
    int ran = 0;
    for (const Case &c : cases) {
        if (argc > 1 ? strcmp(c.name, argv[1]) != 0 : c.alone) continue;
        const int before = failures;
        c.run();
        ++ran;
        printf("%s: %s\n", c.name, failures == before ? "ok" : "FAILED");
    }
    return failures != 0 || ran == 0;
}
