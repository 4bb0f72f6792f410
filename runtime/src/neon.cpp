// ARM's vector instructions, which every AArch64 processor and most of 32 bits have: a register holds 16 channels of 8
// output channels.
#include <arm_neon.h>

#include "attention.h"
#include "isa.h"
#include "kernels.h"
#if defined(__aarch64__)
#include "neon64.h"
#include "neon_tile.h"
#else
#include "neon32.h"
#endif

namespace rebnn {
namespace {

// kInOrder: scheduled for the Cortex-A55.
template <bool kInOrder>
struct Neon {
  static constexpr int kWordBytes = 2;
  static constexpr int kBlockLanes = 16;
  static constexpr int kMaxPixels = 2;
  static constexpr int kMaxGroups = kNeonGroups;

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
    return ForParts([&](int i) { return AddFour(a.part[i], b.part[i]); });
  }

  static REBNN_INLINE Floats Mul(const Floats& a, const Floats& b) {
    return ForParts([&](int i) { return MultiplyFour(a.part[i], b.part[i]); });
  }

  static REBNN_INLINE Floats Prelu(const Floats& value, const Floats& slope) {
    return ForParts([&](int i) {
      return vbslq_f32(IsPositive(value.part[i]), value.part[i], MultiplyFour(value.part[i], slope.part[i]));
    });
  }

  static REBNN_INLINE Floats Clip(const Floats& value, const Floats& low, const Floats& high) {
    return ForParts([&](int i) { return ClipFour(value.part[i], low.part[i], high.part[i]); });
  }

  static REBNN_INLINE Ints SubtractTwice(const Ints& base, const Ints& count) {
    Ints result;
    REBNN_UNROLL
    for (int i = 0; i < 4; ++i) result.part[i] = vmlsq_n_s32(base.part[i], count.part[i], 2);
    return result;
  }

  static REBNN_INLINE uint32_t NegativeMask(const Floats& value) {
    const auto halves = [&](int i) __attribute__((always_inline)) {
      return vuzp1q_u16(vreinterpretq_u16_u32(IsNegative(value.part[i])),
                        vreinterpretq_u16_u32(IsNegative(value.part[i + 1])));
    };
    const uint16x8_t low = halves(0), high = halves(2);
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
      const int32x4_t negative = vreinterpretq_s32_u32(IsNegative(value.part[i]));
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
          const int steps = static_cast<int>(Smaller(left, kByteSteps - used));
          used += steps;
          left -= steps;
          for (int step = steps; step > 0; --step) {
            uint8x16_t pixel[P];
            REBNN_UNROLL
            for (int p = 0; p < P; ++p) pixel[p] = LoadPixel(x[p]);
            REBNN_UNROLL
            for (int q = 0; q < Q; ++q) {
              const uint8x16x2_t weights = LoadWeights(w[q]);
              REBNN_UNROLL
              for (int p = 0; p < P; ++p) {
                REBNN_UNROLL
                for (int i = 0; i < 2; ++i) {
                  bytes[p][2 * q + i] = vaddq_u8(bytes[p][2 * q + i], vcntq_u8(veorq_u8(pixel[p], weights.val[i])));
                }
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

#if defined(__aarch64__)
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
#endif

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
#if defined(__aarch64__)
constexpr const StemKernels* kHalfStem = &kNeonHalfStem;
#else
constexpr const StemKernels* kHalfStem = nullptr;
#endif

const Kernels kNeon = {Base::kWordBytes, Base::kBlockLanes, Base::kMaxGroups * kGroup, nullptr, Packer<Base>::Pack,
                       Engine<Base>::Convolve, Attender<Base>::Attend, kImagePortable, kNeonReal, kHalfStem};
#if defined(__ARM_PCS_VFP)
const Kernels kNeonVfpv4 = {Base::kWordBytes, Base::kBlockLanes, Base::kMaxGroups * kGroup, nullptr,
                            Packer<Base>::Pack, Engine<Base>::Convolve, Attender<Base>::Attend,
                            kImagePortable, kVfpv4Real, kHalfStem};
#else
using CortexA55 = Neon<true>;

const Kernels kNeonA55 = {CortexA55::kWordBytes, CortexA55::kBlockLanes, CortexA55::kMaxGroups * kGroup, nullptr,
                          Packer<CortexA55>::Pack, Engine<CortexA55>::Convolve, Attender<CortexA55>::Attend,
                          kImagePortable, kNeonReal, kHalfStem};
#endif

}  // namespace rebnn
