// AArch64: what neon.cpp has in another way where addresses have 32 bits (neon32.h).
#ifndef REBNN_SRC_NEON64_H_
#define REBNN_SRC_NEON64_H_

#include <arm_neon.h>

#include <cstring>

#include "taps.h"

namespace rebnn {
namespace {

// Of the largest tile: 16 registers of counts, 8 of weights and 2 of pixels; many weights for each pixel, because cores
// larger than the Cortex-A55 copy a pixel's word into all lanes where they also compute.
constexpr int kNeonGroups = 4;

REBNN_INLINE float32x4_t AddFour(float32x4_t a, float32x4_t b) { return vaddq_f32(a, b); }
REBNN_INLINE float32x4_t MultiplyFour(float32x4_t a, float32x4_t b) { return vmulq_f32(a, b); }
REBNN_INLINE uint32x4_t IsPositive(float32x4_t value) { return vcgtzq_f32(value); }
REBNN_INLINE uint32x4_t IsNegative(float32x4_t value) { return vcltzq_f32(value); }

// Both give NaN where one is.
REBNN_INLINE float32x4_t ClipFour(float32x4_t value, float32x4_t low, float32x4_t high) {
  return vminq_f32(high, vmaxq_f32(low, value));
}

// A word into all lanes. A load that does it takes no alignment, but its C type would promise one.
REBNN_INLINE uint8x16_t LoadPixel(const uint8_t*& from) {
  uint16_t word;
  std::memcpy(&word, from, sizeof word);
  from += sizeof word;
  return vreinterpretq_u8_u16(vdupq_n_u16(word));
}

REBNN_INLINE uint8x16x2_t LoadWeights(const uint8_t*& from) {
  const uint8x16_t low = vld1q_u8(from), high = vld1q_u8(from + sizeof low);
  from += 2 * sizeof low;
  return {{low, high}};
}

// Half registers, each from another plane; `from` ends after the last of them. One instruction each, where a compiler
// computes every address on its own.
REBNN_INLINE float32x4_t LoadTwo(const float*& from, int64_t plane_bytes) {
  float32x4_t value;
  asm("ld1 {%0.d}[0], [%1], %2\n"
      "ld1 {%0.d}[1], [%1], %2\n"
      : "=&w"(value), "+r"(from)
      : "r"(plane_bytes)
      : "memory");
  return value;
}

REBNN_INLINE void StoreTwo(float*& to, int64_t plane_bytes, float32x4_t value) {
  asm volatile("st1 {%1.d}[0], [%0], %2\n"
               "st1 {%1.d}[1], [%0], %2\n"
      : "+r"(to)
      : "w"(value), "r"(plane_bytes)
      : "memory");
}

}  // namespace
}  // namespace rebnn

#endif  // REBNN_SRC_NEON64_H_
