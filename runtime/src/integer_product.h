// Rows of whole numbers times a matrix of such: the int8 layers. Both are kept as integers of 16 bits, counted from their
// zero points, so that a zero is 0 and no sum of two products can be too large, whatever 8 bits hold. What the instruction
// sets offer.
#ifndef REBNN_SRC_INTEGER_PRODUCT_H_
#define REBNN_SRC_INTEGER_PRODUCT_H_

#include <cstdint>

namespace rebnn {

constexpr int64_t kIntegerBlock = 8;

// Terms come in pairs that lie next to each other in a row; a term without a partner has a weight of 0 next to its own.
struct IntegerMatrix {
  int64_t pairs, columns;
  const int16_t* weights;  // [block][pairs][kIntegerBlock][2], of columns beyond the last one 0
  const int64_t* places;   // [pairs], where a row's numbers lie, from its beginning
};

// Rows begin `step` numbers after each other; y is [count, columns up to a multiple of kIntegerBlock].
struct IntegerRows {
  const int16_t* x;
  int64_t count, step;
  int32_t* y;
};

}  // namespace rebnn

#endif  // REBNN_SRC_INTEGER_PRODUCT_H_
