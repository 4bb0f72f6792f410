// The loop over a row, for one instruction set, of which the compiler makes vectors.
#ifndef REBNN_SRC_UPSAMPLE_ADD_KERNEL_H_
#define REBNN_SRC_UPSAMPLE_ADD_KERNEL_H_

#include "upsample_add.h"

namespace rebnn {
namespace {

inline void UpsampleAdd(const UpsampledRow& row) {
  const int64_t channels = row.channels;
  const float* __restrict x = row.x;
  const float* __restrict added = row.added;
  float* __restrict y = row.y;
  for (int64_t p = 0; p < row.pixels; ++p, x += channels, added += 2 * channels, y += 2 * channels) {
    for (int64_t i = 0; i < channels; ++i) {
      y[i] = x[i] + added[i];
      y[channels + i] = x[i] + added[channels + i];
    }
  }
}

}  // namespace
}  // namespace rebnn

#endif  // REBNN_SRC_UPSAMPLE_ADD_KERNEL_H_
