// AArch64's vector instructions, which every such processor has: a register holds one byte of channels, 8 of them, of
// 16 output channels.
#include <arm_neon.h>

#include "isa.h"
#include "kernels.h"

namespace rebnn {
namespace {

struct Neon {
  static constexpr int kWordBytes = 1;
  static constexpr int kBlockLanes = 16;
  // 16 registers of counts, 4 of weights, and a pixel's byte: reading weights and pixels costs little beside 48
  // operations.
  static constexpr int kMaxPixels = 4;
  static constexpr int kMaxGroups = 4;

  struct Ints {
    int32x4_t part[4];
  };
  struct Floats {
    float32x4_t part[4];
  };

  template <class Part>
  static REBNN_INLINE Floats ForParts(Part part) {
    return {{part(0), part(1), part(2), part(3)}};
  }

  static REBNN_INLINE Ints Zero() {
    const int32x4_t zero = vdupq_n_s32(0);
    return {{zero, zero, zero, zero}};
  }

  static REBNN_INLINE Ints Load(const int32_t* from) {
    return {{vld1q_s32(from), vld1q_s32(from + 4), vld1q_s32(from + 8), vld1q_s32(from + 12)}};
  }

  static REBNN_INLINE Floats Load(const float* from) {
    return {{vld1q_f32(from), vld1q_f32(from + 4), vld1q_f32(from + 8), vld1q_f32(from + 12)}};
  }

  static REBNN_INLINE void Store(int32_t* to, const Ints& value) {
    REBNN_UNROLL
    for (int i = 0; i < 4; ++i) vst1q_s32(to + 4 * i, value.part[i]);
  }

  static REBNN_INLINE void Store(float* to, const Floats& value) {
    REBNN_UNROLL
    for (int i = 0; i < 4; ++i) vst1q_f32(to + 4 * i, value.part[i]);
  }

  static REBNN_INLINE Floats Set(float value) {
    return ForParts([&](int) { return vdupq_n_f32(value); });
  }

  static REBNN_INLINE Floats ToFloats(const Ints& value) {
    return ForParts([&](int i) { return vcvtq_f32_s32(value.part[i]); });
  }

  static REBNN_INLINE Floats Add(const Floats& a, const Floats& b) {
    return ForParts([&](int i) { return vaddq_f32(a.part[i], b.part[i]); });
  }

  static REBNN_INLINE Floats Mul(const Floats& a, const Floats& b) {
    return ForParts([&](int i) { return vmulq_f32(a.part[i], b.part[i]); });
  }

  static REBNN_INLINE Floats Prelu(const Floats& value, const Floats& slope) {
    return ForParts([&](int i) {
      return vbslq_f32(vcgtzq_f32(value.part[i]), value.part[i], vmulq_f32(value.part[i], slope.part[i]));
    });
  }

  static REBNN_INLINE Ints SubtractTwice(const Ints& base, const Ints& count) {
    Ints result;
    REBNN_UNROLL
    for (int i = 0; i < 4; ++i) result.part[i] = vmlsq_n_s32(base.part[i], count.part[i], 2);
    return result;
  }

  static REBNN_INLINE uint32_t NegativeMask(const Floats& value) {
    const uint16x8_t low =
        vuzp1q_u16(vreinterpretq_u16_u32(vcltzq_f32(value.part[0])), vreinterpretq_u16_u32(vcltzq_f32(value.part[1])));
    const uint16x8_t high =
        vuzp1q_u16(vreinterpretq_u16_u32(vcltzq_f32(value.part[2])), vreinterpretq_u16_u32(vcltzq_f32(value.part[3])));
    const uint8x16_t negative = vuzp1q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high));
    const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
    const uint8x16_t bits = vandq_u8(negative, bit);
    uint8x16_t sum = vpaddq_u8(bits, bits);
    sum = vpaddq_u8(sum, sum);
    sum = vpaddq_u8(sum, sum);
    return vgetq_lane_u16(vreinterpretq_u16_u8(sum), 0);
  }

