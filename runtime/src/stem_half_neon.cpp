// AArch64 with arithmetic of half precision: 16 registers of sums, 4 of weights and the values, each of 8 numbers.
#include <arm_neon.h>

#include "stem_kernel.h"

// Four registers of weights times one phase of each tile.
#define REBNN_TILE(weights_0, weights_1, weights_2, weights_3, tile, phase, s0, s1, s2, s3) \
  "fmla v" #s0 ".8h, v" #weights_0 ".8h, v" #tile ".h[" #phase "]\n"                         \
  "fmla v" #s1 ".8h, v" #weights_1 ".8h, v" #tile ".h[" #phase "]\n"                         \
  "fmla v" #s2 ".8h, v" #weights_2 ".8h, v" #tile ".h[" #phase "]\n"                         \
  "fmla v" #s3 ".8h, v" #weights_3 ".8h, v" #tile ".h[" #phase "]\n"
#define REBNN_TILES(w0, w1, w2, w3, phase)                \
  REBNN_TILE(w0, w1, w2, w3, 0, phase, 16, 17, 18, 19)    \
  REBNN_TILE(w0, w1, w2, w3, 1, phase, 20, 21, 22, 23)    \
  REBNN_TILE(w0, w1, w2, w3, 2, phase, 24, 25, 26, 27)    \
  REBNN_TILE(w0, w1, w2, w3, 3, phase, 28, 29, 30, 31)

namespace rebnn {
namespace {

struct HalfProducts {
  static constexpr int kLanes = 4, kTiles = 4, kPairs = 1, kGroups = 4;
  static constexpr int64_t kBlock = 8 * kGroups;
  static constexpr bool kScaled = true;
  typedef float16_t Point, Sum, Weight;
  typedef RealVectors<kLanes>::Floats Floats;

  static REBNN_INLINE void StorePoint(float16_t* to, Floats value) {
    vst1_f16(to, vcvt_f16_f32((float32x4_t)value));
  }
  static REBNN_INLINE Floats LoadSum(const float16_t* from) { return (Floats)vcvt_f32_f16(vld1_f16(from)); }
  static void Keep(float value, void* weights, int64_t at) {
    static_cast<float16_t*>(weights)[at] = static_cast<float16_t>(value);
  }

  // Sums over the depth, [49][kTiles][kBlock]. In assembly, because a lane can be multiplied by in the first 16
  // registers only, for which GCC 12 moves most of them: values in v0 to v3, weights of two of a pixel's phases
  // in v4 to v11, sums in v16 to v31.
  static void Multiply(const rebnn_stem& stem, const float16_t* points, const float16_t* weights, float16_t* sums) {
    for (int point = 0; point < kPoints; ++point) {
      const float16_t *tile_0 = points, *tile_1 = points + stem.padded_depth, *tile_2 = points + 2 * stem.padded_depth,
                      *tile_3 = points + 3 * stem.padded_depth;
      int64_t pixels = stem.in_channels;
      asm volatile(
          "movi v16.2d, #0\n" "movi v17.2d, #0\n" "movi v18.2d, #0\n" "movi v19.2d, #0\n"
          "movi v20.2d, #0\n" "movi v21.2d, #0\n" "movi v22.2d, #0\n" "movi v23.2d, #0\n"
          "movi v24.2d, #0\n" "movi v25.2d, #0\n" "movi v26.2d, #0\n" "movi v27.2d, #0\n"
          "movi v28.2d, #0\n" "movi v29.2d, #0\n" "movi v30.2d, #0\n" "movi v31.2d, #0\n"
          "1:\n"
          "ldr d0, [%[t0]], #8\n"
          "ldp q4, q5, [%[w]]\n"
          "ldr d1, [%[t1]], #8\n"
          "ldp q6, q7, [%[w], #32]\n"
          "ldr d2, [%[t2]], #8\n"
          "ldp q8, q9, [%[w], #64]\n"
          "ldr d3, [%[t3]], #8\n"
          "ldp q10, q11, [%[w], #96]\n"
          REBNN_TILES(4, 5, 6, 7, 0)
          "ldp q4, q5, [%[w], #128]\n"
          "ldp q6, q7, [%[w], #160]\n"
          REBNN_TILES(8, 9, 10, 11, 1)
          "ldp q8, q9, [%[w], #192]\n"
          "ldp q10, q11, [%[w], #224]\n"
          "add %[w], %[w], #256\n"
          REBNN_TILES(4, 5, 6, 7, 2)
          REBNN_TILES(8, 9, 10, 11, 3)
          "subs %[n], %[n], #1\n"
          "b.ne 1b\n"
          "stp q16, q17, [%[s]], #32\n"
          "stp q18, q19, [%[s]], #32\n"
          "stp q20, q21, [%[s]], #32\n"
          "stp q22, q23, [%[s]], #32\n"
          "stp q24, q25, [%[s]], #32\n"
          "stp q26, q27, [%[s]], #32\n"
          "stp q28, q29, [%[s]], #32\n"
          "stp q30, q31, [%[s]], #32\n"
          : [t0] "+r"(tile_0), [t1] "+r"(tile_1), [t2] "+r"(tile_2), [t3] "+r"(tile_3), [w] "+r"(weights),
            [s] "+r"(sums), [n] "+r"(pixels)
          :
          : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v16", "v17",
            "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");
      points += kTiles * stem.padded_depth;
    }
  }
};

}  // namespace

const StemKernels kNeonHalfStem = StemEngine<HalfProducts>::Kernels("float16");

}  // namespace rebnn
