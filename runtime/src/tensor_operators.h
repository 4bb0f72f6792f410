// Operators on the small tensors between the maps of a detector and its boxes. Their sizes may differ from run to run,
// so each tensor carries its own; the plan asks for the largest ones, and what is the same in every run is computed by
// the same code once, when the file is loaded.
#ifndef REBNN_SRC_TENSOR_OPERATORS_H_
#define REBNN_SRC_TENSOR_OPERATORS_H_

#include "elements.h"
#include "onnx_file.h"

namespace rebnn {

struct Tensor {
  int64_t type;
  int rank;
  int64_t dims[kMostDims];
  void* data;    // NULL for what is not known when the plan is made
  int64_t room;  // bytes at `data`
  bool varies;   // in a plan: whether a run may have fewer numbers
  int buffer;    // of the model, kNoBuffer for a constant
  int counted;   // the tensor whose first size is this one's, too, -1 if none
  // In a plan: the largest integers there can be where the numbers of a list are not known, NULL if those are neither.
  const int64_t* largest;

  float* reals() const { return static_cast<float*>(data); }
  int64_t* ints() const { return static_cast<int64_t*>(data); }
  uint8_t* flags() const { return static_cast<uint8_t*>(data); }
  const int64_t* Largest() const { return data ? ints() : largest; }
  int64_t Count() const;
};

struct TensorNode;
// Sets types and sizes of the results; those that depend on numbers that are not known to the largest there can be.
// Returns what is wrong with the node, NULL if nothing is.
using TensorSizes = const char* (*)(const TensorNode& node, const Tensor* const* x, Tensor* const* y);
// Computes the results, and reduces sizes to what there is.
using TensorCompute = const char* (*)(const TensorNode& node, const Tensor* const* x, Tensor* const* y, void* scratch);

// What an operator is called and does.
struct TensorOperator {
  const char* op;
  int least_inputs, most_inputs, outputs;
  const char* attributes[4];  // ends with NULL
  TensorSizes sizes;
  TensorCompute compute;  // NULL where the result is the first input with another size
  bool varies;            // whether the numbers decide on the size of the result
  bool rises = false;     // whether larger sizes and integers never give smaller ones
};

struct TensorNode {
  const TensorOperator* what;
  const ElementKernels* elements;
  int input_count;
  int inputs[Node::kMostInputs], outputs[Node::kMostOutputs];  // numbers of tensors
  int64_t axis, start, end, to;
};

// NULL if there is none of that name.
const TensorOperator* FindTensorOperator(Span op);

// Bytes of the numbers of a tensor, -1 if memory cannot hold them.
int64_t TensorBytes(const Tensor& tensor);

// Bytes of scratch memory that a node needs at most.
int64_t TensorScratch(const TensorNode& node, const Tensor* const* x);

// Computes results whose sizes are set. One without numbers takes no time, however large its other sides are.
const char* ComputeTensorNode(const TensorNode& node, const Tensor* const* x, Tensor* const* y, void* scratch);

// Computes a node in the memory of its results; what is wrong, or NULL.
const char* RunTensorNode(const TensorNode& node, Tensor* tensors, void* scratch);

}  // namespace rebnn

#endif  // REBNN_SRC_TENSOR_OPERATORS_H_
