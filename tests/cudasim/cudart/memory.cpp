// memory.cpp -- allocation on device and host, copies, fills, symbols, pools.
//
// A pointer is device memory when it lies in an allocation or a __device__ variable, pinned when
// the host has allocated or registered it through this API, and plain host memory otherwise.
// Every range is checked against its allocation before anything is touched.
//
// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>
#include "tests/cudasim/cudart/runtime.h"

namespace cudasim
{
namespace rt
{

namespace
{

struct Range {
    size_t bytes;
    bool ours; // to be freed by us; false: registered
};

struct Memory {
    std::map<uintptr_t, Range> pinned;
    std::map<uintptr_t, size_t> freed; // device allocations that are gone
    std::map<uintptr_t, bool> live;    // device allocations; true: managed
    size_t used = 0;
    size_t total = env_number("CUDASIM_MEMORY_MB", 81079) << 20;
};

Memory &memory()
{
    static Memory *const m = new Memory;
    return *m;
}

// The entry of a map from first address to a size that `at` lies in.
template <class Map, class Size> typename Map::iterator find_range(Map &m, uintptr_t at, Size size)
{
    auto it = m.upper_bound(at);
    if (it == m.begin()) return m.end();
    --it;
    return at - it->first < size(it->second) ? it : m.end();
}

cudaError_t outside(const char *what, const void *p, size_t n, const void *base, size_t bytes)
{
    return misuse(cudaErrorInvalidValue,
                  "%s: %zu bytes at %p leave the allocation of %zu bytes at %p", what, n, p, bytes,
                  base);
}

cudaError_t allocate(void **out, size_t bytes, bool managed)
{
    CHECK(check_device());
    if (out == nullptr) return fail(cudaErrorInvalidValue);
    *out = nullptr;
    if (bytes == 0) return cudaSuccess;
    Memory &m = memory();
    if (bytes > m.total - m.used) return fail(cudaErrorMemoryAllocation);
    void *const p = mem_alloc(bytes);
    if (p == nullptr) return fail(cudaErrorMemoryAllocation);
    m.used += bytes;
    m.live[reinterpret_cast<uintptr_t>(p)] = managed;
    m.freed.erase(reinterpret_cast<uintptr_t>(p));
    *out = p;
    return cudaSuccess;
}

cudaError_t check_allocated(const char *what, const void *p)
{
    const auto at = reinterpret_cast<uintptr_t>(p);
    if (memory().live.count(at) != 0) return cudaSuccess;
    if (memory().freed.count(at) != 0) {
        return misuse(cudaErrorInvalidValue, "%s: %p was freed before", what, p);
    }
    return misuse(cudaErrorInvalidValue, "%s: %p is no device allocation", what, p);
}

void release(void *p)
{
    void *base = nullptr;
    size_t bytes = 0;
    Memory &m = memory();
    if (m.live.erase(reinterpret_cast<uintptr_t>(p)) == 0) return;
    mem_find(p, &base, &bytes);
    m.used -= bytes;
    m.freed[reinterpret_cast<uintptr_t>(p)] = bytes;
    mem_free(p);
}

bool wrong_side(cudaMemcpyKind kind, bool dst_device, bool src_device)
{
    switch (kind) {
    case cudaMemcpyHostToHost: return dst_device || src_device;
    case cudaMemcpyHostToDevice: return !dst_device || src_device;
    case cudaMemcpyDeviceToHost: return dst_device || !src_device;
    case cudaMemcpyDeviceToDevice: return !dst_device || !src_device;
    default: return false;
    }
}

const char *side(Space s)
{
    return s == Space::DEVICE ? "device" : "host";
}

struct Copy2d {
    char *dst;
    const char *src;
    size_t dst_pitch, src_pitch, width, height;
};

void do_copy(const Copy2d &c, bool to_device)
{
    for (size_t y = 0; y < c.height; ++y) {
        char *const to = c.dst + y * c.dst_pitch;
        memmove(to, c.src + y * c.src_pitch, c.width);
        if (to_device) mem_host_write(to, c.width);
    }
}

size_t span(size_t pitch, size_t width, size_t height)
{
    return height == 0 || width == 0 ? 0 : pitch * (height - 1) + width;
}

cudaError_t copy(const char *what, const Copy2d &c, cudaMemcpyKind kind, cudaStream_t s,
                 bool is_async)
{
    CHECK(check_device());
    const size_t dst_bytes = span(c.dst_pitch, c.width, c.height);
    const size_t src_bytes = span(c.src_pitch, c.width, c.height);
    if (dst_bytes == 0) return cudaSuccess;
    Space to = Space::HOST, from = Space::HOST;
    CHECK(locate(what, c.dst, dst_bytes, &to));
    CHECK(locate(what, c.src, src_bytes, &from));
    if (wrong_side(kind, to == Space::DEVICE, from == Space::DEVICE)) {
        return misuse(cudaErrorInvalidValue, "%s: kind %d, but from %s memory %p to %s memory %p",
                      what, static_cast<int>(kind), side(from), static_cast<const void *>(c.src),
                      side(to), static_cast<void *>(c.dst));
    }
    const bool device = to == Space::DEVICE;
    if (is_async && from == Space::HOST && device) { // pageable: staged before the call returns
        auto staged = std::make_shared<std::vector<char>>(src_bytes);
        memcpy(staged->data(), c.src, src_bytes);
        return enqueue(s, [c, staged] {
            Copy2d d = c;
            d.src = staged->data();
            do_copy(d, true);
        });
    }
    CHECK(enqueue(s, [c, device] { do_copy(c, device); }));
    return is_async && to != Space::HOST ? cudaSuccess : finish(s);
}

Copy2d flat(void *dst, const void *src, size_t n)
{
    return {static_cast<char *>(dst), static_cast<const char *>(src), n, n, n, 1};
}

cudaError_t fill(const char *what, void *p, size_t pitch, int value, size_t width, size_t height,
                 cudaStream_t s, bool is_async)
{
    CHECK(check_device());
    const size_t bytes = span(pitch, width, height);
    if (bytes == 0) return cudaSuccess;
    Space at = Space::HOST;
    CHECK(locate(what, p, bytes, &at));
    if (at == Space::HOST) {
        return misuse(cudaErrorInvalidValue, "%s: %p is host memory", what, p);
    }
    CHECK(enqueue(s, [=] {
        for (size_t y = 0; y < height; ++y) {
            char *const row = static_cast<char *>(p) + y * pitch;
            memset(row, value, width);
            mem_host_write(row, width);
        }
    }));
    return is_async ? cudaSuccess : finish(s);
}

cudaError_t symbol_range(const char *what, const void *symbol, size_t n, size_t offset, char **out)
{
    CHECK(check_device());
    const DeviceVariable *const v = find_variable(symbol);
    if (v == nullptr) {
        return misuse(cudaErrorInvalidSymbol, "%s: %p is no device variable", what, symbol);
    }
    if (offset > v->bytes || n > v->bytes - offset) {
        return misuse(cudaErrorInvalidValue, "%s: %zu bytes at %zu of %s, which has %zu", what, n,
                      offset, v->name, v->bytes);
    }
    *out = static_cast<char *>(v->address) + offset;
    return cudaSuccess;
}

cudaError_t pin(void **out, size_t bytes)
{
    CHECK(check_device());
    if (out == nullptr) return fail(cudaErrorInvalidValue);
    *out = nullptr;
    if (bytes == 0) return cudaSuccess;
    void *const p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (p == nullptr) return fail(cudaErrorMemoryAllocation);
    memory().pinned[reinterpret_cast<uintptr_t>(p)] = {bytes, true};
    *out = p;
    return cudaSuccess;
}

} // namespace

cudaError_t locate(const char *what, const void *p, size_t n, Space *space)
{
    const auto at = reinterpret_cast<uintptr_t>(p);
    void *base = nullptr;
    size_t bytes = 0;
    if (p == nullptr) return misuse(cudaErrorInvalidValue, "%s: a null pointer", what);
    *space = Space::DEVICE;
    if (mem_find(p, &base, &bytes)) {
        const size_t left = bytes - (at - reinterpret_cast<uintptr_t>(base));
        return n <= left ? cudaSuccess : outside(what, p, n, base, bytes);
    }
    if (const DeviceVariable *const v = variable_at(p)) {
        const size_t left = v->bytes - (at - reinterpret_cast<uintptr_t>(v->address));
        return n <= left ? cudaSuccess : outside(what, p, n, v->address, v->bytes);
    }
    Memory &m = memory();
    const auto pinned = find_range(m.pinned, at, [](const Range &r) { return r.bytes; });
    if (pinned != m.pinned.end()) {
        *space = Space::PINNED;
        const size_t left = pinned->second.bytes - (at - pinned->first);
        if (n <= left) return cudaSuccess;
        return outside(what, p, n, reinterpret_cast<void *>(pinned->first), pinned->second.bytes);
    }
    *space = Space::HOST;
    return cudaSuccess;
}

} // namespace rt
} // namespace cudasim

