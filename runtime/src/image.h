// What the rows of an image go through; pixels lie in lines of four 16-bit numbers each, the last of which is not used.
#ifndef REBNN_SRC_IMAGE_H_
#define REBNN_SRC_IMAGE_H_

#include <cstdint>

namespace rebnn {

// Where the columns of a resized row come from: from a pixel and the one to its right, which for the last pixel of a
// row is itself.
struct Columns {
  const int32_t* left;     // byte of the pixel in the row, never falling
  const int32_t* weights;  // of it, and in the upper half of the one to its right, in 1 / 2048
  int64_t count;
  int64_t row_bytes;  // of the row's pixels; nothing after them is read
};

struct ImageKernels {
  // A line between two pixels of a row each, in 1 / 128.
  void (*stretch)(const uint8_t* row, const Columns& columns, int16_t* line);
  // Pixels between those of two such lines, with weights in 1 / 2048.
  void (*blend)(const int16_t* above, const int16_t* below, int32_t of_above, int32_t of_below, int64_t pixels,
                int16_t* line);
  // Means of squares of four pixels.
  void (*halve)(const uint8_t* above, const uint8_t* below, int64_t pixels, int16_t* line);
  void (*widen)(const uint8_t* row, int64_t pixels, int16_t* line);
  // The three channels of a line, each by a table of what its 256 values become.
  void (*look_up)(const int16_t* line, int64_t pixels, const float* const table[3], float* const y[3]);
};

extern const ImageKernels kImagePortable;
#if defined(__x86_64__)
extern const ImageKernels kImageAvx2;
#endif

}  // namespace rebnn

#endif  // REBNN_SRC_IMAGE_H_
