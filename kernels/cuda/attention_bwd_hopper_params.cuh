// attention_bwd_hopper_params.cuh -- between the launcher (attention_bwd_hopper.cu) and the files
// that hold the main kernel. The page is attention_bwd_hopper.cuh.
//
// SPDX-License-Identifier: MIT
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>
#include "kernels/cuda/attention_mask.cuh"
#include "kernels/cuda/rng.cuh"

enum { BWD_KEYS = 128 }; // keys of a block of the main kernel

// Head sizes up to 64 take tiles of 128 queries, larger ones of 64: the same bytes.
constexpr int bwd_head(int64_t D)
{
    return D <= 64 ? 64 : 128;
}
template <int HEAD> constexpr int BWD_QUERIES = HEAD == 64 ? 128 : 64;

// How a dQ tile (64 rows, 64 columns) of f32 lies in memory: as the registers of the 128 threads
// that made it, four of a thread together, so that neither writing nor adding needs a layout.
enum { BWD_DQ_TILE = 64 * 64 };

struct BwdParams {   // of the kernels
    float *stats;    // [B H][query tiles][2][queries]: -lse log2(e), then delta
    int2 *spans;     // [B][query tiles][queries]: first visible key, how many
    TileSpan *tiles; // [B][query tiles]
    float *dq;       // [B H][query tiles][2][BWD_DQ_TILE]: sums, not scaled
    uint32_t *turns; // [B H][query tiles][2]: how many blocks have added to a dQ tile
    int T, H, D;
    int q_tiles, k_tiles;
    float scale, scale_log2; // times log2(e)
    Dropout drop;
};

struct BwdMaps {
    CUtensorMap q, k, v, dout; // loaded in whole tiles
    CUtensorMap dk, dv;        // stored in 64 rows
};

cudaError_t attention_bwd_main(const BwdMaps &maps, const BwdParams &p, int64_t blocks,
                               cudaStream_t stream);
cudaError_t attention_bwd_main_dropout(const BwdMaps &maps, const BwdParams &p, int64_t blocks,
                                       cudaStream_t stream);
