// opcode_test.cpp -- runs the kernels of make_opcode_test.py and compares every result.
//
//   opcode_test CASES.bin [text]    only the cases whose name holds the text
//
// SPDX-License-Identifier: MIT
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>
#include "tests/cudasim/ptx2c/translated.h"
#include "tests/cudasim/src/host.h"

using namespace cudasim;

namespace
{

struct Case {
    std::string name, any_nan;
    uint32_t ulps = 0;
    std::vector<uint64_t> operands, expected; // four operands a result
};

template <class T> T read(std::ifstream &in)
{
    T v = T();
    in.read(reinterpret_cast<char *>(&v), sizeof v);
    return v;
}

std::string read_text(std::ifstream &in, size_t n)
{
    std::string s(n, ' ');
    in.read(&s[0], static_cast<std::streamsize>(n));
    return s;
}

std::vector<uint64_t> read_words(std::ifstream &in, size_t n)
{
    std::vector<uint64_t> v(n);
    in.read(reinterpret_cast<char *>(v.data()), static_cast<std::streamsize>(n * 8));
    return v;
}

Case read_case(std::ifstream &in)
{
    Case c;
    const uint32_t name = read<uint32_t>(in), nan = read<uint32_t>(in);
    c.ulps = read<uint32_t>(in);
    const size_t n = read<uint32_t>(in);
    c.name = read_text(in, name);
    c.any_nan = read_text(in, nan);
    c.operands = read_words(in, 4 * n);
    c.expected = read_words(in, n);
    return c;
}

struct Layout {
    int bits, mantissa;
};

Layout layout_of(const std::string &format)
{
    if (format == "f64") return {64, 52};
    if (format == "f32") return {32, 23};
    return {16, format[0] == 'b' ? 7 : 10};
}

bool is_nan(uint64_t u, Layout f)
{
    const uint64_t magnitude = u & ((1ull << (f.bits - 1)) - 1);
    const uint64_t inf = (1ull << (f.bits - 1)) - (1ull << f.mantissa);
    return magnitude > inf;
}

// A number that grows with the value.
int64_t rank_of(uint64_t u, Layout f)
{
    const int64_t magnitude = static_cast<int64_t>(u & ((1ull << (f.bits - 1)) - 1));
    return u >> (f.bits - 1) & 1 ? -magnitude : magnitude;
}

bool lane_agrees(const Case &c, uint64_t got, uint64_t want, Layout f)
{
    if (is_nan(got, f) || is_nan(want, f)) return is_nan(got, f) && is_nan(want, f);
    const int64_t d = rank_of(got, f) - rank_of(want, f);
    return c.ulps == 0 ? got == want : d <= c.ulps && -d <= c.ulps;
}

bool agrees(const Case &c, uint64_t got, uint64_t want)
{
    if (c.any_nan.empty()) return got == want;
    const Layout f = layout_of(c.any_nan);
    if (c.any_nan.find("x2") == std::string::npos) return lane_agrees(c, got, want, f);
    return lane_agrees(c, got & 0xffff, want & 0xffff, f) &&
           lane_agrees(c, got >> 16, want >> 16, f);
}

struct Params {
    const uint64_t *operands;
    uint64_t *results;
    uint32_t count;
};

int run(const Case &c, const Kernel &k)
{
    const size_t n = c.expected.size();
    auto *const in = static_cast<uint64_t *>(mem_alloc(c.operands.size() * 8));
    auto *const out = static_cast<uint64_t *>(mem_alloc(n * 8));
    memcpy(in, c.operands.data(), c.operands.size() * 8);
    memset(out, 0, n * 8);
    mem_host_write(in, c.operands.size() * 8);
    mem_host_write(out, n * 8);
    alignas(128) Params p = {in, out, static_cast<uint32_t>(n)};
    Launch l = {};
    l.name = c.name.c_str();
    l.grid = {static_cast<unsigned>((n + 127) / 128), 1, 1};
    l.block = {128, 1, 1};
    l.cluster = {1, 1, 1};
    l.static_smem = k.static_smem;
    l.body = k.body;
    l.arg = &p;
    if (launch(l) != LaunchError::NONE) {
        printf("%s: cannot be launched\n", c.name.c_str());
        return 1;
    }
    int bad = 0;
    for (size_t i = 0; i < n; ++i) {
        if (agrees(c, out[i], c.expected[i])) continue;
        if (++bad > 3) continue;
        const uint64_t *const u = &c.operands[4 * i];
        printf("%s: operands %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64 ": got %" PRIx64
               ", expected %" PRIx64 "\n",
               c.name.c_str(), u[0], u[1], u[2], u[3], out[i], c.expected[i]);
    }
    if (bad > 3) printf("%s: %d of %zu results differ\n", c.name.c_str(), bad, n);
    mem_free(in);
    mem_free(out);
    return bad != 0;
}

} // namespace

int main(int argc, char **argv)
{
    std::ifstream in(argc > 1 ? argv[1] : "", std::ios::binary);
    if (!in) {
        fprintf(stderr, "usage: opcode_test CASES.bin [text]\n");
        return 2;
    }
    std::map<std::string, const Kernel *> kernels;
    for (const Kernel *k = kernel_list(); k != nullptr; k = k->next) kernels[k->name] = k;
    const uint32_t count = read<uint32_t>(in);
    int ran = 0, failed = 0;
    size_t results = 0;
    for (uint32_t i = 0; i < count; ++i) {
        const Case c = read_case(in);
        if (argc > 2 && c.name.find(argv[2]) == std::string::npos) continue;
        ++ran;
        results += c.expected.size();
        failed += run(c, *kernels.at("k" + std::to_string(i)));
    }
    printf("%d cases, %zu results, %d cases failed\n", ran, results, failed);
    return failed != 0 || ran == 0;
}
