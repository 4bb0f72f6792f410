// Makes the plan of a packed model: plan.cpp of its maps, plan_integers.cpp of its int8 layers, plan_tensors.cpp of
// what a detector does with the scores and boxes of its maps.
#ifndef REBNN_SRC_PLANNER_H_
#define REBNN_SRC_PLANNER_H_

#include <cstdlib>
#include <initializer_list>

#include "error.h"
#include "model.h"

namespace rebnn {

// The result of a node, or the image.
struct Value {
  Span name;
  Constant constant;  // its type is 0 unless the value is a constant
  bool is_filled;     // whether all numbers of that are the one of `raw`
  bool is_bits;
  bool is_last;  // whether the graph has its channels last, too
  int rank;
  int64_t dims[kMostDims];  // in the order of the graph
  int64_t type;             // of what lies in its buffer
  int buffer, step;         // that it lies in, and that writes it
  int tensor;               // its number among those, -1 if it has none
  int counted;              // the tensor that says how many images it has in a run, -1 if always dims[0]
  // A quantised map: the buffer of its whole numbers, counted from the zero point, and what each stands for. Where it
  // is read as real numbers, too, it also has a buffer of those.
  int integers;
  float unit;
  bool is_sums;    // of an int8 convolution; they wait to be quantised
  bool is_cut;     // at 0
  // Of a constant of integers: a factor per number, or one, along an axis.
  Constant units, zeros;
  int64_t axis;

  // Numbers along these axes.
  int64_t Count(int first, int last) const;
};

class Planner {
 public:
  Planner(const OnnxFile& file, rebnn_model* model) : file_(file), model_(*model) {}
  ~Planner() { std::free(values_); }
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;

  // Each of these returns false after it has kept a sentence.
  bool Plan(int64_t h, int64_t w);
  rebnn_status status() const { return status_; }

 private:
#if defined(__GNUC__)
  __attribute__((format(printf, 2, 3)))
#endif
  bool Refuse(const char* format, ...);
  bool Check(rebnn_status status);
  bool NoMemory();

  bool PlanNode();
  bool MakeConstant();
  bool BinaryConv(bool is_packed, bool is_block, bool clips);
  bool Stem();
  bool AveragePool();
  bool Conv();
  bool IntegerConv(const Value& x);
  bool IntegerProduct(const Value& x, bool is_transposed);
  bool UpsampleAdd();
  bool NameConstant();
  bool Quantize();
  bool Dequantize();
  bool PlanTensor(const TensorOperator& what);
  bool FindLargest(const TensorNode& node, const Tensor* const* x, Tensor* y);
  bool MaxPool();
  bool AverageMap();
  bool RoiAlign();
  bool Transpose();
  bool MatMul();
  bool Add();
  bool ReduceMean();
  bool Gemm();
  bool Softmax();
  bool FindDetections();
  void GroupRegions();
  bool PlaceBuffers();

  bool HasInputs(int least, int most) const { return node_->input_count >= least && node_->input_count <= most; }
  const Value* Find(Span name) const;
  const Constant* FindConstant(Span name) const;
  int CountUses(Span name) const;
  // That the step at hand reads a buffer.
  void Use(int buffer);
  // That the step at hand has as many images as this value.
  void CountImages(const Value& value);
  // An input as one of the model's tensors, -1 after a sentence.
  int TensorOf(int index, bool any_layout);
  bool AddTensor(int index, const Tensor& tensor, bool is_last);
  // An input that the step at hand reads: NULL, after a sentence, if it is none of that rank with its channels last.
  const Value* Map(int index, int rank);
  const Value* Image(int index);
  // An input that is a constant, with its rank; the numbers of `is_filled` are all the same.
  bool Find(int index, int64_t type, int rank, Constant* constant, bool* is_filled);
  bool Weights(int index, int64_t type, int rank, Constant* constant);
  // An input of `count` numbers, kept with zeros up to a multiple of kProductBlock.
  const float* Vector(int index, int64_t count);
  bool IsOneZero(int index);
  // Attributes of sliding windows; sizes of the output.
  bool ReadWindows(const Value& x, const int64_t* kernel, Windows* windows);
  // Weight of term k and column c at k * term_step + c * column_step.
  // Terms are taken in the order of `terms`, or in that of the weights.
  bool MakeMatrix(const Constant& weights, int64_t depth, int64_t columns, int64_t term_step, int64_t column_step,
                  const int64_t* terms = nullptr);
  // The matrix of an int8 layer, from the integers of a DequantizeLinear: how far these go from one to the next along
  // each side, and where a row has the numbers of a tap. `zero` is the zero point of the map.
  struct Steps {
    int64_t column, channel, tap;
  };
  bool MakeIntegerMatrix(const Value& weights, int64_t columns, int64_t channels, int64_t zero, const Windows* windows,
                         Steps steps);
  // What a sum of products with quantised numbers stands for, of each column.
  const float* Factors(const Value& weights, int64_t columns, float x_unit, float y_unit);
  // The quantised bias of an int8 layer, zeros if it has none.
  bool AddIntegers(int index, int64_t columns);
  // The order of the terms of a convolution, and where they lie: so many channels at once.
  bool PlaceTerms(const Windows& windows, int64_t channels, int64_t** terms, int64_t** places);
  // A scale and a zero point that is 0 to 255.
  bool FindUnit(int index, float* unit, float* zero);
  // That the model will keep so many bytes; false, after a sentence, where a small file asks for much.
  bool Take(int64_t bytes);
  // Such memory; NULL after a sentence.
  void* Keep(int64_t count, int64_t size);
  void Begin(Work work);
  bool AddValue(int index, bool is_bits, std::initializer_list<int64_t> dims, int* buffer, bool is_last = true);
  Value* NewValue(int index);
  Value* NameValue(Span name);
  // Gives the numbers of a value the name of the node's result.
  Value* CopyValue(const Value& x);
  // A buffer that the step at hand writes.
  int NewBuffer(int64_t bytes, int64_t image_bytes);

  const OnnxFile& file_;
  rebnn_model& model_;
  int64_t room_ = 0;  // bytes that may still be kept
  rebnn_status status_ = REBNN_INVALID_ARGUMENT;
  Value* values_ = nullptr;
  int value_count_ = 0;
  const Node* node_ = nullptr;
  Step* step_ = nullptr;
};

}  // namespace rebnn

#endif  // REBNN_SRC_PLANNER_H_
