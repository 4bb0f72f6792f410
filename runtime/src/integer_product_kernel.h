// The loop of a product of whole numbers, for one instruction set: each file that includes this is compiled for its
// own.
#ifndef REBNN_SRC_INTEGER_PRODUCT_KERNEL_H_
#define REBNN_SRC_INTEGER_PRODUCT_KERNEL_H_

#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#endif

#include "integer_product.h"
#include "vectors.h"

namespace rebnn {
namespace {

// Parts of two terms.
struct PairSteps {
  static constexpr int64_t kTerms = 2;
  static const int16_t* WeightsOf(const IntegerMatrix& matrix) { return matrix.weights; }
};

// Sums of a block of columns, its weights for a pair of terms, and a row's pair.
#if defined(__AVX2__)
struct IntegerSteps : PairSteps {
  using Sums = __m256i;
  using Weights = __m256i;
  using Pair = __m256i;
  static Sums Start(const IntegerMatrix&, int64_t) { return _mm256_setzero_si256(); }
  static Weights Load(const int16_t* weights) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights)); }
  static Pair Spread(const int16_t* x) {
    int32_t both;
    std::memcpy(&both, x, sizeof both);
    return _mm256_set1_epi32(both);
  }
  static Sums Add(Sums sums, Weights weights, Pair pair) {
    return _mm256_add_epi32(sums, _mm256_madd_epi16(weights, pair));
  }
  static void Store(int32_t* y, Sums sums) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), sums); }
};
#elif defined(__SSE2__)
struct IntegerSteps : PairSteps {
  struct Sums {
    __m128i low, high;
  };
  using Weights = Sums;
  using Pair = __m128i;
  static Sums Start(const IntegerMatrix&, int64_t) { return {_mm_setzero_si128(), _mm_setzero_si128()}; }
  static Weights Load(const int16_t* weights) {
    const auto from = reinterpret_cast<const __m128i*>(weights);
    return {_mm_loadu_si128(from), _mm_loadu_si128(from + 1)};
  }
  static Pair Spread(const int16_t* x) {
    int32_t both;
    std::memcpy(&both, x, sizeof both);
    return _mm_set1_epi32(both);
  }
  static Sums Add(Sums sums, Weights weights, Pair pair) {
    return {_mm_add_epi32(sums.low, _mm_madd_epi16(weights.low, pair)),
            _mm_add_epi32(sums.high, _mm_madd_epi16(weights.high, pair))};
  }
  static void Store(int32_t* y, Sums sums) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y), sums.low);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y) + 1, sums.high);
  }
};
#elif defined(__ARM_NEON)
struct IntegerSteps : PairSteps {
  struct Sums {
    int32x4_t low, high;
  };
  using Weights = int16x8x2_t;
  using Pair = int16x4_t;
  static Sums Start(const IntegerMatrix&, int64_t) { return {vdupq_n_s32(0), vdupq_n_s32(0)}; }
  static Weights Load(const int16_t* weights) { return vld2q_s16(weights); }
  static Pair Spread(const int16_t* x) {
    int32_t both;
    std::memcpy(&both, x, sizeof both);
    return vreinterpret_s16_s32(vset_lane_s32(both, vdup_n_s32(0), 0));
  }
  template <int kTerm>
  static int32x4_t AddHigh(int32x4_t sums, int16x8_t weights, Pair pair) {
#if defined(__aarch64__)
    return vmlal_high_lane_s16(sums, weights, pair, kTerm);
#else
    return vmlal_lane_s16(sums, vget_high_s16(weights), pair, kTerm);
#endif
  }
  static Sums Add(Sums sums, const Weights& weights, Pair pair) {
    sums.low = vmlal_lane_s16(sums.low, vget_low_s16(weights.val[0]), pair, 0);
    sums.high = AddHigh<0>(sums.high, weights.val[0], pair);
    sums.low = vmlal_lane_s16(sums.low, vget_low_s16(weights.val[1]), pair, 1);
    sums.high = AddHigh<1>(sums.high, weights.val[1], pair);
    return sums;
  }
  static void Store(int32_t* y, Sums sums) {
    vst1q_s32(y, sums.low);
    vst1q_s32(y + 4, sums.high);
  }
};
#elif defined(__wasm_simd128__)
struct IntegerSteps : PairSteps {
  struct Sums {
    v128_t low, high;
  };
  using Weights = Sums;
  using Pair = v128_t;
  static Sums Start(const IntegerMatrix&, int64_t) { return {wasm_i32x4_const_splat(0), wasm_i32x4_const_splat(0)}; }
  static Weights Load(const int16_t* weights) { return {wasm_v128_load(weights), wasm_v128_load(weights + 8)}; }
  static Pair Spread(const int16_t* x) { return wasm_v128_load32_splat(x); }
  static Sums Add(Sums sums, Weights weights, Pair pair) {
    return {wasm_i32x4_add(sums.low, wasm_i32x4_dot_i16x8(weights.low, pair)),
            wasm_i32x4_add(sums.high, wasm_i32x4_dot_i16x8(weights.high, pair))};
  }
  static void Store(int32_t* y, Sums sums) {
    wasm_v128_store(y, sums.low);
    wasm_v128_store(y + 4, sums.high);
  }
};
#else
struct IntegerSteps : PairSteps {
  struct Sums {
    int32_t of[kIntegerBlock];
  };
  using Weights = const int16_t*;
  using Pair = const int16_t*;
  static Sums Start(const IntegerMatrix&, int64_t) { return {}; }
  static Weights Load(const int16_t* weights) { return weights; }
  static Pair Spread(const int16_t* x) { return x; }
  static Sums Add(Sums sums, Weights weights, Pair pair) {
    for (int i = 0; i < kIntegerBlock; ++i) sums.of[i] += weights[2 * i] * pair[0] + weights[2 * i + 1] * pair[1];
    return sums;
  }
  static void Store(int32_t* y, const Sums& sums) { std::memcpy(y, sums.of, sizeof sums.of); }
};
#endif

