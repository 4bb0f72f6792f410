// Nearest upsampling by 2 and an addition: what the instruction sets offer.
#ifndef REBNN_SRC_UPSAMPLE_ADD_H_
#define REBNN_SRC_UPSAMPLE_ADD_H_

#include <cstdint>

namespace rebnn {

// One row of the result: each pixel of x twice, and to both what lies in their places.
struct UpsampledRow {
  const float* x;      // [pixels, channels]
  const float* added;  // [2 * pixels, channels]
  int64_t pixels, channels;
  float* y;
};

}  // namespace rebnn

#endif  // REBNN_SRC_UPSAMPLE_ADD_H_