using namespace cudasim;
using namespace cudasim::rt;

extern "C" {

// ---- allocation ----
cudaError_t CUDARTAPI cudaMalloc(void **out, size_t bytes)
{
    return allocate(out, bytes, false);
}

cudaError_t CUDARTAPI cudaMallocManaged(void **out, size_t bytes, unsigned)
{
    return allocate(out, bytes, true);
}

cudaError_t CUDARTAPI cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height)
{
    *pitch = (width + 511) / 512 * 512;
    return allocate(out, *pitch * height, false);
}

cudaError_t CUDARTAPI cudaFree(void *p)
{
    CHECK(check_device());
    if (p == nullptr) return cudaSuccess;
    CHECK(check_allocated("cudaFree", p));
    finish_all(); // as the driver does
    release(p);
    return sticky();
}

cudaError_t CUDARTAPI cudaMallocHost(void **out, size_t bytes)
{
    return pin(out, bytes);
}

cudaError_t CUDARTAPI cudaHostAlloc(void **out, size_t bytes, unsigned)
{
    return pin(out, bytes);
}

cudaError_t CUDARTAPI cudaFreeHost(void *p)
{
    CHECK(check_device());
    if (p == nullptr) return cudaSuccess;
    const auto it = memory().pinned.find(reinterpret_cast<uintptr_t>(p));
    if (it == memory().pinned.end() || !it->second.ours) {
        return misuse(cudaErrorInvalidValue, "cudaFreeHost: %p is not of cudaMallocHost", p);
    }
    finish_all();
    memory().pinned.erase(it);
    free(p);
    return sticky();
}

