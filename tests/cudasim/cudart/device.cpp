// device.cpp -- the device: an H100 SXM with 80 GB, its properties, and the driver's entry points.
//
// SPDX-License-Identifier: MIT
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include "tests/cudasim/cudart/runtime.h"

namespace cudasim
{
namespace rt
{

namespace
{

enum { VERSION = 13000, OLD_VERSION = 12020 };

int capability()
{
    return static_cast<int>(env_number("CUDASIM_CC", 90));
}

size_t memory_bytes()
{
    return env_number("CUDASIM_MEMORY_MB", 81079) << 20;
}

struct Attribute {
    cudaDeviceAttr attr;
    int value;
};

const Attribute attributes[] = {
    {cudaDevAttrMaxThreadsPerBlock, 1024},
    {cudaDevAttrMaxBlockDimX, 1024},
    {cudaDevAttrMaxBlockDimY, 1024},
    {cudaDevAttrMaxBlockDimZ, 64},
    {cudaDevAttrMaxGridDimX, 0x7fffffff},
    {cudaDevAttrMaxGridDimY, 65535},
    {cudaDevAttrMaxGridDimZ, 65535},
    {cudaDevAttrMaxSharedMemoryPerBlock, SMEM_STATIC_MAX},
    {cudaDevAttrMaxSharedMemoryPerBlockOptin, SMEM_MAX},
    {cudaDevAttrMaxSharedMemoryPerMultiprocessor, 228 * 1024},
    {cudaDevAttrReservedSharedMemoryPerBlock, 1024},
    {cudaDevAttrTotalConstantMemory, 65536},
    {cudaDevAttrWarpSize, 32},
    {cudaDevAttrMaxPitch, 0x7fffffff},
    {cudaDevAttrMaxRegistersPerBlock, 65536},
    {cudaDevAttrMaxRegistersPerMultiprocessor, 65536},
    {cudaDevAttrClockRate, 1980000},
    {cudaDevAttrMemoryClockRate, 2619000},
    {cudaDevAttrGlobalMemoryBusWidth, 5120},
    {cudaDevAttrL2CacheSize, 50 << 20},
    {cudaDevAttrMaxPersistingL2CacheSize, 31 << 20},
    {cudaDevAttrMultiProcessorCount, 132},
    {cudaDevAttrMaxThreadsPerMultiProcessor, 2048},
    {cudaDevAttrMaxBlocksPerMultiprocessor, 32},
    {cudaDevAttrTextureAlignment, 512},
    {cudaDevAttrConcurrentKernels, 1},
    {cudaDevAttrAsyncEngineCount, 3},
    {cudaDevAttrEccEnabled, 1},
    {cudaDevAttrUnifiedAddressing, 1},
    {cudaDevAttrManagedMemory, 1},
    {cudaDevAttrConcurrentManagedAccess, 1},
    {cudaDevAttrCanMapHostMemory, 1},
    {cudaDevAttrHostRegisterSupported, 1},
    {cudaDevAttrStreamPrioritiesSupported, 1},
    {cudaDevAttrCooperativeLaunch, 1},
    {cudaDevAttrClusterLaunch, 1},
    {cudaDevAttrMemoryPoolsSupported, 1},
    {cudaDevAttrIntegrated, 0},
    {cudaDevAttrKernelExecTimeout, 0},
    {cudaDevAttrComputeMode, cudaComputeModeDefault},
    {cudaDevAttrPageableMemoryAccess, 0},
    {cudaDevAttrGPUDirectRDMASupported, 1},
    {cudaDevAttrSingleToDoublePrecisionPerfRatio, 2},
    {cudaDevAttrPciBusId, 1},
    {cudaDevAttrPciDeviceId, 0},
    {cudaDevAttrPciDomainId, 0},
};

int attribute(cudaDeviceAttr attr, bool *known)
{
    *known = true;
    if (attr == cudaDevAttrComputeCapabilityMajor) return capability() / 10;
    if (attr == cudaDevAttrComputeCapabilityMinor) return capability() % 10;
    for (const Attribute &a : attributes) {
        if (a.attr == attr) return a.value;
    }
    *known = false;
    return 0;
}

int get(cudaDeviceAttr attr)
{
    bool known = false;
    return attribute(attr, &known);
}

cudaError_t check_number(int device)
{
    CHECK(check_device());
    return device == 0 ? cudaSuccess : fail(cudaErrorInvalidDevice);
}

void fill_limits(cudaDeviceProp *p)
{
    p->sharedMemPerBlock = SMEM_STATIC_MAX;
    p->sharedMemPerBlockOptin = SMEM_MAX;
    p->sharedMemPerMultiprocessor = 228 * 1024;
    p->reservedSharedMemPerBlock = 1024;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    p->warpSize = 32;
    p->memPitch = 0x7fffffff;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->totalConstMem = 65536;
    p->textureAlignment = 512;
    p->maxThreadsPerMultiProcessor = 2048;
    p->maxBlocksPerMultiProcessor = 32;
}

// ---- the driver's functions that a program may ask for ----
CUresult encode_tiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                      const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
                      const cuuint32_t *element_strides, CUtensorMapInterleave interleave,
                      CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                      CUtensorMapFloatOOBfill fill)
{
    if (dims == nullptr || box == nullptr || element_strides == nullptr || rank < 1 || rank > 5 ||
        (rank > 1 && strides == nullptr)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    uint64_t d[5] = {}, s[5] = {};
    for (unsigned i = 0; i < rank; ++i) d[i] = dims[i];
    for (unsigned i = 0; i + 1 < rank; ++i) s[i] = strides[i];
    TensorMapArgs a = {};
    a.data_type = static_cast<int>(type);
    a.rank = rank;
    a.address = address;
    a.dims = d;
    a.strides = s;
    a.box = box;
    a.element_strides = element_strides;
    a.interleave = static_cast<int>(interleave);
    a.swizzle = static_cast<int>(swizzle);
    a.l2 = static_cast<int>(l2);
    a.oob_fill = static_cast<int>(fill);
    return static_cast<CUresult>(tensor_map_encode(map, a));
}

CUresult driver_version(int *version)
{
    *version = VERSION;
    return CUDA_SUCCESS;
}

CUresult driver_error_text(CUresult e, const char **text)
{
    *text = cudaGetErrorString(static_cast<cudaError_t>(e)); // the codes are the same
    return CUDA_SUCCESS;
}

CUresult driver_error_name(CUresult e, const char **name)
{
    *name = cudaGetErrorName(static_cast<cudaError_t>(e));
    return CUDA_SUCCESS;
}

struct DriverFunction {
    const char *name;
    void *address;
};

const DriverFunction driver_functions[] = {
    {"cuTensorMapEncodeTiled", reinterpret_cast<void *>(encode_tiled)},
    {"cuDriverGetVersion", reinterpret_cast<void *>(driver_version)},
    {"cuGetErrorString", reinterpret_cast<void *>(driver_error_text)},
    {"cuGetErrorName", reinterpret_cast<void *>(driver_error_name)},
};

cudaError_t driver_function(const char *symbol, void **out, cudaDriverEntryPointQueryResult *status)
{
    if (symbol == nullptr || out == nullptr) return fail(cudaErrorInvalidValue);
    *out = nullptr;
    CHECK(check_device());
    if (status != nullptr) *status = cudaDriverEntryPointSymbolNotFound;
    for (const DriverFunction &f : driver_functions) {
        if (strcmp(symbol, f.name) != 0) continue;
        *out = f.address;
        if (status != nullptr) *status = cudaDriverEntryPointSuccess;
    }
    return cudaSuccess;
}

} // namespace

} // namespace rt
} // namespace cudasim

