// The operators of docs/operators.md as a table: what each input is, and which step of librebnn it feeds.
#ifndef REBNN_ORT_OPERATORS_H_
#define REBNN_ORT_OPERATORS_H_

#include <cstddef>

#include "rebnn.h"

namespace rebnn::ort {

enum class Kind {
  kReal,          // the layer's input, real
  kBits,          // the layer's input, packed
  kWeights,       // packed, known when the session is made
  kPerInput,      // one number for each input channel
  kPerOutput,     // one number for each output channel
  kLikeOutput,    // the output's shape
  kNumbers,       // int64
  kPlain,         // float of a shape that the kernel looks at itself
  kTruths,        // bool
};

// Which kernel computes an operator.
enum class Work { kConv, kLinear, kEmbedding, kAttention, kStem, kAveragePool, kRoiAlign, kUpsampleAdd };

struct Input {
  const char* name;
  Kind kind;
  const float* rebnn_conv_io::*step;  // of a convolution; NULL for weights and bits
};

struct Operator {
  const char* name;
  const Input* inputs;
  size_t input_count;
  bool gives_bits;  // has the output P after Y
  bool clips;       // has the attributes low and high
  Work work;
  size_t threads;  // how many a run is planned for: those of the session that it is registered with
};

// The element type of an input, as ort_abi.h numbers them.
int ElementType(Kind kind);

constexpr size_t kOperatorCount = 13;
extern const Operator kOperators[kOperatorCount];

}  // namespace rebnn::ort

#endif  // REBNN_ORT_OPERATORS_H_