cudaError_t CUDARTAPI cudaHostRegister(void *p, size_t bytes, unsigned)
{
    CHECK(check_device());
    if (p == nullptr || bytes == 0) return fail(cudaErrorInvalidValue);
    Space at = Space::HOST;
    CHECK(locate("cudaHostRegister", p, bytes, &at));
    if (at != Space::HOST) return fail(cudaErrorHostMemoryAlreadyRegistered);
    memory().pinned[reinterpret_cast<uintptr_t>(p)] = {bytes, false};
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaHostUnregister(void *p)
{
    CHECK(check_device());
    const auto it = memory().pinned.find(reinterpret_cast<uintptr_t>(p));
    if (it == memory().pinned.end() || it->second.ours) {
        return fail(cudaErrorHostMemoryNotRegistered);
    }
    finish_all();
    memory().pinned.erase(it);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaHostGetDevicePointer(void **out, void *host, unsigned)
{
    CHECK(check_device());
    Space at = Space::HOST;
    CHECK(locate("cudaHostGetDevicePointer", host, 1, &at));
    if (at != Space::PINNED) return fail(cudaErrorInvalidValue);
    *out = host;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    CHECK(check_device());
    *total = memory().total;
    *free_bytes = memory().total - memory().used;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaPointerGetAttributes(cudaPointerAttributes *out, const void *p)
{
    CHECK(check_device());
    *out = cudaPointerAttributes();
    out->hostPointer = const_cast<void *>(p);
    Space at = Space::HOST;
    if (p == nullptr || locate("cudaPointerGetAttributes", p, 0, &at) != cudaSuccess)
        return cudaSuccess;
    if (at == Space::HOST) {
        out->device = -2;
        return cudaSuccess;
    }
    const auto live = memory().live.find(reinterpret_cast<uintptr_t>(p));
    const bool managed = live != memory().live.end() && live->second;
    out->type = at == Space::PINNED ? cudaMemoryTypeHost
                : managed           ? cudaMemoryTypeManaged
                                    : cudaMemoryTypeDevice;
    out->devicePointer = const_cast<void *>(p);
    if (out->type == cudaMemoryTypeDevice) out->hostPointer = nullptr;
    return cudaSuccess;
}

// ---- pools: stream-ordered allocation ----
cudaError_t CUDARTAPI cudaMallocAsync(void **out, size_t bytes, cudaStream_t)
{
    return allocate(out, bytes, false);
}

cudaError_t CUDARTAPI cudaMallocFromPoolAsync(void **out, size_t bytes, cudaMemPool_t, cudaStream_t)
{
    return allocate(out, bytes, false);
}

cudaError_t CUDARTAPI cudaFreeAsync(void *p, cudaStream_t s)
{
    CHECK(check_device());
    if (p == nullptr) return cudaSuccess;
    CHECK(check_allocated("cudaFreeAsync", p));
    return enqueue(s, [p] { release(p); });
}

cudaError_t CUDARTAPI cudaDeviceGetDefaultMemPool(cudaMemPool_t *out, int)
{
    static char pool;
    CHECK(check_device());
    *out = reinterpret_cast<cudaMemPool_t>(&pool);
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaDeviceGetMemPool(cudaMemPool_t *out, int device)
{
    return cudaDeviceGetDefaultMemPool(out, device);
}

cudaError_t CUDARTAPI cudaDeviceSetMemPool(int, cudaMemPool_t)
{
    return check_device();
}

cudaError_t CUDARTAPI cudaMemPoolCreate(cudaMemPool_t *out, const cudaMemPoolProps *)
{
    return cudaDeviceGetDefaultMemPool(out, 0);
}

cudaError_t CUDARTAPI cudaMemPoolDestroy(cudaMemPool_t)
{
    return check_device();
}

cudaError_t CUDARTAPI cudaMemPoolTrimTo(cudaMemPool_t, size_t)
{
    return check_device();
}

cudaError_t CUDARTAPI cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void *)
{
    return check_device();
}

cudaError_t CUDARTAPI cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void *value)
{
    CHECK(check_device());
    const uint64_t used = memory().used;
    memcpy(value, &used, sizeof used);
    return cudaSuccess;
}

// ---- copies ----
cudaError_t CUDARTAPI cudaMemcpy(void *dst, const void *src, size_t n, cudaMemcpyKind kind)
{
    return copy("cudaMemcpy", flat(dst, src, n), kind, nullptr, false);
}

cudaError_t CUDARTAPI cudaMemcpyAsync(void *dst, const void *src, size_t n, cudaMemcpyKind kind,
                                      cudaStream_t s)
{
    return copy("cudaMemcpyAsync", flat(dst, src, n), kind, s, true);
}

cudaError_t CUDARTAPI cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch,
                                   size_t width, size_t height, cudaMemcpyKind kind)
{
    if (width > dpitch || width > spitch) return fail(cudaErrorInvalidPitchValue);
    return copy(
        "cudaMemcpy2D",
        {static_cast<char *>(dst), static_cast<const char *>(src), dpitch, spitch, width, height},
        kind, nullptr, false);
}

cudaError_t CUDARTAPI cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                                        size_t width, size_t height, cudaMemcpyKind kind,
                                        cudaStream_t s)
{
    if (width > dpitch || width > spitch) return fail(cudaErrorInvalidPitchValue);
    return copy(
        "cudaMemcpy2DAsync",
        {static_cast<char *>(dst), static_cast<const char *>(src), dpitch, spitch, width, height},
        kind, s, true);
}

