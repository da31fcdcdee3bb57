// report.cpp -- what the simulator says when a kernel is wrong, and the line it blames.
//
// Exit codes: 86 an illegal operation, 87 a deadlock or livelock, 88 races (race.cpp). A line is
// found from the return address of the last call into the simulator: translated code carries the
// line table of the .cu file, and addr2line reads it.
//
// SPDX-License-Identifier: MIT
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <signal.h>
#include <string>
#include <unistd.h>
#include "tests/cudasim/src/machine.h"

namespace cudasim
{

namespace
{

// How much a line of a chain of inlined calls tells: the kernel's file more than a header of ours.
int worth(const std::string &s)
{
    if (s.find(".cu:") != std::string::npos || s.find(".cuh:") != std::string::npos) return 3;
    return s.find("/cudasim/src/") == std::string::npos &&
                   s.find("/cudasim/ptx2c/") == std::string::npos
               ? 2
               : 1;
}

std::string ask_addr2line(const char *file, unsigned long offset)
{
    char cmd[1200];
    snprintf(cmd, sizeof cmd, "addr2line -i -e '%s' %#lx 2>/dev/null", file, offset);
    FILE *const p = popen(cmd, "r");
    if (p == nullptr) return "";
    std::string best;
    char line[1000];
    while (fgets(line, sizeof line, p) != nullptr) {
        line[strcspn(line, "\n")] = 0;
        char *const more = strstr(line, " (discriminator");
        if (more != nullptr) *more = 0;
        if (line[0] == '?') continue;
        if (best.empty() || worth(line) > worth(best)) best = line;
    }
    pclose(p);
    return best;
}

void print_place(const Fiber *f)
{
    if (f == nullptr) {
        fprintf(stderr, "\n  in kernel %s, an asynchronous copy", m.launch.name);
        const std::string where = where_in_source(m.copy_pc);
        if (!where.empty()) fprintf(stderr, "\n  issued at %s", where.c_str());
        return;
    }
    fprintf(stderr, "\n  in kernel %s block (%u,%u,%u) thread (%u,%u,%u) warp %u lane %u",
            m.launch.name, f->bid.x, f->bid.y, f->bid.z, f->tid.x, f->tid.y, f->tid.z, f->warp,
            f->lane);
    const std::string where = where_in_source(f->pc);
    if (!where.empty()) fprintf(stderr, "\n  at %s", where.c_str());
}

void print_schedule()
{
    if (m.opt.seed != 0 || m.opt.lazy != 0) {
        fprintf(stderr, "  with CUDASIM_SEED=%u CUDASIM_LAZY=%d\n", m.opt.seed, m.opt.lazy);
    }
}

// A wild pointer of a kernel: says which thread, and which allocation is near.
void on_fault(int sig, siginfo_t *info, void *context)
{
    if (!m.in_kernel) {
        signal(sig, SIG_DFL);
        return; // not a kernel's: happens again, without us
    }
    const void *const pc = fault_pc(context);
    if (pc != nullptr && m.fiber != nullptr) m.fiber->pc = static_cast<const char *>(pc) + 1;
    char *const at = static_cast<char *>(info->si_addr);
    void *base = nullptr;
    size_t bytes = 0;
    for (size_t back = 0; back <= 4096; back += 256) {
        if (mem_find(at - back, &base, &bytes)) {
            die("illegal address %p: %zu bytes past the end of an allocation of %zu bytes",
                static_cast<void *>(at),
                static_cast<size_t>(at - static_cast<char *>(base)) - bytes, bytes);
        }
    }
    die("illegal address %p", static_cast<void *>(at));
}

std::string describe(const Fiber &f)
{
    char s[200];
    const std::string at = where_in_source(f.pc);
    if (f.state == Fiber::DONE) return "have ended";
    if (f.state == Fiber::READY) {
        snprintf(s, sizeof s, "can run (last at %s)", at.c_str());
    } else if (f.wait_addr != 0) {
        snprintf(s, sizeof s, "wait: %s at 0x%x, parity %u, %s", f.where, f.wait_addr, f.wait_arg,
                 at.c_str());
    } else if (strcmp(f.where, "bar.sync") == 0) {
        const NamedBarrier &n = f.home->bar[f.wait_arg];
        snprintf(s, sizeof s, "wait: bar.sync %u (%u of %u threads have come), %s", f.wait_arg,
                 n.have, n.need, at.c_str());
    } else {
        snprintf(s, sizeof s, "wait: %s (%08x), %s", f.where, f.wait_arg, at.c_str());
    }
    return s;
}

void report_block(const Block &b)
{
    struct Group {
        unsigned count, first;
    };
    std::map<std::string, Group> groups;
    for (const Fiber &f : b.fiber) {
        auto &g = groups[describe(f)];
        if (g.count++ == 0) g.first = f.lin;
    }
    fprintf(stderr, " block (%u,%u,%u):\n", b.bid.x, b.bid.y, b.bid.z);
    for (const auto &g : groups) {
        fprintf(stderr, "  %4u threads %s (first: thread %u)\n", g.second.count, g.first.c_str(),
                g.second.first);
    }
    for (const auto &x : b.mbar) {
        if (x.second.waiters.empty()) continue;
        fprintf(stderr, "  mbarrier 0x%x: phase %u, waits for %u of %u arrivals and %lld bytes\n",
                x.first, x.second.phase, x.second.pending, x.second.expected,
                static_cast<long long>(x.second.tx));
    }
}

} // namespace

std::string where_in_source(const void *pc)
{
    static std::map<const void *, std::string> known;
    if (pc == nullptr) return "";
    const auto it = known.find(pc);
    if (it != known.end()) return it->second;
    Dl_info info;
    std::string where;
    if (dladdr(pc, &info) != 0 && info.dli_fname != nullptr) {
        const auto off = static_cast<unsigned long>(static_cast<const char *>(pc) -
                                                    static_cast<const char *>(info.dli_fbase));
        where = ask_addr2line(info.dli_fname, off - 1);
    }
    known[pc] = where;
    return where;
}

void die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fflush(stdout);
    fprintf(stderr, "cudasim: error: ");
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    if (m.in_kernel) print_place(m.fiber);
    fputc('\n', stderr);
    print_schedule();
    fflush(stderr);
    _exit(86);
}

