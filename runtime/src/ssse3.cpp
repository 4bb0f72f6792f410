// SSSE3 (Intel from Core 2, AMD from Bulldozer, every Atom and Celeron): a register holds one byte of channels, 8 of
// them, of 16 output channels, which are looked up (lookup.h).
#include <tmmintrin.h>

#include "attention.h"
#include "isa.h"
#include "lookup.h"

namespace rebnn {
namespace {

struct Ssse3 {
  static constexpr int kWordBytes = 1;
  static constexpr int kBlockLanes = 16;
  // 8 registers of counts and 4 of weights, of 16.
  static constexpr int kMaxPixels = 4;
  static constexpr int kMaxGroups = 2;
  static constexpr int kParts = 4;
  static constexpr int kPartLanes = kGroup / kParts;

  struct Ints {
    __m128i part[kParts];
  };
  struct Floats {
    __m128 part[kParts];
  };

  template <class Operation>
  static REBNN_INLINE Floats ForParts(const Operation& operation) {
    Floats result;
    REBNN_UNROLL
    for (int i = 0; i < kParts; ++i) result.part[i] = operation(i);
    return result;
  }

  template <class Operation>
  static REBNN_INLINE Ints ForIntParts(const Operation& operation) {
    Ints result;
    REBNN_UNROLL
    for (int i = 0; i < kParts; ++i) result.part[i] = operation(i);
    return result;
  }

  static REBNN_INLINE Ints Zero() {
    return ForIntParts([](int) { return _mm_setzero_si128(); });
  }
  static REBNN_INLINE Ints Load(const int32_t* from) {
    return ForIntParts([&](int i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * kPartLanes)); });
  }
  static REBNN_INLINE Floats Load(const float* from) {
    return ForParts([&](int i) { return _mm_loadu_ps(from + i * kPartLanes); });
  }

