// Sizes of a convolution, with every product checked: descriptions come from files that nobody vouches for.
#ifndef REBNN_SRC_GEOMETRY_H_
#define REBNN_SRC_GEOMETRY_H_

#include <cstdint>
#include <initializer_list>

#include "rebnn.h"

namespace rebnn {

// Sums stay below this, so they fit in an int32 and are exact as a float32, too.
constexpr int64_t kMaxTerms = int64_t{1} << 24;
// Heights, widths, channels, strides, dilations and pads stay below this, so that sums of a few products of two fit in
// an int64.
constexpr int64_t kMaxSide = (int64_t{1} << 31) - 1;

// The product of non-negative factors, or -1 if it does not fit in a pointer difference.
inline int64_t Product(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (int64_t factor : factors) {
    if (factor == 0) return 0;
  }
  for (int64_t factor : factors) {
    if (product > PTRDIFF_MAX / factor) return -1;
    product *= factor;
  }
  return product;
}

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace rebnn

#endif  // REBNN_SRC_GEOMETRY_H_
