// AVX-512 with VPOPCNTDQ (Intel from Ice Lake on, AMD from Zen 4 on): a register holds 32 channels of 16 output
// channels.
#include <immintrin.h>

#include "attention.h"
#include "isa.h"
#include "kernels.h"

namespace rebnn {
namespace {

struct Avx512 {
  static constexpr int kWordBytes = 4;
  static constexpr int kBlockLanes = 16;
  // 16 registers of counts, 4 of weights, and a pixel's word. Wider than high, because a pixel's 64 outputs then lie
  // side by side.
  static constexpr int kMaxPixels = 4;
  static constexpr int kMaxGroups = 4;

  using Ints = __m512i;
  using Floats = __m512;

  static REBNN_INLINE Ints Zero() { return _mm512_setzero_si512(); }
  static REBNN_INLINE Ints Load(const int32_t* from) { return _mm512_loadu_si512(from); }
  static REBNN_INLINE Floats Load(const float* from) { return _mm512_loadu_ps(from); }
  static REBNN_INLINE void Store(int32_t* to, Ints value) { _mm512_storeu_si512(to, value); }
  static REBNN_INLINE void Store(float* to, Floats value) { _mm512_storeu_ps(to, value); }
  static REBNN_INLINE Floats Set(float value) { return _mm512_set1_ps(value); }
  static REBNN_INLINE Floats ToFloats(Ints value) { return _mm512_cvtepi32_ps(value); }
  static REBNN_INLINE Floats Add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static REBNN_INLINE Floats Mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }

  static REBNN_INLINE Floats Prelu(Floats value, Floats slope) {
    const __mmask16 positive = _mm512_cmp_ps_mask(value, _mm512_setzero_ps(), _CMP_GT_OQ);
    return _mm512_mask_mov_ps(_mm512_mul_ps(value, slope), positive, value);
  }

  static REBNN_INLINE Ints SubtractTwice(Ints base, Ints count) {
    return _mm512_sub_epi32(base, _mm512_add_epi32(count, count));
  }

  static REBNN_INLINE __mmask16 Negative(Floats value) {
    return _mm512_cmp_ps_mask(value, _mm512_setzero_ps(), _CMP_LT_OQ);
  }

  static REBNN_INLINE uint32_t NegativeMask(Floats value) { return Negative(value); }

  static REBNN_INLINE Ints SetWhereNegative(Ints word, Floats value, int32_t bit) {
    return _mm512_mask_or_epi32(word, Negative(value), word, _mm512_set1_epi32(bit));
  }

  template <int P, int Q>
  static REBNN_INLINE void Accumulate(const TileInput& in, Ints (&counts)[P][Q]) {
    REBNN_UNROLL
    for (int p = 0; p < P; ++p) {
      REBNN_UNROLL
      for (int q = 0; q < Q; ++q) counts[p][q] = Zero();
    }
    for (int64_t row = 0; row < in.rows; ++row) {
      for (int64_t col = 0; col < in.cols; ++col) {
        const int64_t offset = row * in.map_row + col * in.map_col;
        const uint8_t* w = in.weights + row * in.weight_row + col * in.weight_col;
        const uint8_t* x[P];
        REBNN_UNROLL
        for (int p = 0; p < P; ++p) x[p] = in.pixel[p] + offset;
        for (int64_t word = 0; word < in.words; ++word) {
          Ints weights[Q];
          REBNN_UNROLL
          for (int q = 0; q < Q; ++q) weights[q] = _mm512_load_si512(w + q * in.block_bytes + word * sizeof(Ints));
          REBNN_UNROLL
          for (int p = 0; p < P; ++p) {
            int32_t bits;
            std::memcpy(&bits, x[p] + word * kWordBytes, sizeof bits);
            const Ints pixel = _mm512_set1_epi32(bits);
            REBNN_UNROLL
            for (int q = 0; q < Q; ++q) {
              counts[p][q] = _mm512_add_epi32(counts[p][q], _mm512_popcnt_epi32(_mm512_xor_si512(pixel, weights[q])));
            }
          }
        }
      }
    }
  }
};

}  // namespace

const Kernels kAvx512 = {"avx512", Avx512::kWordBytes, Avx512::kBlockLanes, Packer<Avx512>::Pack,
                         Engine<Avx512>::Convolve, Attender<Avx512>::Attend};

}  // namespace rebnn
