// ARM of 32 bits: what neon.cpp needs and its intrinsics lack.
//
// Its vector instructions take numbers below the normal ones for 0, so real numbers are compared here as integers, and
// calculated with by VFP's instructions, one by one.
#ifndef REBNN_SRC_NEON32_H_
#define REBNN_SRC_NEON32_H_

#include <arm_neon.h>

#include "taps.h"

// Names for the two numbers of a register, d0_0 and d0_1 those of d0.
#define REBNN_NAMES(d, low, high) "d" #d "_0 .req s" #low "\nd" #d "_1 .req s" #high "\n"
asm(REBNN_NAMES(0, 0, 1) REBNN_NAMES(1, 2, 3) REBNN_NAMES(2, 4, 5) REBNN_NAMES(3, 6, 7) REBNN_NAMES(4, 8, 9)
    REBNN_NAMES(5, 10, 11) REBNN_NAMES(6, 12, 13) REBNN_NAMES(7, 14, 15) REBNN_NAMES(8, 16, 17) REBNN_NAMES(9, 18, 19)
    REBNN_NAMES(10, 20, 21) REBNN_NAMES(11, 22, 23) REBNN_NAMES(12, 24, 25) REBNN_NAMES(13, 26, 27)
    REBNN_NAMES(14, 28, 29) REBNN_NAMES(15, 30, 31));

// In assembly, because compilers move each number to an integer register first.
#define REBNN_EACH(operation, to, a, b)                                     \
  asm(operation " %e0_0, %e1_0, %e2_0\n" operation " %e0_1, %e1_1, %e2_1\n" \
      operation " %f0_0, %f1_0, %f2_0\n" operation " %f0_1, %f1_1, %f2_1\n" \
      : "=t"(to)                                                            \
      : "t"(a), "t"(b))

namespace rebnn {
namespace {

constexpr int kNeonGroups = 2;  // of the largest tile: 8 registers of counts out of 16

REBNN_INLINE float32x4_t AddFour(float32x4_t a, float32x4_t b) {
  float32x4_t sum;
  REBNN_EACH("vadd.f32", sum, a, b);
  return sum;
}

REBNN_INLINE float32x4_t MultiplyFour(float32x4_t a, float32x4_t b) {
  float32x4_t product;
  REBNN_EACH("vmul.f32", product, a, b);
  return product;
}

// Without their signs, 1 to infinity.
REBNN_INLINE uint32x4_t IsPositive(float32x4_t value) {
  return vcltq_u32(vsubq_u32(vreinterpretq_u32_f32(value), vdupq_n_u32(1)), vdupq_n_u32(0x7f800000));
}

REBNN_INLINE uint32x4_t IsNegative(float32x4_t value) {
  return vcltq_u32(vsubq_u32(vreinterpretq_u32_f32(value), vdupq_n_u32(0x80000001)), vdupq_n_u32(0x7f800000));
}

// Gives NaN where one is.
REBNN_INLINE float32x4_t ClipFour(float32x4_t value, float32x4_t low, float32x4_t high) {
  REBNN_UNROLL
  for (int i = 0; i < 4; ++i) {
    const float above = value[i] < low[i] ? low[i] : value[i];
    value[i] = above > high[i] ? high[i] : above;
  }
  return value;
}

REBNN_INLINE float32x4_t vuzp1q_f32(float32x4_t a, float32x4_t b) { return vuzpq_f32(a, b).val[0]; }
REBNN_INLINE float32x4_t vuzp2q_f32(float32x4_t a, float32x4_t b) { return vuzpq_f32(a, b).val[1]; }
REBNN_INLINE float32x4_t vzip1q_f32(float32x4_t a, float32x4_t b) { return vzipq_f32(a, b).val[0]; }
REBNN_INLINE float32x4_t vzip2q_f32(float32x4_t a, float32x4_t b) { return vzipq_f32(a, b).val[1]; }
REBNN_INLINE uint16x8_t vuzp1q_u16(uint16x8_t a, uint16x8_t b) { return vuzpq_u16(a, b).val[0]; }
REBNN_INLINE uint8x16_t vuzp1q_u8(uint8x16_t a, uint8x16_t b) { return vuzpq_u8(a, b).val[0]; }
REBNN_INLINE uint32x4_t vmovl_high_u16(uint16x8_t a) { return vmovl_u16(vget_high_u16(a)); }

REBNN_INLINE uint8x16_t vpaddq_u8(uint8x16_t a, uint8x16_t b) {
  return vcombine_u8(vpadd_u8(vget_low_u8(a), vget_high_u8(a)), vpadd_u8(vget_low_u8(b), vget_high_u8(b)));
}

// Pointers in variables of their own, since GCC keeps those of assembly in memory.
REBNN_INLINE uint8x16_t LoadPixel(const uint8_t*& from) {
  const uint8_t* at = from;
  uint8x16_t word;
  asm("vld1.16 {%e0[], %f0[]}, [%1]!" : "=w"(word), "+r"(at) : : "memory");
  from = at;
  return word;
}

REBNN_INLINE uint8x16x2_t LoadWeights(const uint8_t*& from) {
  const uint8_t* at = from;
  uint8x16x2_t weights;
  asm("vld1.8 %h0, [%1]!" : "=w"(weights), "+r"(at) : : "memory");
  from = at;
  return weights;
}

REBNN_INLINE float32x4_t LoadTwo(const float*& from, int64_t plane_bytes) {
  float32x4_t value;
  asm("vld1.32 {%e0}, [%1], %2\n"
      "vld1.32 {%f0}, [%1], %2\n"
      : "=&w"(value), "+r"(from)
      : "r"(static_cast<int32_t>(plane_bytes))
      : "memory");
  return value;
}

REBNN_INLINE void StoreTwo(float*& to, int64_t plane_bytes, float32x4_t value) {
  asm volatile("vst1.32 {%e1}, [%0], %2\n"
               "vst1.32 {%f1}, [%0], %2\n"
               : "+r"(to)
               : "w"(value), "r"(static_cast<int32_t>(plane_bytes))
               : "memory");
}

}  // namespace
}  // namespace rebnn

#endif  // REBNN_SRC_NEON32_H_
