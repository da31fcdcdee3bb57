// core.h -- tests of the simulator's core: kernels that are C++ lambdas, and runs that must die.
//
// A test calls kernel() with the body of one thread, which uses device.h directly; no nvcc is
// involved. dies() runs a test's wrong kernel in a child process and looks at its exit code and
// at what it said.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>
#include "tests/cudasim/src/device.h"
#include "tests/cudasim/src/host.h"
#include "tests/cudasim/src/numbers.h"

using namespace cudasim;

struct CoreTest {
    const char *name;
    void (*run)();
};
inline std::vector<CoreTest> &core_tests()
{
    static std::vector<CoreTest> all;
    return all;
}
struct CoreTestEntry {
    CoreTestEntry(const char *name, void (*run)()) { core_tests().push_back({name, run}); }
};
inline int core_failures;

#define TEST(name)                                                                                 \
    static void name();                                                                            \
    static const CoreTestEntry entry_##name(#name, name);                                          \
    static void name()

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            ++core_failures;                                                                       \
            printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                       \
        }                                                                                          \
    } while (0)

#define CHECK_EQ(got, want)                                                                        \
    do {                                                                                           \
        const long long got_ = static_cast<long long>(got), want_ = static_cast<long long>(want);  \
        if (got_ != want_) {                                                                       \
            ++core_failures;                                                                       \
            printf("%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, got_, want_);        \
        }                                                                                          \
    } while (0)

enum : uint32_t { SMEM = SMEM_START }; // where dynamic shared memory starts

template <class F>
void kernel(Dim3 grid, unsigned threads, size_t smem, F body, Dim3 cluster = {1, 1, 1})
{
    Launch l;
    l.name = "test_kernel";
    l.grid = grid;
    l.block = {threads, 1, 1};
    l.cluster = cluster;
    l.dyn_smem = smem;
    l.static_smem = 0;
    l.body = [](void *p) { (*static_cast<F *>(p))(); };
    l.arg = &body;
    CHECK(launch(l) == LaunchError::NONE);
}

template <class F> void kernel(unsigned threads, size_t smem, F body)
{
    kernel(Dim3{1, 1, 1}, threads, smem, body);
}

inline void block_sync()
{
    bar_sync(0, 0);
}

template <class T> T &shared(uint32_t addr)
{
    return *static_cast<T *>(smem_ptr(addr, sizeof(T), "test"));
}

// Device memory with a copy of host values, freed at the end of the scope.
template <class T> struct Device {
    T *p;
    size_t n;
    explicit Device(size_t count) : p(static_cast<T *>(mem_alloc(count * sizeof(T)))), n(count) {}
    Device(const std::vector<T> &v) : Device(v.size())
    {
        memcpy(p, v.data(), n * sizeof(T));
        mem_host_write(p, n * sizeof(T));
    }
    ~Device() { mem_free(p); }
    Device(const Device &) = delete;
    Device &operator=(const Device &) = delete;
    T &operator[](size_t i) { return p[i]; }
};

// Runs `f` in a child; what it wrote to stderr goes to *said.
inline int exit_code_of(const std::function<void()> &f, std::string *said)
{
    int fd[2];
    if (pipe(fd) != 0) return -1;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        dup2(fd[1], 2);
        close(fd[0]);
        f();
        _exit(0);
    }
    close(fd[1]);
    char buf[4096];
    said->clear();
    for (ssize_t n; (n = read(fd[0], buf, sizeof buf)) > 0;) {
        said->append(buf, static_cast<size_t>(n));
    }
    close(fd[0]);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The kernel must end the program with this code and say this.
#define DIES(code, text, ...)                                                                      \
    do {                                                                                           \
        std::string said_;                                                                         \
        const int got_ = exit_code_of([&] { __VA_ARGS__; }, &said_);                               \
        if (got_ != (code) || said_.find(text) == std::string::npos) {                             \
            ++core_failures;                                                                       \
            printf("%s:%d: exit code %d, not %d, or nothing said of '%s':\n%s\n", __FILE__,        \
                   __LINE__, got_, code, text, said_.c_str());                                     \
        }                                                                                          \
    } while (0)
#define LIVES(...) DIES(0, "", __VA_ARGS__)

inline uint32_t random_bits()
{
    static uint64_t s = 88172645463325252ull;
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return static_cast<uint32_t>(s >> 16);
}

inline float random_float() // [-1, 1)
{
    return static_cast<float>(static_cast<int32_t>(random_bits())) * 0x1p-31f;
}

inline int core_main(int argc, char **argv)
{
    for (const CoreTest &t : core_tests()) {
        if (argc > 1 && strstr(t.name, argv[1]) == nullptr) continue;
        const int before = core_failures;
        t.run();
        printf("%-60s %s\n", t.name, core_failures == before ? "ok" : "FAILED");
    }
    mem_check();
    return core_failures != 0;
}
