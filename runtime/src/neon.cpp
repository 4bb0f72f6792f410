// AArch64's vector instructions, which every such processor has: a register holds 16 channels of 8 output channels.
#include <arm_neon.h>

#include "attention.h"
#include "isa.h"
#include "kernels.h"
#include "neon_tile.h"

namespace rebnn {
namespace {

// kInOrder: scheduled for the Cortex-A55.
template <bool kInOrder>
struct Neon {
  static constexpr int kWordBytes = 2;
  static constexpr int kBlockLanes = 16;
  // 16 registers of counts, 8 of weights and 2 of pixels: many weights for each pixel, because cores larger than the
  // Cortex-A55 copy a pixel's word into all lanes where they also compute.
  static constexpr int kMaxPixels = 2;
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

  // Both give NaN where one is.
  static REBNN_INLINE Floats Clip(const Floats& value, const Floats& low, const Floats& high) {
    return ForParts([&](int i) { return vminq_f32(high.part[i], vmaxq_f32(low.part[i], value.part[i])); });
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

  // Counts of at most 8 a step are added up in bytes, those in 16 bits, and those in 32.
  static constexpr int64_t kByteSteps = 31;
  static constexpr int64_t kWideSteps = 128;  // of 31 steps and 2 bytes each

  // Eight output channels in 16 bits are half a group.
  static REBNN_INLINE Ints Widened(const uint16x8_t* wide) {
    return {{vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(wide[0]))),
             vreinterpretq_s32_u32(vmovl_high_u16(wide[0])),
             vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(wide[1]))),
             vreinterpretq_s32_u32(vmovl_high_u16(wide[1]))}};
  }

  template <int P, int Q>
  static REBNN_INLINE void Accumulate(const TileInput& in, Ints (&counts)[P][Q]) {
    uint8x16_t bytes[P][2 * Q];
    uint16x8_t wide[P][2 * Q];
    REBNN_UNROLL
    for (int p = 0; p < P; ++p) {
      REBNN_UNROLL
      for (int q = 0; q < Q; ++q) {
        bytes[p][2 * q] = bytes[p][2 * q + 1] = vdupq_n_u8(0);
        wide[p][2 * q] = wide[p][2 * q + 1] = vdupq_n_u16(0);
        counts[p][q] = Zero();
      }
    }
    const auto flush_wide = [&]() __attribute__((always_inline)) {
      REBNN_UNROLL
      for (int p = 0; p < P; ++p) {
        REBNN_UNROLL
        for (int q = 0; q < Q; ++q) {
          const Ints more = Widened(wide[p] + 2 * q);
          REBNN_UNROLL
          for (int i = 0; i < 4; ++i) counts[p][q].part[i] = vaddq_s32(counts[p][q].part[i], more.part[i]);
          wide[p][2 * q] = wide[p][2 * q + 1] = vdupq_n_u16(0);
        }
      }
    };
    const auto flush = [&]() __attribute__((always_inline)) {
      REBNN_UNROLL
      for (int p = 0; p < P; ++p) {
        REBNN_UNROLL
        for (int r = 0; r < 2 * Q; ++r) {
          wide[p][r] = vpadalq_u8(wide[p][r], bytes[p][r]);
          bytes[p][r] = vdupq_n_u8(0);
        }
      }
    };
    int64_t used = 0;
    int64_t flushes = 0;
    for (int64_t row = 0; row < in.rows; ++row) {
      for (int64_t col = 0; col < in.cols; ++col) {
        const int64_t offset = row * in.map_row + col * in.map_col;
        const uint8_t* w[Q];
        REBNN_UNROLL
        for (int q = 0; q < Q; ++q) {
          w[q] = in.weights + row * in.weight_row + col * in.weight_col + q * in.block_bytes;
        }
        const uint8_t* x[P];
        REBNN_UNROLL
        for (int p = 0; p < P; ++p) x[p] = in.pixel[p] + offset;
        for (int64_t left = in.words; left > 0;) {
          if (used == kByteSteps) {
            flush();
            used = 0;
            if (++flushes == kWideSteps) {
              flush_wide();
              flushes = 0;
            }
          }
          const int64_t steps = Smaller(left, kByteSteps - used);
          used += steps;
          left -= steps;
          for (int64_t step = 0; step < steps; ++step) {
            uint8x16_t pixel[P];
            REBNN_UNROLL
            for (int p = 0; p < P; ++p) {
              // A load into all lanes takes no alignment, but its C type would promise one.
              uint16_t word;
              std::memcpy(&word, x[p], sizeof word);
              pixel[p] = vreinterpretq_u8_u16(vdupq_n_u16(word));
              x[p] += sizeof word;
            }
            REBNN_UNROLL
            for (int q = 0; q < Q; ++q) {
              const uint8x16_t low = vld1q_u8(w[q]), high = vld1q_u8(w[q] + sizeof low);
              w[q] += 2 * sizeof low;
              REBNN_UNROLL
              for (int p = 0; p < P; ++p) {
                bytes[p][2 * q] = vaddq_u8(bytes[p][2 * q], vcntq_u8(veorq_u8(pixel[p], low)));
                bytes[p][2 * q + 1] = vaddq_u8(bytes[p][2 * q + 1], vcntq_u8(veorq_u8(pixel[p], high)));
              }
            }
          }
        }
      }
    }
    flush();
    flush_wide();
  }
};

