// Rows of whole numbers times a matrix of such: the int8 layers. Both are kept as integers of 16 bits, counted from
// their zero points, so that a zero is 0 and no sum of two products can be too large, whatever 8 bits hold. Where the
// processor adds up four products of 8 bits at once (SDOT), rows are made such integers before they are multiplied.
// What the instruction sets offer.
#ifndef REBNN_SRC_INTEGER_PRODUCT_H_
#define REBNN_SRC_INTEGER_PRODUCT_H_

#include <cstdint>

namespace rebnn {

constexpr int64_t kIntegerBlock = 8;

// Terms come in parts of two, or of four of 8 bits, that lie next to each other in a row; where fewer are left, the
// other weights of a part are 0.
struct IntegerMatrix {
  int64_t parts, columns;
  const int64_t* places;   // [parts], where a row's numbers lie, from its beginning
  const int16_t* weights;  // [block][parts][kIntegerBlock][2], of columns beyond the last one 0; NULL where there are
  const int8_t* bytes;     // [block][parts][kIntegerBlock][4]
  const int32_t* start;    // [block][kIntegerBlock], what sums of those begin with
  int64_t shift;           // what a number of their rows is more than one of 16 bits
};

// Rows begin `step` numbers after each other; y is [count, columns up to a multiple of kIntegerBlock].
template <class Number>
struct RowsOf {
  const Number* x;
  int64_t count, step;
  int32_t* y;
};
using IntegerRows = RowsOf<int16_t>;
using ByteRows = RowsOf<int8_t>;

}  // namespace rebnn

#endif  // REBNN_SRC_INTEGER_PRODUCT_H_
