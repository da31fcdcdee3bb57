// matmul_hopper.cu -- which calls the Hopper matrix product serves, and with which tile.
// The page is matmul_hopper.cuh.
//
// The tile is chosen by an estimate of cycles on a GPU of 132 SMs, whatever GPU there is, for the
// number of parts of K depends on it, and with it the bits of C. For each wave of tiles
//
//     k-blocks x max(tensor cycles, bytes from L2 / 30)  +  epilogue
//
// 30 bytes a cycle is what an SM gets from L2 when all of them ask; ping-pong hides the epilogue
// behind the other consumer's loop. Split-K is for few tiles and long K: gradients of weights.
// The figures are estimates, not measurements.
//
// SPDX-License-Identifier: MIT
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/matmul_hopper.cuh"
#include "kernels/cuda/tma.cuh"

namespace matmul_hopper
{

enum {
    SMS = 132,         // of the estimate
    L2_BYTES = 30,     // a cycle and SM
    EPILOGUE = 2600,   // cycles for 128 x 256
    ACTIVATION = 3400, // more, with an activation
    SPLIT_MAX = 8,     // parts of K
    SPLIT_BLOCKS = 2,  // k-blocks of a part, at least
    SPLIT_ONCE = 1500, // cycles to write a part, and to meet
    SPLIT_EACH = 600,  // to read one
    MOST = 0x7fffff00, // rows, columns
};

struct Instance {
    Layout layout;
    DType elem;
    Kind kind;
};

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t tiles_of(const MatmulArgs *a, Tile t)
{
    const int cluster = tile_cluster(t);
    return ceil_div(a->M, tile_m(t) * cluster) * cluster * ceil_div(a->N, tile_n(t));
}

static int64_t k_blocks_of(const MatmulArgs *a, Tile t)
{
    return ceil_div(a->K, ROW / elem_bytes(a->ab_dtype) * tile_parts(t));
}

// Cycles of all waves.
static int64_t estimate(const MatmulArgs *a, Tile t, int splits)
{
    const int m = tile_m(t), n = tile_n(t), cluster = tile_cluster(t);
    const int64_t work = ceil_div(a->M, m * cluster) * ceil_div(a->N, n) * splits;
    const int64_t waves = ceil_div(work, SMS / cluster);
    const int64_t tensor = m * n / 32, l2 = (m + n / cluster) * ROW / L2_BYTES;
    const int64_t cycles = work * cluster < SMS ? tensor : LT_MAX(tensor, l2);
    const int64_t loop = ceil_div(k_blocks_of(a, t), splits) * tile_parts(t) * cycles;
    const int whole = EPILOGUE + (a->epilogue == MATMUL_PLAIN ? 0 : ACTIVATION);
    const int64_t epilogue = (int64_t)whole * m * n / (128 * 256);
    const int64_t meet = splits > 1 ? SPLIT_ONCE + SPLIT_EACH * splits : 0;
    if (t == Tile::PINGPONG) return waves * LT_MAX(loop, (loop + epilogue) / 2) + epilogue;
    return waves * (loop + epilogue + meet);
}

static bool built(const Instance &i, Tile t)
{
#define BUILT(L, E, K, T)                                                                          \
    if (i.layout == Layout::L && i.elem == DTYPE_##E && i.kind == Kind::K && t == Tile::T)         \
        return true;
    MATMUL_HOPPER_ALL(BUILT)
#undef BUILT
    return false;
}

static Instance instance_of(const MatmulArgs *a)
{
    Instance i;
    i.layout = a->trans_a ? Layout::TN : a->trans_b ? Layout::NT : Layout::NN;
    i.elem = a->ab_dtype;
    i.kind = a->epilogue == MATMUL_GELU    ? Kind::GELU
             : a->epilogue == MATMUL_DGELU ? Kind::DGELU
             : a->c_dtype == DTYPE_F32     ? Kind::PLAIN_F32
                                           : Kind::PLAIN;
    return i;
}

static bool may_split(const MatmulArgs *a, Tile t, int splits)
{
    return splits == 1 || ((t == Tile::SMALL || t == Tile::PROMOTED) &&
                           tiles_of(a, t) <= SPLIT_TILES && k_blocks_of(a, t) >= splits);
}

// What the kernels cannot do; NULL: they can.
static const char *refusal(const CudaDevice *d, const MatmulArgs *a)
{
    if (a->ab_dtype != DTYPE_BF16 && a->ab_dtype != DTYPE_F16) return "operands of f32";
    if (a->trans_a && a->trans_b) return "both operands transposed";
    if (a->M < 1 || a->N < 1 || a->K < 1) return "an empty matrix";
    if (a->M > MOST || a->N > MOST || a->K > MOST) return "2^31 rows or columns";
    if (tiles_of(a, Tile::PINGPONG) > MOST) return "2^31 tiles";
    if (!tma_takes(a->A, a->lda, a->ab_dtype) || !tma_takes(a->B, a->ldb, a->ab_dtype) ||
        !tma_takes(a->C, a->ldc, a->c_dtype) || !tma_takes(a->aux, a->ldc, a->c_dtype))
        return "a matrix or its rows not at multiples of 16 bytes";
    if (a->c_dtype != a->ab_dtype && (a->c_dtype != DTYPE_F32 || a->epilogue != MATMUL_PLAIN))
        return "C of a type that is not the operands'";
    if (!built(instance_of(a), Tile::SMALL)) return "transposition and epilogue without a kernel";
    if (a->epilogue != MATMUL_PLAIN && a->act == ACT_TANH) return "tanh";
    if (d->sm_count < 2) return "a GPU of one SM";
    return nullptr;
}

Params params_of(const MatmulArgs *a, HopperPlan plan, void *scratch)
{
    const Kind kind = instance_of(a).kind;
    Params p = {};
    p.M = (int)a->M;
    p.N = (int)a->N;
    p.splits = plan.splits;
    p.ldc = a->ldc;
    p.bias = a->bias;
    p.bias_dtype = a->bias_dtype;
    p.act = a->act;
    p.partial = static_cast<float *>(scratch);
    if (kind == Kind::DGELU) p.side = a->aux;
    if (kind == Kind::PLAIN && a->accumulate) p.side = a->C;
    p.add_f32 = kind == Kind::PLAIN_F32 && a->accumulate;
    p.store_aux = kind == Kind::GELU && a->aux;
    p.store_c = a->C;
    return p;
}

int start_planned(const CudaDevice *d, const MatmulArgs *a, HopperPlan plan, const Params &p)
{
    const Instance i = instance_of(a);
    const Tile t = static_cast<Tile>(plan.tile);
#define START(L, E, K, T)                                                                          \
    if (i.layout == Layout::L && i.elem == DTYPE_##E && i.kind == Kind::K && t == Tile::T)         \
        return start<Layout::L, DTYPE_##E, Kind::K, Tile::T>(d, *a, p);
    MATMUL_HOPPER_ALL(START)
#undef START
    return cudaErrorNotSupported;
}

} // namespace matmul_hopper

using namespace matmul_hopper;

bool hopper_matmul_supports(const CudaDevice *d, const MatmulArgs *a, const char **why)
{
    *why = refusal(d, a);
    return !*why;
}

HopperPlan hopper_matmul_plan(const MatmulArgs *a)
{
    HopperPlan best = {(int)Tile::SMALL, 1};
    int64_t least = INT64_MAX;
    for (int t = 0; t < HOPPER_TILES; ++t) {
        const Tile tile = static_cast<Tile>(t);
        for (int s = 1; s <= SPLIT_MAX && hopper_matmul_allows(a, {t, s}); ++s) {
            if (s > 1 && k_blocks_of(a, tile) < (int64_t)SPLIT_BLOCKS * s) break;
            const int64_t cycles = estimate(a, tile, s);
            if (cycles >= least) continue;
            least = cycles;
            best = {t, s};
        }
    }
    return best;
}

bool hopper_matmul_allows(const MatmulArgs *a, HopperPlan p)
{
    const Tile t = static_cast<Tile>(p.tile);
    return built(instance_of(a), t) && may_split(a, t, p.splits);
}

size_t hopper_matmul_plan_scratch(const MatmulArgs *a, HopperPlan p)
{
    const Tile t = static_cast<Tile>(p.tile);
    if (p.splits < 2) return 0;
    return (size_t)tiles_of(a, t) * p.splits * tile_m(t) * tile_n(t) * sizeof(float);
}

int hopper_matmul_planned(const CudaDevice *d, const MatmulArgs *a, HopperPlan plan, void *scratch)
{
    return start_planned(d, a, plan, params_of(a, plan, scratch));
}

size_t hopper_matmul_scratch(const CudaDevice *, const MatmulArgs *a)
{
    return hopper_matmul_plan_scratch(a, hopper_matmul_plan(a));
}

int hopper_matmul(const CudaDevice *d, const MatmulArgs *a, void *scratch)
{
    return hopper_matmul_planned(d, a, hopper_matmul_plan(a), scratch);
}
