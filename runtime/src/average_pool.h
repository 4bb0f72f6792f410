// Average pooling of 2x2 squares: what the instruction sets offer.
#ifndef REBNN_SRC_AVERAGE_POOL_H_
#define REBNN_SRC_AVERAGE_POOL_H_

#include <cstdint>

namespace rebnn {

// Four rows of a pixel's channels, and the mean's denominator as a factor, a power of two:
// y = ((a + c) + (b + d)) * factor. Pixels outside of the image are NULL and count as 0.
struct Square {
  const float* a;
  const float* b;  // right of a
  const float* c;  // below a
  const float* d;
  float factor;
};

}  // namespace rebnn

#endif  // REBNN_SRC_AVERAGE_POOL_H_
