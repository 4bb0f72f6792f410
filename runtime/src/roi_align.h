// Averages over the bins of regions: what the instruction sets offer.
#ifndef REBNN_SRC_ROI_ALIGN_H_
#define REBNN_SRC_ROI_ALIGN_H_

#include <cstdint>

namespace rebnn {

// Which pixels the samples of each bin read along one axis, and how much of each. A sample lies between two pixels of
// each axis, and its four weights are products of one per axis, so that the sum over a bin's samples is the sum over
// its pixels with products of these: nearly four times fewer where samples lie close together.
struct Shares {
  int64_t* begin;  // [bins + 1], where those of a bin begin
  int32_t* pixel;
  float* weight;
};

struct Region {
  const float* image;  // [h, w, channels]
  int64_t w, channels;
  int64_t bins[2];  // of the output: height, width
  Shares shares[2];
  float samples;  // of one bin, at least 1
  float* y;       // [bins, channels]
};

}  // namespace rebnn

#endif  // REBNN_SRC_ROI_ALIGN_H_
