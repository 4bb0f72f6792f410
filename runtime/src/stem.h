// The stem of a residual network, arranged for the kernels, and what they are asked for.
#ifndef REBNN_SRC_STEM_H_
#define REBNN_SRC_STEM_H_

#include <cstdint>

#include "rebnn.h"

namespace rebnn {

// A tile is 4x4 outputs of the convolution; it is computed from 7x7 products of each pair of channels.
constexpr int kTileSide = 4;
constexpr int kPointSide = 7;
constexpr int kPoints = kPointSide * kPointSide;
// A convolution of stride 2 is the sum of four of stride 1, one for each parity of row and column.
constexpr int kPhases = 4;

struct StemRun;

// 16-bit numbers of little range keep points small: by these factors, one for each side, that the weights make up for.
// No point is larger than the largest input then.
constexpr float kPointScale[kPointSide] = {1 / 32.f, 1 / 32.f, 1 / 32.f, 1 / 128.f, 1 / 128.f, 1 / 16.f, 1 / 32.f};
// And no weight at a point is larger; a factor of each output channel sees to it. Twelve products of it with inputs up
// to 300 are still numbers of half precision.
constexpr int kLargestWeightBits = 4;

// What one instruction set offers.
struct StemKernels {
  const char* type;  // of the products
  int lanes;
  int block;  // output channels that are computed together
  int tiles;  // tiles that are computed together
  int pairs;  // of the depth, next to each other in the weights: 1 or 2
  bool scaled;
  size_t weight_bytes;
  void (*keep)(float value, void* weights, int64_t at);  // as the number at this place
  // Computes rows of tiles [first, last) of one image. The memory belongs to this call; from StemMemory::Row() on it
  // holds the last row of the convolution afterwards. `above` is the one before the first, NULL to have it computed.
  void (*rows)(const StemRun& run, int64_t image, int64_t first, int64_t last, const float* above, float* memory);
};

#if defined(__x86_64__)
extern const StemKernels kAvx512Bfloat16Stem;
#elif defined(__aarch64__)
extern const StemKernels kNeonHalfStem;
#endif

struct StemRun {
  const rebnn_stem* stem;
  const rebnn_stem_io* io;
  int64_t conv_h, conv_w;      // after the convolution
  int64_t out_h, out_w;        // after the pooling
  int64_t tile_rows, columns;  // of tiles; the columns are a multiple of StemKernels::tiles
};

// Floats of memory of each kind that one call of StemKernels::rows needs.
struct StemMemory {
  int64_t phases, products, sums, rows;

  StemMemory(const rebnn_stem& stem, int64_t columns);
  int64_t Row() const { return phases + products + sums; }
  int64_t All() const { return Row() + rows; }
};

}  // namespace rebnn

struct rebnn_stem {
  const rebnn::StemKernels* kernels;
  int64_t in_channels, out_channels;
  int64_t depth;         // in_channels * kPhases
  int64_t padded_depth;  // whole registers
  int64_t blocks;
  void* weights;  // [block][point][depth / pairs][kernels->block][pairs], of channels beyond the last one 0
  float* factor;  // [block][kernels->block], if kernels->scaled
  float* add;
};

#endif  // REBNN_SRC_STEM_H_
