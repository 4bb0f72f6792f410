// The loop over bytes of channels, and differing bits by table, for processors that look bytes up in 16 others but
// count no bits in vectors.
#ifndef REBNN_SRC_LOOKUP_H_
#define REBNN_SRC_LOOKUP_H_

#include "kernels.h"

namespace rebnn {

// For each byte of a pixel and each nibble of weights in how many bits the weights differ from the byte's low nibble,
// and from its high one: a look-up does the comparison as well as the count. Tables of bytes instead of nibbles save
// the instructions that take a byte apart, which are a third of all.
struct DifferingBits {
  alignas(64) uint8_t of[256][2][16];
};

extern const DifferingBits kDiffering;

namespace {

// Counts of at most 8 a step are added up in bytes, those in 16 bits, and those in 32.
constexpr int64_t kByteSteps = 31;
constexpr int64_t kWideSteps = 256;  // of 31 * 8 each

// Calls `step` with P pointers into the map, one into the weights' words and the number of the byte for every byte of a
// tile's pixels; `flush` adds bytes to 16 bits before they can overflow, `flush_wide` these to 32.
template <int P, class Step, class Flush, class FlushWide>
REBNN_INLINE void ForBytes(const TileInput& in, const Step& step, const Flush& flush, const FlushWide& flush_wide) {
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
          asm("" : "+r"(word));  // else every pointer is counted up instead
          step(x, w, word);
        }
        first = last;
      }
    }
  }
  flush();
  flush_wide();
}

}  // namespace
}  // namespace rebnn

#endif  // REBNN_SRC_LOOKUP_H_
