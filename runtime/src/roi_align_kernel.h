// The sums over the pixels of bins, for one instruction set: each file that includes this is compiled for its own.
#ifndef REBNN_SRC_ROI_ALIGN_KERNEL_H_
#define REBNN_SRC_ROI_ALIGN_KERNEL_H_

#include "roi_align.h"
#include "vectors.h"

namespace rebnn {
namespace {

// The mean of one bin in kGroups registers of channels, the first of which is at x and y.
template <int kLanes, int kGroups>
REBNN_INLINE void Mean(const Region& region, int64_t row_bin, int64_t column_bin, const float* x, float* y) {
  typedef RealVectors<kLanes> Vectors;
  const Shares &rows = region.shares[0], &columns = region.shares[1];
  typename Vectors::Floats sum[kGroups] = {};
  for (int64_t i = rows.begin[row_bin]; i < rows.begin[row_bin + 1]; ++i) {
    const float* row = x + rows.pixel[i] * region.w * region.channels;
    for (int64_t j = columns.begin[column_bin]; j < columns.begin[column_bin + 1]; ++j) {
      const float* pixel = row + columns.pixel[j] * region.channels;
      const float weight = rows.weight[i] * columns.weight[j];
      REBNN_UNROLL
      for (int q = 0; q < kGroups; ++q) sum[q] += Vectors::Load(pixel + q * kLanes) * weight;
    }
  }
  REBNN_UNROLL
  for (int q = 0; q < kGroups; ++q) Vectors::Store(y + q * kLanes, sum[q] / region.samples);
}

template <int kLanes, int kGroups>
REBNN_INLINE void Align(const Region& region) {
  float* y = region.y;
  for (int64_t row = 0; row < region.bins[0]; ++row) {
    for (int64_t column = 0; column < region.bins[1]; ++column, y += region.channels) {
      int64_t c = 0;
      for (; c + kGroups * kLanes <= region.channels; c += kGroups * kLanes) {
        Mean<kLanes, kGroups>(region, row, column, region.image + c, y + c);
      }
      for (; c + kLanes <= region.channels; c += kLanes) Mean<kLanes, 1>(region, row, column, region.image + c, y + c);
      for (; c < region.channels; ++c) Mean<1, 1>(region, row, column, region.image + c, y + c);
    }
  }
}

}  // namespace
}  // namespace rebnn

#endif  // REBNN_SRC_ROI_ALIGN_KERNEL_H_
