// AVX-512 without VPOPCNTDQ (Intel's Skylake-X, Skylake-SP, Cascade Lake and Cooper Lake): a register holds one byte of
// channels, 8 of them, of 64 output channels, which are looked up (lookup.h).
#include "attention.h"
#include "avx512_steps.h"
#include "isa.h"
#include "lookup.h"

namespace rebnn {
namespace {

// Bytes of the 64 output channels of four groups, or of the 32 of two.
template <int Q>
struct Bytes;

template <>
struct Bytes<4> {
  using Register = __m512i;

  static REBNN_INLINE Register Zero() { return _mm512_setzero_si512(); }
  static REBNN_INLINE Register Weights(const uint8_t* from, int64_t block_bytes) {
    const __m512i low = _mm512_castsi256_si512(_mm256_load_si256(reinterpret_cast<const __m256i*>(from)));
    return _mm512_inserti64x4(low, _mm256_load_si256(reinterpret_cast<const __m256i*>(from + block_bytes)), 1);
  }
  static REBNN_INLINE Register LowNibbles(Register bytes) { return _mm512_and_si512(bytes, _mm512_set1_epi8(0x0f)); }
  static REBNN_INLINE Register HighNibbles(Register bytes) { return LowNibbles(_mm512_srli_epi16(bytes, 4)); }
  static REBNN_INLINE Register Add(Register a, Register b) { return _mm512_add_epi8(a, b); }
  static REBNN_INLINE Register LookUp(const uint8_t* differing, Register nibbles) {
    const __m128i table = _mm_load_si128(reinterpret_cast<const __m128i*>(differing));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), nibbles);
  }
  // The bytes of the first or the last two groups.
  template <int kHalf>
  static REBNN_INLINE __m256i Half(Register bytes) {
    return kHalf ? _mm512_extracti64x4_epi64(bytes, 1) : _mm512_castsi512_si256(bytes);
  }
};

template <>
struct Bytes<2> {
  using Register = __m256i;

  static REBNN_INLINE Register Zero() { return _mm256_setzero_si256(); }
  static REBNN_INLINE Register Weights(const uint8_t* from, int64_t) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
  }
  static REBNN_INLINE Register LowNibbles(Register bytes) { return _mm256_and_si256(bytes, _mm256_set1_epi8(0x0f)); }
  static REBNN_INLINE Register HighNibbles(Register bytes) { return LowNibbles(_mm256_srli_epi16(bytes, 4)); }
  static REBNN_INLINE Register Add(Register a, Register b) { return _mm256_add_epi8(a, b); }
  static REBNN_INLINE Register LookUp(const uint8_t* differing, Register nibbles) {
    const __m128i table = _mm_load_si128(reinterpret_cast<const __m128i*>(differing));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), nibbles);
  }
  template <int>
  static REBNN_INLINE __m256i Half(Register bytes) {
    return bytes;
  }
};

struct Avx512Bw : Avx512Steps {
  static constexpr int kWordBytes = 1;
  // Those of half a register, so that layers of 32 outputs waste nothing; two blocks are read at once.
  static constexpr int kBlockLanes = 32;
  static constexpr int kMaxPixels = 8;
  static constexpr int kMaxGroups = 4;

  template <int P, int Q>
  static REBNN_INLINE void Accumulate(const TileInput& in, Ints (&counts)[P][Q]) {
    using Of = Bytes<Q>;
    constexpr int kHalves = Q / 2;
    typename Of::Register bytes[P];
    __m512i wide[P][kHalves];
    REBNN_UNROLL
    for (int p = 0; p < P; ++p) {
      bytes[p] = Of::Zero();
      REBNN_UNROLL
      for (int half = 0; half < kHalves; ++half) wide[p][half] = Zero();
      REBNN_UNROLL
      for (int q = 0; q < Q; ++q) counts[p][q] = Zero();
    }
    const auto flush_wide = [&]() __attribute__((always_inline)) {
      REBNN_UNROLL
      for (int p = 0; p < P; ++p) {
        REBNN_UNROLL
        for (int half = 0; half < kHalves; ++half) {
          const __m256i low = _mm512_castsi512_si256(wide[p][half]);
          const __m256i high = _mm512_extracti64x4_epi64(wide[p][half], 1);
          Ints(&count)[Q] = counts[p];
          count[2 * half] = _mm512_add_epi32(count[2 * half], _mm512_cvtepu16_epi32(low));
          count[2 * half + 1] = _mm512_add_epi32(count[2 * half + 1], _mm512_cvtepu16_epi32(high));
          wide[p][half] = Zero();
        }
      }
    };
    const auto flush = [&]() __attribute__((always_inline)) {
      REBNN_UNROLL
      for (int p = 0; p < P; ++p) {
        wide[p][0] = _mm512_add_epi16(wide[p][0], _mm512_cvtepu8_epi16(Of::template Half<0>(bytes[p])));
        if constexpr (kHalves == 2) {
          wide[p][1] = _mm512_add_epi16(wide[p][1], _mm512_cvtepu8_epi16(Of::template Half<1>(bytes[p])));
        }
        bytes[p] = Of::Zero();
      }
    };
    const auto step = [&](const uint8_t* const (&x)[P], const uint8_t* w, int64_t word) __attribute__((always_inline)) {
      const auto weights = Of::Weights(w + word * kBlockLanes, in.block_bytes);
      const auto low = Of::LowNibbles(weights), high = Of::HighNibbles(weights);
      REBNN_UNROLL
      for (int p = 0; p < P; ++p) {
        const auto& tables = kDiffering.of[x[p][word]];
        bytes[p] = Of::Add(bytes[p], Of::Add(Of::LookUp(tables[0], low), Of::LookUp(tables[1], high)));
      }
    };
    ForBytes<P>(in, step, flush, flush_wide);
  }
};

}  // namespace

const Kernels kAvx512Bw = {Avx512Bw::kWordBytes, Avx512Bw::kBlockLanes, Avx512Bw::kMaxGroups * kGroup, nullptr,
                           Packer<Avx512Bw>::Pack, Engine<Avx512Bw>::Convolve, Attender<Avx512Bw>::Attend, kImageAvx2,
                           kAvx512Real, nullptr};

}  // namespace rebnn
