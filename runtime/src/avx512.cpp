// AVX-512 with VPOPCNTDQ (Intel from Ice Lake on, AMD from Zen 4 on): a register holds 32 channels of 16 output
// channels.
#include "attention.h"
#include "avx512_steps.h"
#include "isa.h"
#include "kernels.h"

namespace rebnn {
namespace {

struct Avx512 : Avx512Steps {
  static constexpr int kWordBytes = 4;
  static constexpr int kBlockLanes = 16;
  // 16 registers of counts, 4 of weights, and a pixel's word. Wider than high, because a pixel's 64 outputs then lie
  // side by side.
  static constexpr int kMaxPixels = 4;
  static constexpr int kMaxGroups = 4;

  // Words one by one: XOR, count, add.
  template <int P, int Q>
  static REBNN_INLINE void AccumulateWords(const uint8_t* const (&x)[P], const uint8_t* w, const TileInput& in,
                                           Ints (&counts)[P][Q]) {
    for (int64_t word = 0; word < in.words; ++word) {
      Ints weights[Q];
      REBNN_UNROLL
      for (int q = 0; q < Q; ++q) weights[q] = _mm512_load_si512(w + q * in.block_bytes + word * sizeof(Ints));
      REBNN_UNROLL
      for (int p = 0; p < P; ++p) {
        const Ints pixel = Broadcast(x[p] + word * kWordBytes);
        REBNN_UNROLL
        for (int q = 0; q < Q; ++q) {
          counts[p][q] = _mm512_add_epi32(counts[p][q], _mm512_popcnt_epi32(_mm512_xor_si512(pixel, weights[q])));
        }
      }
    }
  }

  // Pairs of words, five operations for two. With a and b the differing bits of the two, which bits differ an odd
  // number of times so far is kept in `odd`, and only what is carried, two at a time, is counted:
  //
  //   odd' = odd ^ (a ^ b)        a ^ b is the pair's second word of the map ^ that of the weights
  //   carry = a ^ b ? odd : a     a ^ b being odd ^ odd'
  //
  // In assembly, because GCC 12 moves registers around so much that nothing would be gained.
  template <int P, int Q>
  static REBNN_INLINE void AccumulatePairs(const uint8_t* const (&x)[P], const uint8_t* w, const TileInput& in,
                                           Ints (&carried)[P][Q], Ints (&odd)[P][Q]) {
    for (int64_t word = 0; word < in.words; word += 2) {
      Ints pixel[P], pixels[P];
      REBNN_UNROLL
      for (int p = 0; p < P; ++p) {
        pixel[p] = Broadcast(x[p] + word * kWordBytes);
        pixels[p] = Broadcast(x[p] + (word + 1) * kWordBytes);
      }
      REBNN_UNROLL
      for (int q = 0; q < Q; ++q) {
        const uint8_t* from = w + q * in.block_bytes + word * sizeof(Ints);
        const Ints weight = _mm512_load_si512(from);
        const Ints weights = _mm512_load_si512(from + sizeof(Ints));
        REBNN_UNROLL
        for (int p = 0; p < P; ++p) {
          Ints before, carry;
          asm("vmovdqa64 %[odd], %[before]\n\t"
              "vpternlogd $0x96, %[weights], %[pixels], %[odd]\n\t"  // odd ^ pixels ^ weights
              "vpxord %[weight], %[pixel], %[carry]\n\t"
              "vpternlogd $0xd4, %[odd], %[before], %[carry]\n\t"  // before ^ odd ? before : carry
              "vpopcntd %[carry], %[carry]\n\t"
              "vpaddd %[carry], %[carried], %[carried]"
              : [odd] "+v"(odd[p][q]), [carried] "+v"(carried[p][q]), [before] "=&v"(before), [carry] "=&v"(carry)
              : [pixel] "v"(pixel[p]), [pixels] "v"(pixels[p]), [weight] "v"(weight), [weights] "v"(weights));
        }
      }
    }
  }

