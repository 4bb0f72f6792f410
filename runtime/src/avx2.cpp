// AVX2: a register holds one byte of channels, 8 of them, of 32 output channels, which are looked up (lookup.h).
#include <immintrin.h>

#include "attention.h"
#include "isa.h"
#include "lookup.h"

namespace rebnn {
namespace {

struct Avx2 {
  static constexpr int kWordBytes = 1;
  static constexpr int kBlockLanes = 32;
  // 8 registers of counts; looking up a pixel's tables is worth it for 64 output channels at once.
  static constexpr int kMaxPixels = 4;
  static constexpr int kMaxGroups = 4;

  struct Ints {
    __m256i low, high;
  };
  struct Floats {
    __m256 low, high;
  };

  static REBNN_INLINE __m256i LoadHalf(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
  }

  static REBNN_INLINE Ints Zero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static REBNN_INLINE Ints Load(const int32_t* from) { return {LoadHalf(from), LoadHalf(from + 8)}; }
  static REBNN_INLINE Floats Load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }

  static REBNN_INLINE void Store(int32_t* to, Ints value) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), value.low);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 8), value.high);
  }

  static REBNN_INLINE void Store(float* to, Floats value) {
    _mm256_storeu_ps(to, value.low);
    _mm256_storeu_ps(to + 8, value.high);
  }

  static REBNN_INLINE Floats Set(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
  static REBNN_INLINE Floats ToFloats(Ints value) {
    return {_mm256_cvtepi32_ps(value.low), _mm256_cvtepi32_ps(value.high)};
  }
  static REBNN_INLINE Floats Add(Floats a, Floats b) {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
  }
  static REBNN_INLINE Floats Mul(Floats a, Floats b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
  }

  static REBNN_INLINE __m256 PreluHalf(__m256 value, __m256 slope) {
    const __m256 positive = _mm256_cmp_ps(value, _mm256_setzero_ps(), _CMP_GT_OQ);
    return _mm256_blendv_ps(_mm256_mul_ps(value, slope), value, positive);
  }

  static REBNN_INLINE Floats Prelu(Floats value, Floats slope) {
    return {PreluHalf(value.low, slope.low), PreluHalf(value.high, slope.high)};
  }

  // Both give their second operand where one is NaN.
  static REBNN_INLINE Floats Clip(Floats value, Floats low, Floats high) {
    return {_mm256_min_ps(high.low, _mm256_max_ps(low.low, value.low)),
            _mm256_min_ps(high.high, _mm256_max_ps(low.high, value.high))};
  }

  static REBNN_INLINE __m256i SubtractTwiceHalf(__m256i base, __m256i count) {
    return _mm256_sub_epi32(base, _mm256_add_epi32(count, count));
  }

  static REBNN_INLINE Ints SubtractTwice(Ints base, Ints count) {
    return {SubtractTwiceHalf(base.low, count.low), SubtractTwiceHalf(base.high, count.high)};
  }

  static REBNN_INLINE __m256 Negative(__m256 value) { return _mm256_cmp_ps(value, _mm256_setzero_ps(), _CMP_LT_OQ); }

  static REBNN_INLINE uint32_t NegativeMask(Floats value) {
    return static_cast<uint32_t>(_mm256_movemask_ps(Negative(value.low))) |
           static_cast<uint32_t>(_mm256_movemask_ps(Negative(value.high))) << 8;
  }

  static REBNN_INLINE __m256i SetWhereNegativeHalf(__m256i word, __m256 value, int32_t bit) {
    return _mm256_or_si256(word, _mm256_and_si256(_mm256_castps_si256(Negative(value)), _mm256_set1_epi32(bit)));
  }

  static REBNN_INLINE Ints SetWhereNegative(Ints word, Floats value, int32_t bit) {
    return {SetWhereNegativeHalf(word.low, value.low, bit), SetWhereNegativeHalf(word.high, value.high, bit)};
  }

  static REBNN_INLINE Ints AddUnsigned16(Ints sum, __m256i words) {
    sum.low = _mm256_add_epi32(sum.low, _mm256_cvtepu16_epi32(_mm256_castsi256_si128(words)));
    sum.high = _mm256_add_epi32(sum.high, _mm256_cvtepu16_epi32(_mm256_extracti128_si256(words, 1)));
    return sum;
  }

  static REBNN_INLINE __m256i Table(const uint8_t* table) {
    return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(table)));
  }

  template <int P, int Q>
  static REBNN_INLINE void Accumulate(const TileInput& in, Ints (&counts)[P][Q]) {
    constexpr int kRegisters = Q / 2;  // of two groups each
    static_assert(Q % 2 == 0, "a register holds two groups");
    const __m256i low_bits = _mm256_set1_epi8(0x0f);
    __m256i bytes[P][kRegisters];
    __m256i wide[P][Q];
    REBNN_UNROLL
    for (int p = 0; p < P; ++p) {
      REBNN_UNROLL
      for (int r = 0; r < kRegisters; ++r) bytes[p][r] = _mm256_setzero_si256();
      REBNN_UNROLL
      for (int q = 0; q < Q; ++q) {
        wide[p][q] = _mm256_setzero_si256();
        counts[p][q] = Zero();
      }
    }
    const auto flush_wide = [&]() __attribute__((always_inline)) {
      for (int p = 0; p < P; ++p) {
        for (int q = 0; q < Q; ++q) {
          counts[p][q] = AddUnsigned16(counts[p][q], wide[p][q]);
          wide[p][q] = _mm256_setzero_si256();
        }
      }
    };
    const auto flush = [&]() __attribute__((always_inline)) {
      REBNN_UNROLL
      for (int p = 0; p < P; ++p) {
        REBNN_UNROLL
        for (int r = 0; r < kRegisters; ++r) {
          const __m128i low = _mm256_castsi256_si128(bytes[p][r]);
          const __m128i high = _mm256_extracti128_si256(bytes[p][r], 1);
          wide[p][2 * r] = _mm256_add_epi16(wide[p][2 * r], _mm256_cvtepu8_epi16(low));
          wide[p][2 * r + 1] = _mm256_add_epi16(wide[p][2 * r + 1], _mm256_cvtepu8_epi16(high));
          bytes[p][r] = _mm256_setzero_si256();
        }
      }
    };
    const auto step = [&](const uint8_t* const (&x)[P], const uint8_t* w, int64_t word) __attribute__((always_inline)) {
      __m256i low[kRegisters], high[kRegisters];
      REBNN_UNROLL
      for (int r = 0; r < kRegisters; ++r) {
        const uint8_t* from = w + r * in.block_bytes + word * static_cast<int64_t>(sizeof(__m256i));
        const __m256i weights = _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
        low[r] = _mm256_and_si256(weights, low_bits);
        high[r] = _mm256_and_si256(_mm256_srli_epi16(weights, 4), low_bits);
      }
      REBNN_UNROLL
      for (int p = 0; p < P; ++p) {
        const auto& tables = kDiffering.of[x[p][word]];
        const __m256i low_table = Table(tables[0]), high_table = Table(tables[1]);
        REBNN_UNROLL
        for (int r = 0; r < kRegisters; ++r) {
          bytes[p][r] = _mm256_add_epi8(bytes[p][r], _mm256_add_epi8(_mm256_shuffle_epi8(low_table, low[r]),
                                                                     _mm256_shuffle_epi8(high_table, high[r])));
        }
      }
    };
    ForBytes<P>(in, step, flush, flush_wide);
  }
};

}  // namespace

const Kernels kAvx2 = {Avx2::kWordBytes, Avx2::kBlockLanes, Avx2::kMaxGroups * kGroup, nullptr, Packer<Avx2>::Pack,
                       Engine<Avx2>::Convolve, Attender<Avx2>::Attend, kImageAvx2, kAvx2Real, nullptr};

}  // namespace rebnn
