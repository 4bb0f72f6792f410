// AVX-512 with products of bfloat16 and sums of float: 16 registers of sums, 4 of weights and the value.
#include <immintrin.h>

#include "stem_kernel.h"

namespace rebnn {
namespace {

struct Bfloat16Products {
  static constexpr int kLanes = 16, kTiles = 4, kPairs = 2, kGroups = 4;
  static constexpr int64_t kBlock = kLanes * kGroups;
  static constexpr bool kScaled = false;
  typedef uint16_t Point, Weight;
  typedef float Sum;
  typedef RealVectors<kLanes> Vectors;
  typedef Vectors::Floats Floats;

  static REBNN_INLINE void StorePoint(uint16_t* to, Floats value) {
    const __m256bh rounded = _mm512_cvtneps_pbh((__m512)value);
    std::memcpy(to, &rounded, sizeof rounded);
  }
  static REBNN_INLINE Floats LoadSum(const float* from) { return Vectors::Load(from); }
  static void Keep(float value, void* weights, int64_t at) {
    const __m128bh rounded = _mm_cvtneps_pbh(_mm_set_ss(value));
    std::memcpy(static_cast<uint16_t*>(weights) + at, &rounded, sizeof(uint16_t));
  }

  // Sums over the depth, [49][kTiles][kBlock].
  static void Multiply(const rebnn_stem& stem, const uint16_t* points, const uint16_t* weights, float* sums) {
    for (int point = 0; point < kPoints; ++point) {
      __m512 sum[kTiles][kGroups] = {};
      for (int64_t k = 0; k < stem.depth; k += kPairs) {
        __m512i weight[kGroups];
        REBNN_UNROLL
        for (int q = 0; q < kGroups; ++q) weight[q] = _mm512_loadu_si512(weights + k * kBlock + q * kLanes * kPairs);
        REBNN_UNROLL
        for (int tile = 0; tile < kTiles; ++tile) {
          int32_t pair;
          std::memcpy(&pair, points + tile * stem.padded_depth + k, sizeof pair);
          const __m512i value = _mm512_set1_epi32(pair);
          REBNN_UNROLL
          for (int q = 0; q < kGroups; ++q) {
            sum[tile][q] = _mm512_dpbf16_ps(sum[tile][q], (__m512bh)weight[q], (__m512bh)value);
          }
        }
      }
      REBNN_UNROLL
      for (int tile = 0; tile < kTiles; ++tile) {
        REBNN_UNROLL
        for (int q = 0; q < kGroups; ++q) Vectors::Store(sums + tile * kBlock + q * kLanes, (Floats)sum[tile][q]);
      }
      points += kTiles * stem.padded_depth;
      weights += stem.depth * kBlock;
      sums += kTiles * kBlock;
    }
  }
};

}  // namespace

const StemKernels kAvx512Bfloat16Stem = StemEngine<Bfloat16Products>::Kernels("bfloat16");

}  // namespace rebnn
