// What is done to the counts of 16 output channels with AVX-512, however they were counted.
#ifndef REBNN_SRC_AVX512_STEPS_H_
#define REBNN_SRC_AVX512_STEPS_H_

#include <immintrin.h>

#include "taps.h"

namespace rebnn {
namespace {

struct Avx512Steps {
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
    const __mmask16 others = _mm512_cmp_ps_mask(value, _mm512_setzero_ps(), _CMP_NGT_UQ);
    return _mm512_mask_mul_ps(value, others, value, slope);
  }

  // Both give their second operand where one is NaN.
  static REBNN_INLINE Floats Clip(Floats value, Floats low, Floats high) {
    return _mm512_min_ps(high, _mm512_max_ps(low, value));
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
};

}  // namespace
}  // namespace rebnn

#endif  // REBNN_SRC_AVX512_STEPS_H_
