// The loop over channels, for one instruction set: each file that includes this is compiled for its own, and the
// compiler makes vectors of it.
#ifndef REBNN_SRC_AVERAGE_POOL_KERNEL_H_
#define REBNN_SRC_AVERAGE_POOL_KERNEL_H_

#include "average_pool.h"

namespace rebnn {
namespace {

inline void MeanOfSquare(const Square& square, int64_t channels, float* __restrict y) {
  const float* __restrict a = square.a;
  const float* __restrict b = square.b;
  const float* __restrict c = square.c;
  const float* __restrict d = square.d;
  const float factor = square.factor;
  // The sums with 0 are written out: they turn a negative zero into a positive one.
  if (d) {
    for (int64_t i = 0; i < channels; ++i) y[i] = ((a[i] + c[i]) + (b[i] + d[i])) * factor;
  } else if (b) {
    for (int64_t i = 0; i < channels; ++i) y[i] = ((a[i] + 0.0f) + (b[i] + 0.0f)) * factor;
  } else if (c) {
    for (int64_t i = 0; i < channels; ++i) y[i] = ((a[i] + c[i]) + 0.0f) * factor;
  } else {
    for (int64_t i = 0; i < channels; ++i) y[i] = (a[i] + 0.0f) * factor;
  }
}

}  // namespace
}  // namespace rebnn

#endif  // REBNN_SRC_AVERAGE_POOL_KERNEL_H_