  static REBNN_INLINE Ints SetWhereNegative(const Ints& word, const Floats& value, int32_t bit) {
    Ints result;
    REBNN_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int32x4_t negative = vreinterpretq_s32_u32(vcltzq_f32(value.part[i]));
      result.part[i] = vorrq_s32(word.part[i], vandq_s32(negative, vdupq_n_s32(bit)));
    }
    return result;
  }

  // Sixteen counts of 16 bits, and the same in 32 bits.
  struct Wide {
    uint16x8_t low, high;
  };

  static REBNN_INLINE Ints AddWide(const Ints& sum, const Wide& wide) {
    Ints result;
    result.part[0] = vaddq_s32(sum.part[0], vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(wide.low))));
    result.part[1] = vaddq_s32(sum.part[1], vreinterpretq_s32_u32(vmovl_high_u16(wide.low)));
    result.part[2] = vaddq_s32(sum.part[2], vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(wide.high))));
    result.part[3] = vaddq_s32(sum.part[3], vreinterpretq_s32_u32(vmovl_high_u16(wide.high)));
    return result;
  }

  // Counts of at most 8 a step are added up in bytes, those in 16 bits, and those in 32.
  static constexpr int64_t kByteSteps = 31;
  static constexpr int64_t kWideSteps = 256;  // of 31 * 8 each

  template <int P, int Q>
  static REBNN_INLINE void Accumulate(const TileInput& in, Ints (&counts)[P][Q]) {
    uint8x16_t bytes[P][Q];
    Wide wide[P][Q];
    const Wide none = {vdupq_n_u16(0), vdupq_n_u16(0)};
    REBNN_UNROLL
    for (int p = 0; p < P; ++p) {
      REBNN_UNROLL
      for (int q = 0; q < Q; ++q) {
        bytes[p][q] = vdupq_n_u8(0);
        wide[p][q] = none;
        counts[p][q] = Zero();
      }
    }
    const auto flush_wide = [&]() __attribute__((always_inline)) {
      for (int p = 0; p < P; ++p) {
        for (int q = 0; q < Q; ++q) {
          counts[p][q] = AddWide(counts[p][q], wide[p][q]);
          wide[p][q] = none;
        }
      }
    };
    const auto flush = [&]() __attribute__((always_inline)) {
      REBNN_UNROLL
      for (int p = 0; p < P; ++p) {
        REBNN_UNROLL
        for (int q = 0; q < Q; ++q) {
          wide[p][q].low = vaddw_u8(wide[p][q].low, vget_low_u8(bytes[p][q]));
          wide[p][q].high = vaddw_high_u8(wide[p][q].high, bytes[p][q]);
          bytes[p][q] = vdupq_n_u8(0);
        }
      }
    };
    int64_t used = 0;
    int64_t flushes = 0;
    for (int64_t row = 0; row < in.rows; ++row) {
      for (int64_t col = 0; col < in.cols; ++col) {
        const int64_t offset = row * in.map_row + col * in.map_col;
        const uint8_t* w = in.weights + row * in.weight_row + col * in.weight_col;
        const uint8_t* x[P];
        REBNN_UNROLL
        for (int p = 0; p < P; ++p) x[p] = in.pixel[p] + offset;
        for (int64_t first = 0; first < in.words;) {
          const int64_t last = Smaller(in.words, first + kByteSteps);
          if (used + last - first > kByteSteps) {
            flush();
            used = 0;
            if (++flushes == kWideSteps) {
              flush_wide();
              flushes = 0;
            }
          }
          used += last - first;
          for (int64_t word = first; word < last; ++word) {
            uint8x16_t weights[Q];
            REBNN_UNROLL
            for (int q = 0; q < Q; ++q) weights[q] = vld1q_u8(w + q * in.block_bytes + word * sizeof(uint8x16_t));
            REBNN_UNROLL
            for (int p = 0; p < P; ++p) {
              const uint8x16_t pixel = vld1q_dup_u8(x[p] + word);
              REBNN_UNROLL
              for (int q = 0; q < Q; ++q) {
                bytes[p][q] = vaddq_u8(bytes[p][q], vcntq_u8(veorq_u8(pixel, weights[q])));
              }
            }
          }
          first = last;
        }
      }
    }
    flush();
    flush_wide();
  }
};

}  // namespace

const Kernels kNeon = {"neon", Neon::kWordBytes, Neon::kBlockLanes, Packer<Neon>::Pack, Engine<Neon>::Convolve};

}  // namespace rebnn