  static REBNN_INLINE Ints Broadcast(const uint8_t* from) {
    int32_t bits;
    std::memcpy(&bits, from, sizeof bits);
    return _mm512_set1_epi32(bits);
  }

  // Calls `words` for every piece of the tile's pixels from `first` on.
  template <int P, class Words>
  static REBNN_INLINE void ForPieces(const TileInput& in, int first, const Words& words) {
    for (int64_t row = 0; row < in.rows; ++row) {
      for (int64_t col = 0; col < in.cols; ++col) {
        const int64_t offset = row * in.map_row + col * in.map_col;
        const uint8_t* x[P];
        REBNN_UNROLL
        for (int p = 0; p < P; ++p) x[p] = in.pixel[first + p] + offset;
        words(x, in.weights + row * in.weight_row + col * in.weight_col);
      }
    }
  }

  // P pixels of a tile from `first` on.
  template <int P, int Q>
  static REBNN_INLINE void AccumulatePaired(const TileInput& in, int first, Ints (*counts)[Q]) {
    Ints carried[P][Q], odd[P][Q];
    REBNN_UNROLL
    for (int p = 0; p < P; ++p) {
      REBNN_UNROLL
      for (int q = 0; q < Q; ++q) carried[p][q] = odd[p][q] = Zero();
    }
    ForPieces<P>(in, first, [&](const uint8_t* const (&x)[P], const uint8_t* w) __attribute__((always_inline)) {
      AccumulatePairs<P, Q>(x, w, in, carried, odd);
    });
    REBNN_UNROLL
    for (int p = 0; p < P; ++p) {
      REBNN_UNROLL
      for (int q = 0; q < Q; ++q) {
        const Ints twice = _mm512_add_epi32(carried[p][q], carried[p][q]);
        counts[first + p][q] = _mm512_add_epi32(twice, _mm512_popcnt_epi32(odd[p][q]));
      }
    }
  }

  template <int P, int Q>
  static REBNN_INLINE void Accumulate(const TileInput& in, Ints (&counts)[P][Q]) {
    if (in.paired) {
      // Two registers for each pixel and group: half a tile at a time.
      constexpr int kPixels = P * Q > 8 ? 2 : P;
      AccumulatePaired<kPixels, Q>(in, 0, counts);
      if constexpr (P > kPixels) AccumulatePaired<P - kPixels, Q>(in, kPixels, counts);
      return;
    }
    REBNN_UNROLL
    for (int p = 0; p < P; ++p) {
      REBNN_UNROLL
      for (int q = 0; q < Q; ++q) counts[p][q] = Zero();
    }
    ForPieces<P>(in, 0, [&](const uint8_t* const (&x)[P], const uint8_t* w) __attribute__((always_inline)) {
      AccumulateWords<P, Q>(x, w, in, counts);
    });
  }
};

// The second word of every 64 bits combined with the first.
void Pair(const uint8_t* from, uint8_t* to, int64_t bytes) {
  for (int64_t byte = 0; byte < bytes; byte += sizeof(__m512i)) {
    const int64_t left = (bytes - byte) / 8;
    const __mmask8 mask = static_cast<__mmask8>(left < 8 ? (1 << left) - 1 : 0xff);
    const __m512i words = _mm512_maskz_loadu_epi64(mask, from + byte);
    _mm512_mask_storeu_epi64(to + byte, mask, _mm512_xor_si512(words, _mm512_slli_epi64(words, 32)));
  }
}

}  // namespace

const Kernels kAvx512 = {Avx512::kWordBytes, Avx512::kBlockLanes, Avx512::kMaxGroups * kGroup, Pair,
                         Packer<Avx512>::Pack, Engine<Avx512>::Convolve, Attender<Avx512>::Attend, kImageAvx2,
                         kAvx512Real, &kAvx512Bfloat16Stem};

}  // namespace rebnn
