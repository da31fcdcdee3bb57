// registry.cpp -- host addresses to kernels and variables.
//
// nvcc's host code registers, in constructors, the address by which it knows each kernel and
// variable together with the mangled name; translated files register names and code. The two meet
// here at the first use, because nothing says whose constructors run first. Nothing is ever
// destroyed: destructors of static objects may still use the runtime after main.
//
// SPDX-License-Identifier: MIT
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include "tests/cudasim/cudart/runtime.h"

namespace cudasim
{
namespace rt
{

namespace
{

struct HostVariable {
    std::string name;
    size_t bytes;
};

struct Registry {
    std::map<const void *, std::string> kernel_names;
    std::map<const void *, HostVariable> variables;
    std::map<const Kernel *, Function> functions;
    std::map<const void *, Function *> by_host;
};

Registry &registry()
{
    static Registry *const r = new Registry;
    return *r;
}

const Kernel *kernel_named(const std::string &name)
{
    for (const Kernel *k = kernel_list(); k != nullptr; k = k->next) {
        if (name == k->name) return k;
    }
    return nullptr;
}

} // namespace

Function *find_function(const void *host)
{
    Registry &r = registry();
    const auto known = r.by_host.find(host);
    if (known != r.by_host.end()) return known->second;
    const auto it = r.kernel_names.find(host);
    if (it == r.kernel_names.end()) return nullptr;
    const Kernel *const k = kernel_named(it->second);
    if (k == nullptr) {
        fprintf(stderr, "cudasim: the kernel %s has no translated code in this program\n",
                it->second.c_str());
        return nullptr;
    }
    Function *const f = &r.functions.emplace(k, Function{k, -1, false, -1}).first->second;
    r.by_host[host] = f;
    r.by_host[f] = f; // handles that __cudaGetKernel gives out
    return f;
}

const DeviceVariable *find_variable(const void *host)
{
    const auto &all = registry().variables;
    const auto it = all.find(host);
    if (it == all.end()) return nullptr;
    for (const DeviceVariable *v = variable_list(); v != nullptr; v = v->next) {
        if (it->second.name != v->name) continue;
        if (it->second.bytes != v->bytes) {
            fprintf(stderr, "cudasim: the variable %s has %zu bytes on the host, %zu translated\n",
                    v->name, it->second.bytes, v->bytes);
            return nullptr;
        }
        return v;
    }
    return nullptr;
}

const DeviceVariable *variable_at(const void *p)
{
    for (const DeviceVariable *v = variable_list(); v != nullptr; v = v->next) {
        const char *const from = static_cast<const char *>(v->address);
        if (p >= from && p < from + v->bytes) return v;
    }
    return nullptr;
}

void watch_variables()
{
    static const DeviceVariable *done;
    for (const DeviceVariable *v = variable_list(); v != done; v = v->next) {
        mem_register(v->address, v->bytes);
    }
    done = variable_list();
}

} // namespace rt
} // namespace cudasim

using namespace cudasim;
using namespace cudasim::rt;

extern "C" {

void **__cudaRegisterFatBinary(void *)
{
    static void *handle;
    return &handle;
}

void __cudaRegisterFatBinaryEnd(void **) {}

void __cudaUnregisterFatBinary(void **) {}

char __cudaInitModule(void **)
{
    return 1;
}

void __cudaRegisterFunction(void **, const char *host, char *, const char *name, int, uint3 *,
                            uint3 *, dim3 *, dim3 *, int *)
{
    registry().kernel_names[host] = name;
}

void __cudaRegisterVar(void **, char *host, char *, const char *name, int, size_t bytes, int, int)
{
    registry().variables[host] = {name, bytes};
}

void __cudaRegisterManagedVar(void **, void **, char *, const char *name, int, size_t, int, int)
{
    fprintf(stderr, "cudasim: the __managed__ variable %s is not supported\n", name);
}

cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *host)
{
    Function *const f = find_function(host);
    *out = reinterpret_cast<cudaKernel_t>(f);
    return f != nullptr ? cudaSuccess : fail(cudaErrorInvalidDeviceFunction);
}

cudaError_t CUDARTAPI cudaGetSymbolAddress(void **out, const void *symbol)
{
    CHECK(check_device());
    const DeviceVariable *const v = find_variable(symbol);
    if (v == nullptr) return fail(cudaErrorInvalidSymbol);
    *out = v->address;
    return cudaSuccess;
}

cudaError_t CUDARTAPI cudaGetSymbolSize(size_t *out, const void *symbol)
{
    CHECK(check_device());
    const DeviceVariable *const v = find_variable(symbol);
    if (v == nullptr) return fail(cudaErrorInvalidSymbol);
    *out = v->bytes;
    return cudaSuccess;
}

} // extern "C"