// kTile rows and kBlocks blocks of columns at once, their sums in registers.
template <class Steps, int kBlocks, int kTile, class Number>
void MultiplyIntegerTile(const IntegerMatrix& matrix, const RowsOf<Number>& rows, int64_t row, int64_t column) {
  const int64_t width = (matrix.columns + kIntegerBlock - 1) / kIntegerBlock * kIntegerBlock;
  // Rows beyond the last one are the last one again, and are not stored.
  const Number* from[kTile];
  REBNN_UNROLL
  for (int i = 0; i < kTile; ++i) from[i] = rows.x + Smaller(row + i, rows.count - 1) * rows.step;
  constexpr int64_t kPart = Steps::kTerms * kIntegerBlock;
  const Number* weights = Steps::WeightsOf(matrix) + column / kIntegerBlock * matrix.parts * kPart;
  const auto block = static_cast<ptrdiff_t>(matrix.parts * kPart);
  typename Steps::Sums sums[kTile][kBlocks];
  REBNN_UNROLL
  for (int b = 0; b < kBlocks; ++b) {
    const typename Steps::Sums start = Steps::Start(matrix, column + b * kIntegerBlock);
    REBNN_UNROLL
    for (int i = 0; i < kTile; ++i) sums[i][b] = start;
  }
  const int64_t* const end = matrix.places + matrix.parts;
  for (const int64_t* at = matrix.places; at != end; ++at, weights += kPart) {
    typename Steps::Weights weight[kBlocks];
    REBNN_UNROLL
    for (int b = 0; b < kBlocks; ++b) weight[b] = Steps::Load(weights + b * block);
    const auto place = static_cast<ptrdiff_t>(*at);
    REBNN_UNROLL
    for (int i = 0; i < kTile; ++i) {
      const auto part = Steps::Spread(from[i] + place);
      REBNN_UNROLL
      for (int b = 0; b < kBlocks; ++b) sums[i][b] = Steps::Add(sums[i][b], weight[b], part);
    }
  }
  // A loop would need an address of the sums, and that they wait in memory from the beginning.
  REBNN_UNROLL
  for (int i = 0; i < kTile; ++i) {
    if (row + i >= rows.count) break;
    REBNN_UNROLL
    for (int b = 0; b < kBlocks; ++b) Steps::Store(rows.y + (row + i) * width + column + b * kIntegerBlock, sums[i][b]);
  }
}

template <class Steps, int kTile, class Number>
void MultiplyRows(const IntegerMatrix& matrix, const RowsOf<Number>& rows) {
  int64_t column = 0;
  for (; column + kIntegerBlock < matrix.columns; column += 2 * kIntegerBlock) {
    for (int64_t row = 0; row < rows.count; row += kTile)
      MultiplyIntegerTile<Steps, 2, kTile>(matrix, rows, row, column);
  }
  if (column >= matrix.columns) return;
  for (int64_t row = 0; row < rows.count; row += kTile) MultiplyIntegerTile<Steps, 1, kTile>(matrix, rows, row, column);
}

template <int kTile>
void MultiplyIntegers(const IntegerMatrix& matrix, const IntegerRows& rows) {
  MultiplyRows<IntegerSteps, kTile>(matrix, rows);
}

}  // namespace
}  // namespace rebnn

#endif  // REBNN_SRC_INTEGER_PRODUCT_KERNEL_H_
