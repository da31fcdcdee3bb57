// launch.cpp -- launches: their checks, the copy of the parameters, kernel attributes, occupancy.
//
// The limits are those of an H100: 48 KiB of shared memory unless cudaFuncSetAttribute raises the
// dynamic part (up to 227 KiB in all), clusters of 8 blocks (16 where the kernel allows it).
// Registers are not simulated: a kernel counts as many as its launch bounds leave, 64 without.
//
// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>
#include "tests/cudasim/cudart/runtime.h"

namespace cudasim
{
namespace rt
{

namespace
{

enum {
    REGISTERS = 65536,
    SM_THREADS = 2048,
    SM_BLOCKS = 32,
    SMS = 132,
    SM_SMEM = 228 * 1024,
    SMEM_RESERVED = 1024,
    CLUSTER_PORTABLE = 8,
    CLUSTER_MAX = 16
};

struct Config {
    dim3 grid, block;
    size_t smem = 0;
    cudaStream_t stream = nullptr;
    dim3 cluster = dim3(0, 0, 0); // 0: not given
    bool cooperative = false;
};

unsigned threads_of(const Dim3 &d)
{
    return d.x * d.y * d.z;
}

unsigned max_threads(const Kernel &k)
{
    const unsigned bound = threads_of(k.max_threads);
    return bound != 0 ? bound : 1024;
}

int registers_of(const Kernel &k)
{
    const unsigned bound = threads_of(k.max_threads);
    const unsigned share = bound != 0 ? REGISTERS / bound / 8 * 8 : 64;
    return static_cast<int>(share < 255 ? share : 255);
}

int max_dynamic(const Function &f)
{
    const int left = SMEM_STATIC_MAX - static_cast<int>(f.kernel->static_smem);
    return f.max_dynamic_smem >= 0 ? f.max_dynamic_smem : left;
}

int blocks_per_sm(const Function &f, int block_size, size_t dynamic)
{
    const Kernel &k = *f.kernel;
    if (block_size <= 0 || block_size > static_cast<int>(max_threads(k))) return 0;
    if (dynamic > static_cast<size_t>(max_dynamic(f))) return 0;
    const int warps = (block_size + 31) / 32;
    const int by_threads = SM_THREADS / (warps * 32);
    const int by_registers = REGISTERS / (registers_of(k) * warps * 32);
    const int by_smem = static_cast<int>(SM_SMEM / (k.static_smem + dynamic + SMEM_RESERVED));
    int n = SM_BLOCKS;
    for (const int limit : {by_threads, by_registers, by_smem}) n = limit < n ? limit : n;
    return n;
}

cudaError_t check_cluster(const Function &f, const Config &c, Dim3 *cluster)
{
    const Dim3 fixed = f.kernel->cluster;
    *cluster = threads_of(fixed) != 0 ? fixed : Dim3{1, 1, 1};
    if (c.cluster.x != 0) {
        const Dim3 given = {c.cluster.x, c.cluster.y, c.cluster.z};
        if (threads_of(fixed) != 0 && memcmp(&fixed, &given, sizeof fixed) != 0) {
            return misuse(cudaErrorInvalidClusterSize, "%s: a cluster other than __cluster_dims__",
                          f.kernel->name);
        }
        *cluster = given;
    }
    const unsigned n = threads_of(*cluster);
    if (n == 0 || n > (f.nonportable_cluster ? CLUSTER_MAX : CLUSTER_PORTABLE)) {
        return misuse(cudaErrorInvalidClusterSize, "%s: a cluster of %u blocks", f.kernel->name, n);
    }
    if (c.grid.x % cluster->x != 0 || c.grid.y % cluster->y != 0 || c.grid.z % cluster->z != 0) {
        return misuse(cudaErrorInvalidClusterSize, "%s: the grid is no multiple of the cluster",
                      f.kernel->name);
    }
    return cudaSuccess;
}

cudaError_t check(const Function &f, const Config &c, Dim3 *cluster)
{
    const Kernel &k = *f.kernel;
    const uint64_t threads = static_cast<uint64_t>(c.block.x) * c.block.y * c.block.z;
    if (threads == 0 || threads > 1024 || c.block.z > 64 || c.grid.x == 0 || c.grid.y == 0 ||
        c.grid.z == 0 || c.grid.x > 0x7fffffffu || c.grid.y > 65535 || c.grid.z > 65535) {
        return misuse(cudaErrorInvalidConfiguration,
                      "%s: a grid of %u x %u x %u blocks of %u x %u x %u threads", k.name, c.grid.x,
                      c.grid.y, c.grid.z, c.block.x, c.block.y, c.block.z);
    }
    if (threads > max_threads(k)) {
        return misuse(cudaErrorLaunchOutOfResources,
                      "%s: %u threads in a block, __launch_bounds__ says %u", k.name,
                      static_cast<unsigned>(threads), max_threads(k));
    }
    if (c.smem > static_cast<size_t>(max_dynamic(f))) {
        return misuse(cudaErrorInvalidValue,
                      "%s: %zu bytes of dynamic shared memory, %d allowed "
                      "(cudaFuncAttributeMaxDynamicSharedMemorySize), %zu static",
                      k.name, c.smem, max_dynamic(f), k.static_smem);
    }
    if (c.cooperative) {
        const uint64_t most =
            static_cast<uint64_t>(SMS) *
            static_cast<uint64_t>(blocks_per_sm(f, static_cast<int>(threads), c.smem));
        if (static_cast<uint64_t>(c.grid.x) * c.grid.y * c.grid.z > most) {
            return fail(cudaErrorCooperativeLaunchTooLarge);
        }
    }
    return check_cluster(f, c, cluster);
}

// The parameters as the kernel sees them, aligned to 128 bytes for tensor maps.
struct Params {
    std::unique_ptr<char, void (*)(void *)> bytes{nullptr, free};
};

Params copy_params(const Kernel &k, void **args)
{
    Params p;
    const size_t n = (k.param_bytes + 128) / 128 * 128;
    p.bytes.reset(static_cast<char *>(aligned_alloc(128, n)));
    memset(p.bytes.get(), 0, n);
    for (unsigned i = 0; i < k.param_count; ++i) {
        memcpy(p.bytes.get() + k.params[i].offset, args[i], k.params[i].bytes);
    }
    return p;
}

cudaError_t launch_kernel(Function *f, const Config &c, void **args)
{
    static uint64_t launches;
    CHECK(check_device());
    if (f == nullptr) {
        return misuse(cudaErrorInvalidDeviceFunction, "a launch of something that is no kernel");
    }
    const Kernel &k = *f->kernel;
    Dim3 cluster = {1, 1, 1};
    CHECK(check(*f, c, &cluster));
    if (k.param_count > 0 && args == nullptr) return fail(cudaErrorInvalidValue);
    watch_variables();
    const bool fault = ++launches == env_number("CUDASIM_FAULT", 0);
    const auto params = std::make_shared<Params>(copy_params(k, args));
    return enqueue(c.stream, [=, &k] {
        if (fault) {
            set_sticky(cudaErrorIllegalAddress);
            return;
        }
        if (sticky() != cudaSuccess) return;
        Launch l = {};
        l.name = k.name;
        l.grid = {c.grid.x, c.grid.y, c.grid.z};
        l.block = {c.block.x, c.block.y, c.block.z};
        l.cluster = cluster;
        l.dyn_smem = c.smem;
        l.static_smem = k.static_smem;
        l.body = k.body;
        l.arg = params->bytes.get();
        if (launch(l) != LaunchError::NONE) set_sticky(cudaErrorLaunchFailure);
    });
}

thread_local std::vector<Config> pushed; // <<<>>> configurations not yet taken

} // namespace

} // namespace rt
} // namespace cudasim

