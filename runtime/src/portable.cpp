// Plain C++ for processors without a file of their own. Words of 64 channels; loops over lanes that any compiler turns
// into vectors.
#include "attention.h"
#include "isa.h"
#include "kernels.h"

// Unrolled into sixteen scalars, a loop over lanes is half as fast: GCC makes vectors of loops.
#if defined(__GNUC__) && !defined(__clang__)
#define REBNN_ROLLED _Pragma("GCC unroll 1")
#else
#define REBNN_ROLLED
#endif

namespace rebnn {
namespace {

struct Portable {
  static constexpr int kWordBytes = 8;
  static constexpr int kBlockLanes = 16;
  static constexpr int kMaxPixels = 1;
  static constexpr int kMaxGroups = 1;

  struct Ints {
    int32_t lane[kGroup];
  };
  // Parts as wide as the registers of most processors, which GCC and Clang keep there from one step to the next.
  typedef float Part __attribute__((vector_size(16)));
  typedef int32_t IntPart __attribute__((vector_size(16)));
  static constexpr int kPartLanes = 4;
  static constexpr int kParts = kGroup / kPartLanes;

  struct Floats {
    Part part[kParts];
  };

  template <class Operation>
  static REBNN_INLINE Floats ForParts(const Operation& operation) {
    Floats result;
    REBNN_UNROLL
    for (int i = 0; i < kParts; ++i) result.part[i] = operation(i);
    return result;
  }

  static REBNN_INLINE Ints Zero() { return Ints{}; }

  static REBNN_INLINE Ints Load(const int32_t* from) {
    Ints result;
    std::memcpy(result.lane, from, sizeof result.lane);
    return result;
  }

  static REBNN_INLINE Floats Load(const float* from) {
    Floats result;
    std::memcpy(result.part, from, sizeof result.part);
    return result;
  }

  static REBNN_INLINE void Store(int32_t* to, const Ints& value) { std::memcpy(to, value.lane, sizeof value.lane); }
  static REBNN_INLINE void Store(float* to, const Floats& value) { std::memcpy(to, value.part, sizeof value.part); }

  static REBNN_INLINE Floats Set(float value) {
    return ForParts([&](int) { return Part{value, value, value, value}; });
  }

  static REBNN_INLINE Floats ToFloats(const Ints& value) {
    IntPart parts[kParts];
    std::memcpy(parts, value.lane, sizeof parts);
    return ForParts([&](int i) { return __builtin_convertvector(parts[i], Part); });
  }

  static REBNN_INLINE Floats Add(const Floats& a, const Floats& b) {
    return ForParts([&](int i) { return a.part[i] + b.part[i]; });
  }

  static REBNN_INLINE Floats Mul(const Floats& a, const Floats& b) {
    return ForParts([&](int i) { return a.part[i] * b.part[i]; });
  }

  static REBNN_INLINE Floats Prelu(const Floats& value, const Floats& slope) {
    return ForParts([&](int i) { return value.part[i] > 0 ? value.part[i] : value.part[i] * slope.part[i]; });
  }

  static REBNN_INLINE Floats Clip(const Floats& value, const Floats& low, const Floats& high) {
    return ForParts([&](int i) {
      const Part above = value.part[i] < low.part[i] ? low.part[i] : value.part[i];
      return above > high.part[i] ? high.part[i] : above;
    });
  }

  static REBNN_INLINE Ints SubtractTwice(const Ints& base, const Ints& count) {
    Ints result;
    REBNN_ROLLED
    for (int i = 0; i < kGroup; ++i) result.lane[i] = base.lane[i] - 2 * count.lane[i];
    return result;
  }

  static REBNN_INLINE uint32_t NegativeMask(const Floats& value) {
    IntPart bits = {};
    REBNN_UNROLL
    for (int i = 0; i < kParts; ++i) {
      const int32_t first = 1 << (i * kPartLanes);
      bits |= (value.part[i] < 0) & IntPart{first, 2 * first, 4 * first, 8 * first};
    }
    return static_cast<uint32_t>(bits[0] | bits[1] | bits[2] | bits[3]);
  }

  static REBNN_INLINE Ints SetWhereNegative(const Ints& word, const Floats& value, int32_t bit) {
    Ints result;
    IntPart parts[kParts];
    std::memcpy(parts, word.lane, sizeof parts);
    REBNN_UNROLL
    for (int i = 0; i < kParts; ++i) parts[i] |= (value.part[i] < 0) & IntPart{bit, bit, bit, bit};
    std::memcpy(result.lane, parts, sizeof parts);
    return result;
  }

  // The bytes of a lane's word hold eight counts, of at most 8 a step, which are added up before one can exceed 255.
  static constexpr int64_t kSteps = 31;

  template <int P, int Q>
  static REBNN_INLINE void Accumulate(const TileInput& in, Ints (&counts)[P][Q]) {
    static_assert(P == 1 && Q == 1, "one tile is enough where nothing stays in registers");
    constexpr uint64_t k01 = 0x0101010101010101u, k55 = 0x55 * k01, k33 = 0x33 * k01, k0f = 0x0f * k01;
    constexpr uint64_t k00ff = 0x00ff00ff00ff00ffu, k0001 = 0x0001000100010001u;
    counts[0][0] = Zero();
    uint64_t bytes[kGroup] = {};
    int64_t used = 0;
    const auto flush = [&] {
      REBNN_ROLLED
      for (int i = 0; i < kGroup; ++i) {
        const uint64_t pairs = (bytes[i] & k00ff) + (bytes[i] >> 8 & k00ff);
        counts[0][0].lane[i] += static_cast<int32_t>(pairs * k0001 >> 48);
        bytes[i] = 0;
      }
      used = 0;
    };
    for (int64_t row = 0; row < in.rows; ++row) {
      for (int64_t col = 0; col < in.cols; ++col) {
        const uint8_t* x = in.pixel[0] + row * in.map_row + col * in.map_col;
        const uint8_t* w = in.weights + row * in.weight_row + col * in.weight_col;
        for (int64_t left = in.words; left > 0;) {
          const int64_t steps = Smaller(left, kSteps);
          if (used + steps > kSteps) flush();
          used += steps;
          left -= steps;
          for (int64_t step = 0; step < steps; ++step) {
            uint64_t word;
            std::memcpy(&word, x, sizeof word);
            REBNN_ROLLED
            for (int i = 0; i < kGroup; ++i) {
              uint64_t bits;
              std::memcpy(&bits, w + i * sizeof bits, sizeof bits);
              bits ^= word;
              bits -= bits >> 1 & k55;
              bits = (bits & k33) + (bits >> 2 & k33);
              bytes[i] += (bits + (bits >> 4)) & k0f;
            }
            x += sizeof word;
            w += kGroup * sizeof word;
          }
        }
      }
    }
    flush();
  }
};

}  // namespace

const Kernels kPortable = {Portable::kWordBytes, Portable::kBlockLanes, Portable::kMaxGroups * kGroup, nullptr,
                           Packer<Portable>::Pack, Engine<Portable>::Convolve, Attender<Portable>::Attend,
                           kImagePortable, kPortableReal, nullptr};

}  // namespace rebnn
