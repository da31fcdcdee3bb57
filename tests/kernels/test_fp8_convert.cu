// test_fp8_convert.cu -- kernels/cuda/fp8.cuh: both ways to convert a float to FP8, the instruction
// and by hand, give the bits of engine/base/dtype.h; and a block of bytes is transposed.
//
// SPDX-License-Identifier: MIT
#include <cstdio>
#include <cstdlib>
#include "kernels/cuda/fp8.cuh"
#include "tests/base/fp8_inputs.h"

struct Numbers {
    float *x;
    size_t n, room;
};

static void append(float x, void *arg)
{
    Numbers *all = static_cast<Numbers *>(arg);
    if (all->n < all->room) all->x[all->n] = x;
    all->n++;
}

template <DType FORMAT>
__global__ void convert(uint16_t *instruction, uint8_t *hand, const float *x, size_t n)
{
    const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    instruction[i] = static_cast<uint16_t>(fp8_pair<FORMAT>(x[i], x[n - 1 - i]));
    hand[i] = static_cast<uint8_t>(fp8_by_hand<FORMAT>(x[i]));
}

__global__ void turn(uint32_t *w)
{
    uint32_t block[4] = {w[0], w[1], w[2], w[3]};
    turn_bytes(block);
    for (int i = 0; i < 4; i++) w[i] = block[i];
}

template <typename T> static T *device(size_t n)
{
    void *p = nullptr;
    if (cudaMalloc(&p, n * sizeof(T)) != cudaSuccess) exit(1);
    return static_cast<T *>(p);
}

template <DType FORMAT> static int wrong_of(const Numbers &all)
{
    const size_t n = all.n;
    float *x = device<float>(n);
    uint16_t *instruction = device<uint16_t>(n), *got = static_cast<uint16_t *>(malloc(2 * n));
    uint8_t *hand = device<uint8_t>(n), *by_hand = static_cast<uint8_t *>(malloc(n));
    cudaMemcpy(x, all.x, n * sizeof *x, cudaMemcpyHostToDevice);
    convert<FORMAT><<<static_cast<unsigned>((n + 255) / 256), 256>>>(instruction, hand, x, n);
    cudaMemcpy(got, instruction, 2 * n, cudaMemcpyDeviceToHost);
    cudaMemcpy(by_hand, hand, n, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t lo = fp8_from_f32(all.x[i], FORMAT);
        const uint32_t hi = fp8_from_f32(all.x[n - 1 - i], FORMAT);
        if (got[i] == (lo | hi << 8) && by_hand[i] == lo) continue;
        if (wrong++ < 10)
            printf("%s of %a and %a: want %02x %02x, got %04x, by hand %02x\n", dtype_name(FORMAT),
                   all.x[i], all.x[n - 1 - i], lo, hi, got[i], by_hand[i]);
    }
    printf("%s: %zu numbers, %d wrong\n", dtype_name(FORMAT), n, wrong);
    free(got);
    free(by_hand);
    return wrong;
}

static int wrong_turns()
{
    uint8_t in[16], out[16];
    for (int i = 0; i < 16; i++) in[i] = static_cast<uint8_t>(17 * i + 3);
    uint32_t *w = device<uint32_t>(4);
    cudaMemcpy(w, in, sizeof in, cudaMemcpyHostToDevice);
    turn<<<1, 1>>>(w);
    cudaMemcpy(out, w, sizeof out, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int i = 0; i < 16; i++) wrong += out[i] != in[i % 4 * 4 + i / 4];
    printf("turn_bytes: %d bytes wrong\n", wrong);
    return wrong;
}

int main()
{
    Numbers all = {nullptr, 0, 0};
    visit_fp8_inputs(append, &all);
    all = {static_cast<float *>(malloc(all.n * sizeof(float))), 0, all.n};
    visit_fp8_inputs(append, &all);
    const int wrong = wrong_of<DTYPE_E4M3>(all) + wrong_of<DTYPE_E5M2>(all) + wrong_turns();
    free(all.x);
    return wrong ? 1 : 0;
}