using namespace cudasim;
using namespace cudasim::rt;

extern "C" {

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t smem, cudaStream_t stream)
{
    Config c;
    c.grid = grid;
    c.block = block;
    c.smem = smem;
    c.stream = stream;
    pushed.push_back(c);
    return 0;
}

cudaError_t CUDARTAPI __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *smem,
                                                 void *stream)
{
    if (pushed.empty()) return fail(cudaErrorInvalidConfiguration);
    const Config c = pushed.back();
    pushed.pop_back();
    *grid = c.grid;
    *block = c.block;
    *smem = c.smem;
    memcpy(stream, &c.stream, sizeof c.stream);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **args,
                                       size_t smem, cudaStream_t stream)
{
    Config c;
    c.grid = grid;
    c.block = block;
    c.smem = smem;
    c.stream = stream;
    return launch_kernel(find_function(func), c, args);
}

cudaError_t CUDARTAPI __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
                                         size_t smem, cudaStream_t stream)
{
    return cudaLaunchKernel(kernel, grid, block, args, smem, stream);
}

cudaError_t CUDARTAPI cudaLaunchCooperativeKernel(const void *func, dim3 grid, dim3 block,
                                                  void **args, size_t smem, cudaStream_t stream)
{
    Config c;
    c.grid = grid;
    c.block = block;
    c.smem = smem;
    c.stream = stream;
    c.cooperative = true;
    return launch_kernel(find_function(func), c, args);
}

