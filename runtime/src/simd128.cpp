// WebAssembly with vectors of 128 bits, which every browser has had since 2023: a register holds 8 channels of 16
// output channels.
#include <wasm_simd128.h>

#include "attention.h"
#include "isa.h"
#include "lookup.h"

namespace rebnn {
namespace {

struct Simd128 {
  static constexpr int kWordBytes = 1;
  static constexpr int kBlockLanes = 16;
  static constexpr int kMaxPixels = 4;
  static constexpr int kMaxGroups = 2;
  static constexpr int kParts = 4;
  static constexpr int kPartLanes = kGroup / kParts;

  struct Ints {
    v128_t part[kParts];
  };
  struct Floats {
    v128_t part[kParts];
  };

  template <class Numbers, class Operation>
  static REBNN_INLINE Numbers ForParts(const Operation& operation) {
    Numbers result;
    REBNN_UNROLL
    for (int i = 0; i < kParts; ++i) result.part[i] = operation(i);
    return result;
  }

  static REBNN_INLINE Ints Zero() {
    return ForParts<Ints>([](int) { return wasm_i32x4_const_splat(0); });
  }
  static REBNN_INLINE Ints Load(const int32_t* from) {
    return ForParts<Ints>([&](int i) { return wasm_v128_load(from + i * kPartLanes); });
  }
  static REBNN_INLINE Floats Load(const float* from) {
    return ForParts<Floats>([&](int i) { return wasm_v128_load(from + i * kPartLanes); });
  }

  static REBNN_INLINE void Store(int32_t* to, const Ints& value) {
    REBNN_UNROLL
    for (int i = 0; i < kParts; ++i) wasm_v128_store(to + i * kPartLanes, value.part[i]);
  }
  static REBNN_INLINE void Store(float* to, const Floats& value) {
    REBNN_UNROLL
    for (int i = 0; i < kParts; ++i) wasm_v128_store(to + i * kPartLanes, value.part[i]);
  }

  static REBNN_INLINE Floats Set(float value) {
    return ForParts<Floats>([&](int) { return wasm_f32x4_splat(value); });
  }
  static REBNN_INLINE Floats ToFloats(const Ints& value) {
    return ForParts<Floats>([&](int i) { return wasm_f32x4_convert_i32x4(value.part[i]); });
  }
  static REBNN_INLINE Floats Add(const Floats& a, const Floats& b) {
    return ForParts<Floats>([&](int i) { return wasm_f32x4_add(a.part[i], b.part[i]); });
  }
  static REBNN_INLINE Floats Mul(const Floats& a, const Floats& b) {
    return ForParts<Floats>([&](int i) { return wasm_f32x4_mul(a.part[i], b.part[i]); });
  }

  static REBNN_INLINE Floats Prelu(const Floats& value, const Floats& slope) {
    return ForParts<Floats>([&](int i) {
      const v128_t positive = wasm_f32x4_gt(value.part[i], wasm_f32x4_const_splat(0));
      return wasm_v128_bitselect(value.part[i], wasm_f32x4_mul(value.part[i], slope.part[i]), positive);
    });
  }

  // Both give their first operand where one is NaN.
  static REBNN_INLINE Floats Clip(const Floats& value, const Floats& low, const Floats& high) {
    return ForParts<Floats>(
        [&](int i) { return wasm_f32x4_pmin(wasm_f32x4_pmax(value.part[i], low.part[i]), high.part[i]); });
  }

  static REBNN_INLINE Ints SubtractTwice(const Ints& base, const Ints& count) {
    return ForParts<Ints>(
        [&](int i) { return wasm_i32x4_sub(base.part[i], wasm_i32x4_add(count.part[i], count.part[i])); });
  }

  static REBNN_INLINE v128_t Negative(v128_t value) { return wasm_f32x4_lt(value, wasm_f32x4_const_splat(0)); }

  static REBNN_INLINE uint32_t NegativeMask(const Floats& value) {
    const v128_t low = wasm_i16x8_narrow_i32x4(Negative(value.part[0]), Negative(value.part[1]));
    const v128_t high = wasm_i16x8_narrow_i32x4(Negative(value.part[2]), Negative(value.part[3]));
    return wasm_i8x16_bitmask(wasm_i8x16_narrow_i16x8(low, high));
  }

  static REBNN_INLINE Ints SetWhereNegative(const Ints& word, const Floats& value, int32_t bit) {
    return ForParts<Ints>([&](int i) {
      return wasm_v128_or(word.part[i], wasm_v128_and(Negative(value.part[i]), wasm_i32x4_splat(bit)));
    });
  }

  // 16-bit counts of 16 outputs.
  struct Wide {
    v128_t low, high;
  };

  template <int P, int Q>
  static REBNN_INLINE void Accumulate(const TileInput& in, Ints (&counts)[P][Q]) {
    const v128_t zero = wasm_i32x4_const_splat(0);
    v128_t bytes[P][Q];
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
      REBNN_UNROLL
      for (int p = 0; p < P; ++p) {
        REBNN_UNROLL
        for (int q = 0; q < Q; ++q) {
          const Wide words = wide[p][q];
          const v128_t added[kParts] = {wasm_u32x4_extend_low_u16x8(words.low), wasm_u32x4_extend_high_u16x8(words.low),
                                        wasm_u32x4_extend_low_u16x8(words.high),
                                        wasm_u32x4_extend_high_u16x8(words.high)};
          REBNN_UNROLL
          for (int i = 0; i < kParts; ++i) counts[p][q].part[i] = wasm_i32x4_add(counts[p][q].part[i], added[i]);
          wide[p][q] = {zero, zero};
        }
      }
    };
    const auto flush = [&]() __attribute__((always_inline)) {
      REBNN_UNROLL
      for (int p = 0; p < P; ++p) {
        REBNN_UNROLL
        for (int q = 0; q < Q; ++q) {
          wide[p][q].low = wasm_i16x8_add(wide[p][q].low, wasm_u16x8_extend_low_u8x16(bytes[p][q]));
          wide[p][q].high = wasm_i16x8_add(wide[p][q].high, wasm_u16x8_extend_high_u8x16(bytes[p][q]));
          bytes[p][q] = zero;
        }
      }
    };
    const auto step = [&](const uint8_t* const (&x)[P], const uint8_t* w, int64_t word) __attribute__((always_inline)) {
      v128_t weights[Q];
      REBNN_UNROLL
      for (int q = 0; q < Q; ++q) weights[q] = wasm_v128_load(w + q * in.block_bytes + word * kBlockLanes);
      REBNN_UNROLL
      for (int p = 0; p < P; ++p) {
        const v128_t pixel = wasm_v128_load8_splat(x[p] + word);
        REBNN_UNROLL
        for (int q = 0; q < Q; ++q) {
          bytes[p][q] = wasm_i8x16_add(bytes[p][q], wasm_i8x16_popcnt(wasm_v128_xor(pixel, weights[q])));
        }
      }
    };
    ForBytes<P>(in, step, flush, flush_wide);
  }
};

}  // namespace

const Kernels kSimd128 = {Simd128::kWordBytes, Simd128::kBlockLanes, Simd128::kMaxGroups * kGroup, nullptr,
                          Packer<Simd128>::Pack, Engine<Simd128>::Convolve, Attender<Simd128>::Attend, kImagePortable,
                          kPortableReal, nullptr};

}  // namespace rebnn
