// Rows of real numbers times a matrix: full-precision convolutions and linear layers. What the instruction sets offer.
#ifndef REBNN_SRC_PRODUCT_H_
#define REBNN_SRC_PRODUCT_H_

#include <cstdint>

namespace rebnn {

// The matrix. Columns lie in blocks of kProductBlock, the last one filled up with 0.
constexpr int64_t kProductBlock = 16;

struct RealMatrix {
  int64_t depth, columns;
  // Sums start again after so many terms and are added up then, which is the order of ONNX Runtime.
  int64_t chunk;
  const float* weights;   // [block][depth][kProductBlock]
  const float* start;     // [block][kProductBlock], what sums begin with; NULL for 0
  const float* bias;      // the same, added last
  const int64_t* places;  // [depth], where a row's numbers lie, from its beginning
};

// Rows begin `step` numbers after each other; y is [rows, columns].
struct RealRows {
  const float* x;
  int64_t count, step;
  float* y;
};

}  // namespace rebnn

#endif  // REBNN_SRC_PRODUCT_H_
