// A packed ONNX file as it lies in memory: nodes, constants and the image's size. Nobody vouches for the file, so every
// length is compared with what is left, and nothing but what the exporter writes is accepted.
//
// Sources: the protobuf encoding (protobuf.dev/programming-guides/encoding) and the field numbers of onnx.proto.
#ifndef REBNN_SRC_ONNX_FILE_H_
#define REBNN_SRC_ONNX_FILE_H_

#include <cstddef>
#include <cstdint>

#include "rebnn.h"

namespace rebnn {

// Bytes of the file.
struct Span {
  const uint8_t* data;
  size_t size;

  bool Is(const char* text) const;
  bool operator==(const Span& other) const;
};

// How a text of the file is printed: "%.*s".
#define REBNN_TEXT(span) \
  static_cast<int>((span).size < 100 ? (span).size : 100), reinterpret_cast<const char*>((span).data)

// The types that the exporter writes, as TensorProto.DataType numbers them.
enum DataType { kFloat = 1, kUint8 = 2, kInt8 = 3, kInt32 = 6, kInt64 = 7, kBool = 9, kHalf = 10 };

constexpr int kMostDims = 4;

struct Constant {
  Span name;
  int64_t type;
  int rank;
  int64_t dims[kMostDims];
  Span raw;  // as many bytes as type and dims say
};

// Attributes by name. Each returns false, with a sentence, if the attribute is of another type.
class Attributes {
 public:
  bool Int(const char* name, int64_t fallback, int64_t* value) const;
  bool Real(const char* name, float fallback, float* value) const;
  bool Ints(const char* name, int count, int64_t fallback, int64_t* values) const;
  bool Text(const char* name, const char* fallback, Span* value) const;
  bool Tensor(const char* name, Constant* value) const;
  // Whether all names are among these, which end with NULL.
  bool AreAmong(const char* const* names) const;

  Span node;  // the whole message

 private:
  // One that is not there has no fields.
  bool Find(const char* name, int64_t type, Span* attribute) const;
};

struct Node {
  static constexpr int kMostInputs = 11, kMostOutputs = 2;
  Span op, domain;
  int input_count, output_count;
  Span inputs[kMostInputs];  // an empty name is one that is left out
  Span outputs[kMostOutputs];
  Attributes attributes;
};

struct OnnxFile {
  static constexpr int kMostNodes = 1024, kMostConstants = 16384, kMostOutputs = 3;
  bool no_memory;
  size_t bytes;
  bool blocked;  // whether full-precision sums may be taken in any order
  int node_count, constant_count;
  Node* nodes;
  Constant* constants;
  uint8_t* levels;  // numbers of 8 bits that the file stores as integers of 32
  bool is_detector;
  Span input, valid_size;  // the image, and for a detector the part of it that is not padding
  int output_count;
  Span outputs[kMostOutputs];  // scores, or boxes, scores and labels
  int64_t classes;             // as many as the file names
  int64_t image[4];  // its size, -1 where any will do
};

// Reads a file whose seal and metadata say that it is a packed classifier or detector of format 1. Spans point into it.
// The result needs FreeFile whether or not it could be read.
rebnn_status ReadFile(Span data, OnnxFile* file);
void FreeFile(OnnxFile* file);

}  // namespace rebnn

#endif  // REBNN_SRC_ONNX_FILE_H_