cudaError_t CUDARTAPI cudaMemset(void *p, int value, size_t n)
{
    return fill("cudaMemset", p, n, value, n, 1, nullptr, false);
}

cudaError_t CUDARTAPI cudaMemsetAsync(void *p, int value, size_t n, cudaStream_t s)
{
    return fill("cudaMemsetAsync", p, n, value, n, 1, s, true);
}

cudaError_t CUDARTAPI cudaMemset2D(void *p, size_t pitch, int value, size_t width, size_t height)
{
    return fill("cudaMemset2D", p, pitch, value, width, height, nullptr, false);
}

cudaError_t CUDARTAPI cudaMemset2DAsync(void *p, size_t pitch, int value, size_t width,
                                        size_t height, cudaStream_t s)
{
    return fill("cudaMemset2DAsync", p, pitch, value, width, height, s, true);
}

// ---- symbols ----
cudaError_t CUDARTAPI cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t n,
                                              size_t offset, cudaMemcpyKind kind, cudaStream_t s)
{
    char *at = nullptr;
    CHECK(symbol_range("cudaMemcpyToSymbol", symbol, n, offset, &at));
    return copy("cudaMemcpyToSymbol", flat(at, src, n), kind, s, true);
}

cudaError_t CUDARTAPI cudaMemcpyToSymbol(const void *symbol, const void *src, size_t n,
                                         size_t offset, cudaMemcpyKind kind)
{
    char *at = nullptr;
    CHECK(symbol_range("cudaMemcpyToSymbol", symbol, n, offset, &at));
    return copy("cudaMemcpyToSymbol", flat(at, src, n), kind, nullptr, false);
}

cudaError_t CUDARTAPI cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t n,
                                                size_t offset, cudaMemcpyKind kind, cudaStream_t s)
{
    char *at = nullptr;
    CHECK(symbol_range("cudaMemcpyFromSymbol", symbol, n, offset, &at));
    return copy("cudaMemcpyFromSymbol", flat(dst, at, n), kind, s, true);
}

cudaError_t CUDARTAPI cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t n, size_t offset,
                                           cudaMemcpyKind kind)
{
    char *at = nullptr;
    CHECK(symbol_range("cudaMemcpyFromSymbol", symbol, n, offset, &at));
    return copy("cudaMemcpyFromSymbol", flat(dst, at, n), kind, nullptr, false);
}

} // extern "C"