// The largest tile, in 16 bits unless there are more words than those can count.
template <bool kInOrder>
struct Counts<Neon<kInOrder>, 2, 4> {
  using Isa = Neon<kInOrder>;
  uint16x8_t wide[2][8];
  typename Isa::Ints value[2][4];
  bool is_wide;

  REBNN_INLINE void Count(const TileInput& in) {
    const int64_t words = in.cols == 1 ? in.rows * in.words : 0;
    is_wide = words > 0 && words <= kTileWords;
    if (is_wide) {
      CountTile<kInOrder>(in, wide[0]);
    } else {
      Isa::template Accumulate<2, 4>(in, value);
    }
  }

  // A compiler that loads them all at once runs out of registers.
  REBNN_INLINE typename Isa::Ints Get(int p, int q) const {
    asm volatile("" ::: "memory");
    return is_wide ? Isa::Widened(wide[p] + 2 * q) : value[p][q];
  }
};

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

// Two pixels that lie side by side are half a register of each channel.
template <bool kInOrder>
struct Planes<Neon<kInOrder>> {
  using Isa = Neon<kInOrder>;
  using Floats = typename Isa::Floats;

  template <int P>
  static REBNN_INLINE void Load(const float* from, const TileOutput& out, int64_t valid, Floats (&value)[P]) {
    if constexpr (P == 2) {
      if (valid == kGroup && out.pixel[1] == out.pixel[0] + 1) {
        const int64_t step = out.plane * static_cast<int64_t>(sizeof(float));
        from += out.pixel[0];
        REBNN_UNROLL
        for (int i = 0; i < 4; ++i) {
          const float32x4_t low = LoadTwo(from, step);
          const float32x4_t high = LoadTwo(from, step);
          value[0].part[i] = vuzp1q_f32(low, high);
          value[1].part[i] = vuzp2q_f32(low, high);
        }
        return;
      }
    }
    AnyPlanes<Isa>::template Load<P>(from, out, valid, value);
  }

  template <int P>
  static REBNN_INLINE void Store(float* to, const TileOutput& out, int64_t valid, const Floats (&value)[P]) {
    if constexpr (P == 2) {
      if (valid == kGroup && out.pixel[1] == out.pixel[0] + 1) {
        const int64_t step = out.plane * static_cast<int64_t>(sizeof(float));
        to += out.pixel[0];
        REBNN_UNROLL
        for (int i = 0; i < 4; ++i) {
          StoreTwo(to, step, vzip1q_f32(value[0].part[i], value[1].part[i]));
          StoreTwo(to, step, vzip2q_f32(value[0].part[i], value[1].part[i]));
        }
        return;
      }
    }
    AnyPlanes<Isa>::template Store<P>(to, out, valid, value);
  }
};

}  // namespace

using Base = Neon<false>;
using CortexA55 = Neon<true>;

const Kernels kNeon = {Base::kWordBytes, Base::kBlockLanes, Base::kMaxGroups * kGroup, nullptr, Packer<Base>::Pack,
                       Engine<Base>::Convolve, Attender<Base>::Attend, kImagePortable, kNeonReal, &kNeonHalfStem};
const Kernels kNeonA55 = {CortexA55::kWordBytes, CortexA55::kBlockLanes, CortexA55::kMaxGroups * kGroup, nullptr,
                          Packer<CortexA55>::Pack, Engine<CortexA55>::Convolve, Attender<CortexA55>::Attend,
                          kImagePortable, kNeonReal, &kNeonHalfStem};

}  // namespace rebnn