using namespace cudasim;
using namespace cudasim::rt;

extern "C" {

cudaError_t CUDARTAPI cudaGetDeviceCount(int *count)
{
    CHECK(check_device());
    *count = 1;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaSetDevice(int device)
{
    return check_number(device);
}

cudaError_t CUDARTAPI cudaInitDevice(int device, unsigned, unsigned)
{
    return check_number(device);
}

cudaError_t CUDARTAPI cudaGetDevice(int *device)
{
    CHECK(check_device());
    *device = 0;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaSetDeviceFlags(unsigned)
{
    return check_device();
}

cudaError_t CUDARTAPI cudaDeviceReset(void)
{
    CHECK(check_device());
    finish_all();
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaRuntimeGetVersion(int *version)
{
    *version = VERSION;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDriverGetVersion(int *version)
{
    const char *const driver = getenv("CUDASIM_DRIVER");
    *version = VERSION;
    if (driver != nullptr && strcmp(driver, "none") == 0) *version = 0;
    if (driver != nullptr && strcmp(driver, "old") == 0) *version = OLD_VERSION;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceGetAttribute(int *value, cudaDeviceAttr attr, int device)
{
    CHECK(check_number(device));
    bool known = false;
    *value = attribute(attr, &known);
    return known ? cudaSuccess
                 : misuse(cudaErrorInvalidValue, "device attribute %d is not known here",
                          static_cast<int>(attr));
}

cudaError_t CUDARTAPI cudaGetDeviceProperties(cudaDeviceProp *p, int device)
{
    CHECK(check_number(device));
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "Simulated H100");
    p->totalGlobalMem = memory_bytes();
    p->major = capability() / 10;
    p->minor = capability() % 10;
    p->multiProcessorCount = get(cudaDevAttrMultiProcessorCount);
    p->memoryBusWidth = get(cudaDevAttrGlobalMemoryBusWidth);
    p->l2CacheSize = get(cudaDevAttrL2CacheSize);
    p->persistingL2CacheMaxSize = get(cudaDevAttrMaxPersistingL2CacheSize);
    p->asyncEngineCount = get(cudaDevAttrAsyncEngineCount);
    p->pciBusID = 1;
    p->concurrentKernels = p->ECCEnabled = p->unifiedAddressing = p->managedMemory = 1;
    p->canMapHostMemory = p->hostRegisterSupported = p->streamPrioritiesSupported = 1;
    p->cooperativeLaunch = p->clusterLaunch = p->memoryPoolsSupported = 1;
    p->concurrentManagedAccess = p->globalL1CacheSupported = p->localL1CacheSupported = 1;
    fill_limits(p);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceGetPCIBusId(char *out, int n, int device)
{
    CHECK(check_number(device));
    snprintf(out, static_cast<size_t>(n), "0000:01:00.0");
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceCanAccessPeer(int *can, int device, int)
{
    CHECK(check_number(device));
    *can = 0;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceSetLimit(cudaLimit, size_t)
{
    return check_device();
}

cudaError_t CUDARTAPI cudaDeviceGetLimit(size_t *value, cudaLimit)
{
    CHECK(check_device());
    *value = 0;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceSetCacheConfig(cudaFuncCache)
{
    return check_device();
}

cudaError_t CUDARTAPI cudaProfilerStart(void)
{
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaProfilerStop(void)
{
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(const char *symbol, void **out, unsigned,
                                                       unsigned long long,
                                                       cudaDriverEntryPointQueryResult *status)
{
    return driver_function(symbol, out, status);
}

} // extern "C"
