// The loops over the pixels of a row in plain C++, for one instruction set: each file that includes this is compiled
// for its own.
#ifndef REBNN_SRC_IMAGE_KERNEL_H_
#define REBNN_SRC_IMAGE_KERNEL_H_

#include "image.h"

namespace rebnn {
namespace {

inline void StretchFrom(int64_t i, const uint8_t* row, const Columns& columns, int16_t* line) {
  for (; i < columns.count; ++i) {
    const int32_t left = columns.left[i], right = left + 6 <= columns.row_bytes ? left + 3 : left;
    const int32_t of_left = columns.weights[i] & 0xffff, of_right = columns.weights[i] >> 16;
    for (int c = 0; c < 3; ++c) {
      line[4 * i + c] = static_cast<int16_t>((row[left + c] * of_left + row[right + c] * of_right) >> 4);
    }
    line[4 * i + 3] = 0;
  }
}

// Two products of at most 2^15 and 2^11, each cut to its upper half, as OpenCV does.
inline void Blend(const int16_t* __restrict above, const int16_t* __restrict below, int32_t of_above, int32_t of_below,
                  int64_t pixels, int16_t* __restrict line) {
  const int16_t a = static_cast<int16_t>(of_above), b = static_cast<int16_t>(of_below);
  for (int64_t i = 0; i < 4 * pixels; ++i) {
    const int16_t upper = static_cast<int16_t>((above[i] * a) >> 16),
                  lower = static_cast<int16_t>((below[i] * b) >> 16);
    line[i] = static_cast<int16_t>(static_cast<int16_t>(upper + lower + 2) >> 2);
  }
}

inline void HalveFrom(int64_t i, const uint8_t* above, const uint8_t* below, int64_t pixels, int16_t* line) {
  for (; i < pixels; ++i) {
    const uint8_t *a = above + 6 * i, *b = below + 6 * i;
    for (int c = 0; c < 3; ++c) line[4 * i + c] = static_cast<int16_t>((a[c] + a[c + 3] + b[c] + b[c + 3] + 2) >> 2);
    line[4 * i + 3] = 0;
  }
}

inline void WidenFrom(int64_t i, const uint8_t* row, int64_t pixels, int16_t* line) {
  for (; i < pixels; ++i) {
    for (int c = 0; c < 3; ++c) line[4 * i + c] = row[3 * i + c];
    line[4 * i + 3] = 0;
  }
}

inline void LookUp(const int16_t* __restrict line, int64_t pixels, const float* const table[3], float* const y[3]) {
  const float *first = table[0], *second = table[1], *third = table[2];
  float *__restrict a = y[0], *__restrict b = y[1], *__restrict c = y[2];
  for (int64_t i = 0; i < pixels; ++i, line += 4) {
    a[i] = first[line[0]];
    b[i] = second[line[1]];
    c[i] = third[line[2]];
  }
}

}  // namespace
}  // namespace rebnn

#endif  // REBNN_SRC_IMAGE_KERNEL_H_