cudaError_t CUDARTAPI cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func,
                                          void **args)
{
    if (config == nullptr) return fail(cudaErrorInvalidValue);
    Config c;
    c.grid = config->gridDim;
    c.block = config->blockDim;
    c.smem = config->dynamicSmemBytes;
    c.stream = config->stream;
    for (unsigned i = 0; i < config->numAttrs; ++i) {
        const cudaLaunchAttribute &a = config->attrs[i];
        switch (a.id) {
        case cudaLaunchAttributeClusterDimension:
            c.cluster = dim3(a.val.clusterDim.x, a.val.clusterDim.y, a.val.clusterDim.z);
            if (c.cluster.x == 0) return fail(cudaErrorInvalidClusterSize);
            break;
        case cudaLaunchAttributeCooperative: c.cooperative = a.val.cooperative != 0; break;
        case cudaLaunchAttributeIgnore:
        case cudaLaunchAttributeAccessPolicyWindow:
        case cudaLaunchAttributeClusterSchedulingPolicyPreference:
        case cudaLaunchAttributeProgrammaticStreamSerialization:
        case cudaLaunchAttributePriority:
        case cudaLaunchAttributeMemSyncDomainMap:
        case cudaLaunchAttributeMemSyncDomain:
        case cudaLaunchAttributePreferredSharedMemoryCarveout: break;
        default:
            return misuse(cudaErrorNotSupported, "launch attribute %d is not simulated",
                          static_cast<int>(a.id));
        }
    }
    return launch_kernel(find_function(func), c, args);
}

// ---- attributes ----
cudaError_t CUDARTAPI cudaFuncSetAttribute(const void *func, cudaFuncAttribute attr, int value)
{
    CHECK(check_device());
    Function *const f = find_function(func);
    if (f == nullptr) return fail(cudaErrorInvalidDeviceFunction);
    switch (attr) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
        if (value < 0 || value + static_cast<int>(f->kernel->static_smem) > SMEM_MAX) {
            return misuse(cudaErrorInvalidValue,
                          "%s: %d bytes of dynamic and %zu of static shared memory, at most %d",
                          f->kernel->name, value, f->kernel->static_smem,
                          static_cast<int>(SMEM_MAX));
        }
        f->max_dynamic_smem = value;
        return cudaSuccess;
    case cudaFuncAttributePreferredSharedMemoryCarveout:
        if (value < -1 || value > 100) return fail(cudaErrorInvalidValue);
        f->carveout = value;
        return cudaSuccess;
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
        f->nonportable_cluster = value != 0;
        return cudaSuccess;
    default: return fail(cudaErrorInvalidValue);
    }
}

cudaError_t CUDARTAPI cudaFuncGetAttributes(cudaFuncAttributes *out, const void *func)
{
    CHECK(check_device());
    const Function *const f = find_function(func);
    if (f == nullptr || out == nullptr) return fail(cudaErrorInvalidDeviceFunction);
    const Kernel &k = *f->kernel;
    *out = cudaFuncAttributes();
    out->sharedSizeBytes = k.static_smem;
    out->localSizeBytes = k.local_bytes;
    out->maxThreadsPerBlock = static_cast<int>(max_threads(k));
    out->numRegs = registers_of(k);
    out->ptxVersion = 90;
    out->binaryVersion = 90;
    out->maxDynamicSharedSizeBytes = max_dynamic(*f);
    out->preferredShmemCarveout = f->carveout;
    out->clusterDimMustBeSet = threads_of(k.cluster) != 0;
    out->requiredClusterWidth = static_cast<int>(k.cluster.x);
    out->requiredClusterHeight = static_cast<int>(k.cluster.y);
    out->requiredClusterDepth = static_cast<int>(k.cluster.z);
    out->nonPortableClusterSizeAllowed = f->nonportable_cluster;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaFuncSetCacheConfig(const void *func, cudaFuncCache)
{
    CHECK(check_device());
    return find_function(func) != nullptr ? cudaSuccess : fail(cudaErrorInvalidDeviceFunction);
}

cudaError_t CUDARTAPI cudaFuncGetName(const char **name, const void *func)
{
    CHECK(check_device());
    const Function *const f = find_function(func);
    if (f == nullptr) return fail(cudaErrorInvalidDeviceFunction);
    *name = f->kernel->name;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *out, const void *func, int block_size, size_t dynamic, unsigned)
{
    CHECK(check_device());
    const Function *const f = find_function(func);
    if (f == nullptr) return fail(cudaErrorInvalidDeviceFunction);
    *out = blocks_per_sm(*f, block_size, dynamic);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *out, const void *func,
                                                                    int block_size, size_t dynamic)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out, func, block_size, dynamic,
                                                                  0);
}

cudaError_t CUDARTAPI cudaOccupancyMaxActiveClusters(int *out, const void *func,
                                                     const cudaLaunchConfig_t *config)
{
    int blocks = 0;
    unsigned size = 1;
    for (unsigned i = 0; i < config->numAttrs; ++i) {
        const auto &d = config->attrs[i].val.clusterDim;
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) size = d.x * d.y * d.z;
    }
    const dim3 b = config->blockDim;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, func, static_cast<int>(b.x * b.y * b.z), config->dynamicSmemBytes));
    *out = blocks * SMS / static_cast<int>(size);
    return cudaSuccess;
}

} // extern "C"