void report_deadlock(const char *what)
{
    fflush(stdout);
    fprintf(stderr, "cudasim: error: %s in kernel %s\n", what, m.launch.name);
    for (const auto &c : m.resident) {
        for (const auto &b : c->block) report_block(*b);
    }
    print_schedule();
    fflush(stderr);
    _exit(87);
}

void report_init()
{
    static char stack[64 * 1024];
    stack_t s = {};
    s.ss_sp = stack;
    s.ss_size = sizeof stack;
    sigaltstack(&s, nullptr);
    struct sigaction a = {};
    a.sa_sigaction = on_fault;
    a.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &a, nullptr);
    sigaction(SIGBUS, &a, nullptr);
}

void misaligned(const void *p, int bytes, bool store)
{
    NOTE_CALLER();
    die("misaligned %s of %d bytes at %p", store ? "store" : "load", bytes, p);
}

void device_assert(const char *what, const char *file, unsigned line, const char *function)
{
    NOTE_CALLER();
    die("assertion failed: %s (%s:%u, %s)", what, file, line, function);
}

void device_trap()
{
    NOTE_CALLER();
    die("trap");
}

// vprintf of a kernel: the format and a buffer of arguments, each aligned to its size.
void device_printf(const char *fmt, const char *args)
{
    const auto align8 = [&args] {
        args = reinterpret_cast<const char *>((reinterpret_cast<uintptr_t>(args) + 7) & ~7ul);
    };
    for (const char *f = fmt; *f != 0; ++f) {
        if (*f != '%') {
            putchar(*f);
            continue;
        }
        char spec[40];
        size_t n = 0;
        do spec[n++] = *f++;
        while (*f != 0 && strchr("diouxXcsfFgGeEaApn%", *f) == nullptr && n < sizeof spec - 2);
        spec[n++] = *f;
        spec[n] = 0;
        if (*f == '%') {
            putchar('%');
        } else if (strchr("fFgGeEaA", *f) != nullptr) {
            align8();
            double v = 0;
            memcpy(&v, args, 8);
            printf(spec, v);
            args += 8;
        } else if (*f == 's' || *f == 'p' || strchr(spec, 'l') != nullptr) {
            align8();
            long v = 0;
            memcpy(&v, args, 8);
            printf(spec, v);
            args += 8;
        } else {
            int v = 0;
            memcpy(&v, args, 4);
            printf(spec, v);
            args += 4;
        }
    }
}

} // namespace cudasim