  static REBNN_INLINE void Store(int32_t* to, const Ints& value) {
    REBNN_UNROLL
    for (int i = 0; i < kParts; ++i) _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * kPartLanes), value.part[i]);
  }
  static REBNN_INLINE void Store(float* to, const Floats& value) {
    REBNN_UNROLL
    for (int i = 0; i < kParts; ++i) _mm_storeu_ps(to + i * kPartLanes, value.part[i]);
  }

  static REBNN_INLINE Floats Set(float value) {
    return ForParts([&](int) { return _mm_set1_ps(value); });
  }
  static REBNN_INLINE Floats ToFloats(const Ints& value) {
    return ForParts([&](int i) { return _mm_cvtepi32_ps(value.part[i]); });
  }
  static REBNN_INLINE Floats Add(const Floats& a, const Floats& b) {
    return ForParts([&](int i) { return _mm_add_ps(a.part[i], b.part[i]); });
  }
  static REBNN_INLINE Floats Mul(const Floats& a, const Floats& b) {
    return ForParts([&](int i) { return _mm_mul_ps(a.part[i], b.part[i]); });
  }

  static REBNN_INLINE Floats Prelu(const Floats& value, const Floats& slope) {
    return ForParts([&](int i) {
      const __m128 positive = _mm_cmpgt_ps(value.part[i], _mm_setzero_ps());
      return _mm_or_ps(_mm_and_ps(positive, value.part[i]),
                       _mm_andnot_ps(positive, _mm_mul_ps(value.part[i], slope.part[i])));
    });
  }

  // Both give their second operand where one is NaN.
  static REBNN_INLINE Floats Clip(const Floats& value, const Floats& low, const Floats& high) {
    return ForParts([&](int i) { return _mm_min_ps(high.part[i], _mm_max_ps(low.part[i], value.part[i])); });
  }

  static REBNN_INLINE Ints SubtractTwice(const Ints& base, const Ints& count) {
    return ForIntParts(
        [&](int i) { return _mm_sub_epi32(base.part[i], _mm_add_epi32(count.part[i], count.part[i])); });
  }

  static REBNN_INLINE __m128 Negative(__m128 value) { return _mm_cmplt_ps(value, _mm_setzero_ps()); }

  static REBNN_INLINE uint32_t NegativeMask(const Floats& value) {
    uint32_t mask = 0;
    REBNN_UNROLL
    for (int i = 0; i < kParts; ++i) {
      mask |= static_cast<uint32_t>(_mm_movemask_ps(Negative(value.part[i]))) << i * kPartLanes;
    }
    return mask;
  }

  static REBNN_INLINE Ints SetWhereNegative(const Ints& word, const Floats& value, int32_t bit) {
    return ForIntParts([&](int i) {
      return _mm_or_si128(word.part[i], _mm_and_si128(_mm_castps_si128(Negative(value.part[i])), _mm_set1_epi32(bit)));
    });
  }

  static REBNN_INLINE __m128i LookUp(const uint8_t* differing, __m128i nibbles) {
    return _mm_shuffle_epi8(_mm_load_si128(reinterpret_cast<const __m128i*>(differing)), nibbles);
  }

  // 16-bit counts of 16 outputs.
  struct Wide {
    __m128i low, high;
  };

  template <int P, int Q>
  static REBNN_INLINE void Accumulate(const TileInput& in, Ints (&counts)[P][Q]) {
    const __m128i zero = _mm_setzero_si128(), low_bits = _mm_set1_epi8(0x0f);
    __m128i bytes[P][Q];
    Wide wide[P][Q];
    REBNN_UNROLL
    for (int p = 0; p < P; ++p) {
      REBNN_UNROLL
      for (int q = 0; q < Q; ++q) {
        bytes[p][q] = zero;
        wide[p][q] = {zero, zero};
        counts[p][q] = Zero();
      }
    }
    const auto flush_wide = [&]() __attribute__((always_inline)) {
      for (int p = 0; p < P; ++p) {
        for (int q = 0; q < Q; ++q) {
          const Wide words = wide[p][q];
          const __m128i added[kParts] = {_mm_unpacklo_epi16(words.low, zero), _mm_unpackhi_epi16(words.low, zero),
                                         _mm_unpacklo_epi16(words.high, zero), _mm_unpackhi_epi16(words.high, zero)};
          REBNN_UNROLL
          for (int i = 0; i < kParts; ++i) counts[p][q].part[i] = _mm_add_epi32(counts[p][q].part[i], added[i]);
          wide[p][q] = {zero, zero};
        }
      }
    };
    const auto flush = [&]() __attribute__((always_inline)) {
      REBNN_UNROLL
      for (int p = 0; p < P; ++p) {
        REBNN_UNROLL
        for (int q = 0; q < Q; ++q) {
          wide[p][q].low = _mm_add_epi16(wide[p][q].low, _mm_unpacklo_epi8(bytes[p][q], zero));
          wide[p][q].high = _mm_add_epi16(wide[p][q].high, _mm_unpackhi_epi8(bytes[p][q], zero));
          bytes[p][q] = zero;
        }
      }
    };
    const auto step = [&](const uint8_t* const (&x)[P], const uint8_t* w, int64_t word) __attribute__((always_inline)) {
      __m128i low[Q], high[Q];
      REBNN_UNROLL
      for (int q = 0; q < Q; ++q) {
        const uint8_t* from = w + q * in.block_bytes + word * kBlockLanes;
        const __m128i weights = _mm_load_si128(reinterpret_cast<const __m128i*>(from));
        low[q] = _mm_and_si128(weights, low_bits);
        high[q] = _mm_and_si128(_mm_srli_epi16(weights, 4), low_bits);
      }
      REBNN_UNROLL
      for (int p = 0; p < P; ++p) {
        const auto& tables = kDiffering.of[x[p][word]];
        REBNN_UNROLL
        for (int q = 0; q < Q; ++q) {
          const __m128i found = _mm_add_epi8(LookUp(tables[0], low[q]), LookUp(tables[1], high[q]));
          bytes[p][q] = _mm_add_epi8(bytes[p][q], found);
        }
      }
    };
    ForBytes<P>(in, step, flush, flush_wide);
  }
};

}  // namespace

const Kernels kSsse3 = {Ssse3::kWordBytes, Ssse3::kBlockLanes, Ssse3::kMaxGroups * kGroup, nullptr,
                        Packer<Ssse3>::Pack, Engine<Ssse3>::Convolve, Attender<Ssse3>::Attend, kImagePortable,
                        kPortableReal, nullptr};

}  // namespace rebnn
