// What the C interface hands to the kernels of attention. Like conv.h, which says why, it holds no function.
#ifndef REBNN_SRC_ATTEND_H_
#define REBNN_SRC_ATTEND_H_

#include "rebnn.h"

namespace rebnn {

// Where the parts of one head's scratch memory begin, in bytes; each is aligned to 64.
struct AttentionParts {
  int64_t q, k, v;         // bits of [length, head_size], the same, and [head_size, length]
  int64_t keys, values;    // k and v as weights of a tile
  int64_t attended;        // bits of [length, length]
  int64_t hidden;          // bits of [length]
  int64_t sums;            // of each column of values, int32
  int64_t bytes;           // of all
};

struct Attention {
  const rebnn_attention_io* io;
  int64_t size_bytes, length_bytes;  // of a row of head_size or length bits, in whole words
  AttentionParts parts;
};

}  // namespace rebnn

#endif  // REBNN_SRC_ATTEND_H_
