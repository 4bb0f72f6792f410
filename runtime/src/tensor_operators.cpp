#include "tensor_operators.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "geometry.h"
#include "real_operators.h"

namespace rebnn {
namespace {

constexpr int kMostInputs = Node::kMostInputs, kMostOutputs = Node::kMostOutputs;

int64_t SizeOf(int64_t type) { return type == kFloat ? sizeof(float) : type == kInt64 ? sizeof(int64_t) : 1; }

void SetShape(Tensor* y, int64_t type, std::initializer_list<int64_t> dims) {
  y->type = type;
  y->rank = 0;
  for (int64_t size : dims) y->dims[y->rank++] = size;
}

void CopyShape(const Tensor& x, Tensor* y) {
  y->type = x.type;
  y->rank = x.rank;
  std::copy(x.dims, x.dims + kMostDims, y->dims);
}

// An axis counted from the beginning, -1 if there is none.
int AxisOf(int64_t axis, int rank) {
  if (axis < 0) axis += rank;
  return axis >= 0 && axis < rank ? static_cast<int>(axis) : -1;
}

int64_t ProductOf(const int64_t* dims, int count) {
  int64_t product = 1;
  for (int i = 0; i < count; ++i) product *= dims[i];
  return product;
}

// Numbers of another result are read as integers; these are whether it has some.
bool HasInts(const Tensor& x, int most_rank) { return x.type == kInt64 && x.data && x.rank <= most_rank; }

// And whether it is one whose largest number is known.
bool IsCount(const Tensor& x) { return x.type == kInt64 && x.Largest() && x.Count() == 1; }

// Elements one by one.

const char* SameSizes(const TensorNode&, const Tensor* const* x, Tensor* const* y) {
  CopyShape(*x[0], y[0]);
  return x[0]->type == kFloat ? nullptr : "is not of real numbers";
}

const char* AnySizes(const TensorNode&, const Tensor* const* x, Tensor* const* y) {
  CopyShape(*x[0], y[0]);
  return nullptr;
}

template <void (*ElementKernels::*kFunction)(int64_t, const float*, float*)>
const char* Elementwise(const TensorNode& node, const Tensor* const* x, Tensor* const* y, void*) {
  (node.elements->*kFunction)(x[0]->Count(), x[0]->reals(), y[0]->reals());
  return nullptr;
}

const char* ClipSizes(const TensorNode& node, const Tensor* const* x, Tensor* const* y) {
  for (int i = 1; i < 3; ++i) {
    if (x[i]->type != kFloat || x[i]->Count() != 1) return "has limits that are not a real number each";
  }
  return SameSizes(node, x, y);
}

const char* Clip(const TensorNode&, const Tensor* const* x, Tensor* const* y, void*) {
  const float low = x[1]->reals()[0], high = x[2]->reals()[0];
  for (int64_t i = 0, count = x[0]->Count(); i < count; ++i) {
    const float value = x[0]->reals()[i], raised = value < low ? low : value;
    y[0]->reals()[i] = high < raised ? high : raised;
  }
  return nullptr;
}

const char* CastSizes(const TensorNode& node, const Tensor* const* x, Tensor* const* y) {
  CopyShape(*x[0], y[0]);
  y[0]->type = kFloat;
  return x[0]->type == kInt64 && node.to == kFloat ? nullptr : "does not make real numbers of integers";
}

const char* Cast(const TensorNode&, const Tensor* const* x, Tensor* const* y, void*) {
  for (int64_t i = 0, count = x[0]->Count(); i < count; ++i) y[0]->reals()[i] = static_cast<float>(x[0]->ints()[i]);
  return nullptr;
}

// Pairs of elements. Sizes of 1 are stretched to those of the other side.

const char* PairSizes(const TensorNode&, const Tensor* const* x, Tensor* const* y) {
  Tensor& to = *y[0];
  if (x[0]->type != x[1]->type) return "has inputs of two types";
  to.type = x[0]->type;
  to.rank = std::max(x[0]->rank, x[1]->rank);
  for (int axis = 0; axis < to.rank; ++axis) {
    int64_t size[2];
    for (int side = 0; side < 2; ++side) {
      const int own = axis - (to.rank - x[side]->rank);
      size[side] = own < 0 ? 1 : x[side]->dims[own];
    }
    if (size[0] != size[1] && size[0] != 1 && size[1] != 1) return "has inputs of sizes that do not suit each other";
    to.dims[axis] = size[0] == 1 ? size[1] : size[0];
  }
  return nullptr;
}

const char* NumberSizes(const TensorNode& node, const Tensor* const* x, Tensor* const* y) {
  return x[0]->type == kFloat || x[0]->type == kInt64 ? PairSizes(node, x, y) : "is not of numbers";
}

const char* IntSizes(const TensorNode& node, const Tensor* const* x, Tensor* const* y) {
  return x[0]->type == kInt64 ? PairSizes(node, x, y) : "is not of integers";
}

const char* GreaterSizes(const TensorNode& node, const Tensor* const* x, Tensor* const* y) {
  if (x[0]->type != kFloat) return "is not of real numbers";
  const char* wrong = PairSizes(node, x, y);
  y[0]->type = kBool;
  return wrong;
}

const char* AndSizes(const TensorNode& node, const Tensor* const* x, Tensor* const* y) {
  return x[0]->type == kBool ? PairSizes(node, x, y) : "is not of truth values";
}

const char* PReluSizes(const TensorNode& node, const Tensor* const* x, Tensor* const* y) {
  if (x[0]->type != kFloat) return "is not of real numbers";
  if (const char* wrong = PairSizes(node, x, y)) return wrong;
  return y[0]->rank == x[0]->rank && std::equal(x[0]->dims, x[0]->dims + x[0]->rank, y[0]->dims)
             ? nullptr
             : "has slopes that do not suit its input";
}

// As broadcast to a shape.
const char* ExpandSizes(const TensorNode& node, const Tensor* const* x, Tensor* const* y) {
  Tensor wanted = {};
  const Tensor* sides[] = {x[0], &wanted};
  if (x[1]->type != kInt64 || x[1]->rank != 1 || x[1]->dims[0] > kMostDims || !x[1]->Largest()) {
    return "has no size of 4 dimensions or fewer";
  }
  wanted.type = x[0]->type;
  wanted.rank = static_cast<int>(x[1]->dims[0]);
  std::copy_n(x[1]->Largest(), wanted.rank, wanted.dims);
  for (int axis = 0; axis < wanted.rank; ++axis) {
    if (wanted.dims[axis] < 0 || wanted.dims[axis] > kMaxSide) return "asks for a size out of range";
  }
  return PairSizes(node, sides, y);
}

// How far each side goes from one element of a result to the next along an axis, the last axis first. Axes that both
// sides, or neither, go through without a gap are one.
struct PairSteps {
  int64_t dims[kMostDims], steps[2][kMostDims];
};

PairSteps FindSteps(const Tensor& a, const Tensor& b, const Tensor& y) {
  PairSteps of = {};
  int rank = 0;
  int64_t all[2] = {1, 1};
  for (int axis = y.rank - 1; axis >= 0; --axis) {
    if (y.dims[axis] == 1) continue;
    int64_t step[2];
    bool joins = rank > 0;
    for (int side = 0; side < 2; ++side) {
      const Tensor& x = side ? b : a;
      const int own = axis - (y.rank - x.rank);
      const bool moves = own >= 0 && x.dims[own] != 1;
      step[side] = moves ? all[side] : 0;
      if (moves) all[side] *= x.dims[own];
      if (!joins) continue;
      const int64_t before = of.steps[side][rank - 1];
      joins = step[side] == (moves || before == 0 ? before * of.dims[rank - 1] : -1);
    }
    if (joins) {
      of.dims[rank - 1] *= y.dims[axis];
      continue;
    }
    of.dims[rank] = y.dims[axis];
    of.steps[0][rank] = step[0];
    of.steps[1][rank++] = step[1];
  }
  std::fill(of.dims + rank, of.dims + kMostDims, 1);
  return of;
}

template <class From, class To, class Function>
void ForEachPair(const Tensor& a, const Tensor& b, const Tensor& y, Function function) {
  const PairSteps of = FindSteps(a, b, y);
  const int64_t *dims = of.dims, *first = of.steps[0], *second = of.steps[1];
  const int64_t s = first[0], t = second[0];
  To* to = static_cast<To*>(y.data);
  for (int64_t i = 0; i < dims[3]; ++i) {
    for (int64_t j = 0; j < dims[2]; ++j) {
      for (int64_t k = 0; k < dims[1]; ++k) {
        const From* from = static_cast<const From*>(a.data) + i * first[3] + j * first[2] + k * first[1];
        const From* other = static_cast<const From*>(b.data) + i * second[3] + j * second[2] + k * second[1];
        if (s == 1 && t == 1) {
          for (int64_t l = 0; l < dims[0]; ++l) *to++ = function(from[l], other[l]);
        } else if (s == 1 && t == 0) {
          for (int64_t l = 0; l < dims[0]; ++l) *to++ = function(from[l], *other);
        } else {
          for (int64_t l = 0; l < dims[0]; ++l) *to++ = function(from[l * s], other[l * t]);
        }
      }
    }
  }
}

// Integers wrap around, and a division by 0 gives 0: only damaged files do either.
struct AddNumbers {
  float operator()(float a, float b) const { return a + b; }
  int64_t operator()(int64_t a, int64_t b) const { return static_cast<int64_t>(uint64_t(a) + uint64_t(b)); }
};
struct SubtractNumbers {
  float operator()(float a, float b) const { return a - b; }
  int64_t operator()(int64_t a, int64_t b) const { return static_cast<int64_t>(uint64_t(a) - uint64_t(b)); }
};
struct MultiplyNumbers {
  float operator()(float a, float b) const { return a * b; }
  int64_t operator()(int64_t a, int64_t b) const { return static_cast<int64_t>(uint64_t(a) * uint64_t(b)); }
};
struct DivideNumbers {
  float operator()(float a, float b) const { return a / b; }
  int64_t operator()(int64_t a, int64_t b) const {
    if (b == 0) return 0;
    // Sizes and places are much smaller, and the processor is faster with such.
    if ((uint64_t(a) | uint64_t(b)) >> 32 == 0) return static_cast<int64_t>(uint32_t(a) / uint32_t(b));
    return b == -1 ? SubtractNumbers()(0, a) : a / b;
  }
};
// With the sign of the divisor.
struct RestOfNumbers {
  int64_t operator()(int64_t a, int64_t b) const {
    const int64_t rest = SubtractNumbers()(a, MultiplyNumbers()(DivideNumbers()(a, b), b));
    return rest != 0 && b != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
};
struct SmallerNumber {
  template <class T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct LargerNumber {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
// NaN where either is; of a whole list ONNX Runtime drops some.
template <class Function>
struct OrNaN {
  template <class T>
  T operator()(T a, T b) const {
    return b != b ? b : Function()(a, b);
  }
};

template <class Function>
const char* Pairs(const TensorNode&, const Tensor* const* x, Tensor* const* y, void*) {
  if (x[0]->type == kFloat) {
    ForEachPair<float, float>(*x[0], *x[1], *y[0], Function());
  } else {
    ForEachPair<int64_t, int64_t>(*x[0], *x[1], *y[0], Function());
  }
  return nullptr;
}

const char* Mod(const TensorNode&, const Tensor* const* x, Tensor* const* y, void*) {
  ForEachPair<int64_t, int64_t>(*x[0], *x[1], *y[0], RestOfNumbers());
  return nullptr;
}

const char* Greater(const TensorNode&, const Tensor* const* x, Tensor* const* y, void*) {
  ForEachPair<float, uint8_t>(*x[0], *x[1], *y[0], [](float a, float b) { return static_cast<uint8_t>(a > b); });
  return nullptr;
}

const char* PRelu(const TensorNode&, const Tensor* const* x, Tensor* const* y, void*) {
  ForEachPair<float, float>(*x[0], *x[1], *y[0], [](float a, float slope) { return a < 0 ? a * slope : a; });
  return nullptr;
}

template <class T>
void Stretch(const Tensor& x, const Tensor& y) {
  ForEachPair<T, T>(x, x, y, [](T a, T) { return a; });
}

const char* Expand(const TensorNode&, const Tensor* const* x, Tensor* const* y, void*) {
  if (x[0]->type == kFloat) {
    Stretch<float>(*x[0], *y[0]);
  } else if (x[0]->type == kInt64) {
    Stretch<int64_t>(*x[0], *y[0]);
  } else {
    Stretch<uint8_t>(*x[0], *y[0]);
  }
  return nullptr;
}

const char* And(const TensorNode&, const Tensor* const* x, Tensor* const* y, void*) {
  ForEachPair<uint8_t, uint8_t>(*x[0], *x[1], *y[0],
                                [](uint8_t a, uint8_t b) { return static_cast<uint8_t>(a && b); });
  return nullptr;
}

// Sizes.

const char* ShapeSizes(const TensorNode& node, const Tensor* const* x, Tensor* const* y) {
  const int64_t start = node.start, end = std::min<int64_t>(node.end, x[0]->rank);
  if (start < 0 || start > end) return "has a start or end out of range";
  SetShape(y[0], kInt64, {end - start});
  return nullptr;
}

const char* Shape(const TensorNode& node, const Tensor* const* x, Tensor* const* y, void*) {
  std::copy_n(x[0]->dims + node.start, y[0]->dims[0], y[0]->ints());
  return nullptr;
}

const char* ReshapeSizes(const TensorNode&, const Tensor* const* x, Tensor* const* y) {
  const Tensor& shape = *x[1];
  if (!HasInts(shape, 1) || shape.rank != 1 || shape.dims[0] > kMostDims)
    return "has no constant size of 4 dimensions or fewer";
  const int64_t count = x[0]->Count();
  int64_t known = 1;
  int rest = -1;
  y[0]->type = x[0]->type;
  y[0]->rank = static_cast<int>(shape.dims[0]);
  for (int axis = 0; axis < y[0]->rank; ++axis) {
    const int64_t size = shape.ints()[axis];
    if (size == -1 && rest < 0) {
      rest = axis;
    } else if (size < 1 || size > kMaxSide || (known = Product({known, size})) < 0) {
      return "asks for a size that no packed model has";
    }
    y[0]->dims[axis] = size;
  }
  if (rest >= 0) {
    y[0]->dims[rest] = count / known;
    known *= count / known;
  }
  return known == count ? nullptr : "asks for another number of elements than its input has";
}

const char* UnsqueezeSizes(const TensorNode&, const Tensor* const* x, Tensor* const* y) {
  const Tensor& axes = *x[1];
  if (!HasInts(axes, 1)) return "has no constant axes";
  const int64_t rank = x[0]->rank + axes.Count();
  if (rank > kMostDims) return "makes more than 4 dimensions";
  bool is_new[kMostDims] = {};
  for (int64_t i = 0; i < axes.Count(); ++i) {
    const int axis = AxisOf(axes.ints()[i], static_cast<int>(rank));
    if (axis < 0 || is_new[axis]) return "has an axis out of range, or twice";
    is_new[axis] = true;
  }
  y[0]->type = x[0]->type;
  y[0]->rank = static_cast<int>(rank);
  for (int axis = 0, own = 0; axis < rank; ++axis) y[0]->dims[axis] = is_new[axis] ? 1 : x[0]->dims[own++];
  return nullptr;
}

const char* SqueezeSizes(const TensorNode&, const Tensor* const* x, Tensor* const* y) {
  const Tensor& axes = *x[1];
  if (!HasInts(axes, 1)) return "has no constant axes";
  bool goes[kMostDims] = {};
  for (int64_t i = 0; i < axes.Count(); ++i) {
    const int axis = AxisOf(axes.ints()[i], x[0]->rank);
    if (axis < 0 || x[0]->dims[axis] != 1) return "has an axis out of range, or of another size than 1";
    goes[axis] = true;
  }
  y[0]->type = x[0]->type;
  y[0]->rank = 0;
  for (int axis = 0; axis < x[0]->rank; ++axis) {
    if (!goes[axis]) y[0]->dims[y[0]->rank++] = x[0]->dims[axis];
  }
  return nullptr;
}

// Start, end and step.
const char* RangeSizes(const TensorNode&, const Tensor* const* x, Tensor* const* y) {
  int64_t count = 0;
  for (int i = 0; i < 3; ++i) {
    if (!IsCount(*x[i]) || x[i]->rank != 0 || (i != 1 && !x[i]->data))
      return "does not count integers from one to another";
  }
  const int64_t start = x[0]->ints()[0], end = x[1]->Largest()[0], step = x[2]->ints()[0];
  if (start < 0 || step < 1 || start > kMaxSide || step > kMaxSide || end > kMaxSide)
    return "counts further than sizes go";
  if (end > start) count = CeilDiv(end - start, step);
  SetShape(y[0], kInt64, {count});
  return nullptr;
}

const char* Range(const TensorNode&, const Tensor* const* x, Tensor* const* y, void*) {
  for (int64_t i = 0; i < y[0]->dims[0]; ++i) y[0]->ints()[i] = x[0]->ints()[0] + i * x[2]->ints()[0];
  return nullptr;
}

// Parts of tensors.

// Of one axis, whose beginning and size this finds.
const char* FindSlice(const Tensor* const* x, int* axis, int64_t* start, int64_t* size) {
  for (int i = 1; i < 4; ++i) {
    if (!HasInts(*x[i], 1) || x[i]->Count() != 1) return "is not of one axis between two constants";
  }
  *axis = AxisOf(x[3]->ints()[0], x[0]->rank);
  if (*axis < 0) return "has an axis out of range";
  const int64_t all = x[0]->dims[*axis];
  int64_t ends[2];
  for (int i = 0; i < 2; ++i) {
    const int64_t given = x[1 + i]->ints()[0];
    ends[i] = given < 0 ? std::max<int64_t>(given, -all) + all : std::min(given, all);
  }
  *start = ends[0];
  *size = std::max<int64_t>(ends[1] - ends[0], 0);
  return nullptr;
}

const char* SliceSizes(const TensorNode&, const Tensor* const* x, Tensor* const* y) {
  int axis;
  int64_t start, size;
  if (const char* wrong = FindSlice(x, &axis, &start, &size)) return wrong;
  CopyShape(*x[0], y[0]);
  y[0]->dims[axis] = size;
  return nullptr;
}

const char* Slice(const TensorNode&, const Tensor* const* x, Tensor* const* y, void*) {
  int axis;
  int64_t start, size;
  if (const char* wrong = FindSlice(x, &axis, &start, &size)) return wrong;
  const int64_t bytes = ProductOf(x[0]->dims + axis + 1, x[0]->rank - axis - 1) * SizeOf(x[0]->type);
  for (int64_t outer = ProductOf(x[0]->dims, axis), i = 0; i < outer && size; ++i) {
    const uint8_t* from = x[0]->flags() + (i * x[0]->dims[axis] + start) * bytes;
    std::memcpy(y[0]->flags() + i * size * bytes, from, size * bytes);
  }
  return nullptr;
}

const char* GatherSizes(const TensorNode& node, const Tensor* const* x, Tensor* const* y) {
  const int axis = AxisOf(node.axis, x[0]->rank);
  if (axis < 0 || x[1]->type != kInt64) return "has an axis out of range, or no integers as indices";
  const int rank = x[0]->rank - 1 + x[1]->rank;
  if (rank > kMostDims) return "makes more than 4 dimensions";
  y[0]->type = x[0]->type;
  y[0]->rank = rank;
  int64_t* to = std::copy(x[0]->dims, x[0]->dims + axis, y[0]->dims);
  to = std::copy(x[1]->dims, x[1]->dims + x[1]->rank, to);
  std::copy(x[0]->dims + axis + 1, x[0]->dims + x[0]->rank, to);
  return nullptr;
}

const char* Gather(const TensorNode& node, const Tensor* const* x, Tensor* const* y, void*) {
  const int axis = AxisOf(node.axis, x[0]->rank);
  const int64_t size = x[0]->dims[axis], indices = x[1]->Count();
  const int64_t bytes = ProductOf(x[0]->dims + axis + 1, x[0]->rank - axis - 1) * SizeOf(x[0]->type);
  uint8_t* to = y[0]->flags();
  for (int64_t outer = ProductOf(x[0]->dims, axis), i = 0; i < outer; ++i) {
    const uint8_t* from = x[0]->flags() + i * size * bytes;
    for (int64_t j = 0; j < indices; ++j, to += bytes) {
      const int64_t given = x[1]->ints()[j], index = given < 0 ? given + size : given;
      if (index < 0 || index >= size) return "has an index out of range";
      std::memcpy(to, from + index * bytes, bytes);
    }
  }
  return nullptr;
}

const char* ConcatSizes(const TensorNode& node, const Tensor* const* x, Tensor* const* y) {
  const int axis = AxisOf(node.axis, x[0]->rank);
  if (axis < 0) return "has an axis out of range";
  CopyShape(*x[0], y[0]);
  for (int i = 1; i < node.input_count; ++i) {
    if (x[i]->type != x[0]->type || x[i]->rank != x[0]->rank) return "has inputs of two types";
    for (int other = 0; other < x[0]->rank; ++other) {
      if (other != axis && x[i]->dims[other] != x[0]->dims[other])
        return "has inputs of sizes that do not suit each other";
    }
    if ((y[0]->dims[axis] += x[i]->dims[axis]) > kMaxSide) return "makes a size out of range";
  }
  return nullptr;
}

const char* Concat(const TensorNode& node, const Tensor* const* x, Tensor* const* y, void*) {
  const int axis = AxisOf(node.axis, x[0]->rank);
  uint8_t* to = y[0]->flags();
  for (int64_t outer = ProductOf(y[0]->dims, axis), i = 0; i < outer; ++i) {
    for (int part = 0; part < node.input_count; ++part) {
      const int64_t bytes = ProductOf(x[part]->dims + axis, x[part]->rank - axis) * SizeOf(x[part]->type);
      if (bytes) std::memcpy(to, x[part]->flags() + i * bytes, bytes);
      to += bytes;
    }
  }
  return nullptr;
}

const char* SplitSizes(const TensorNode& node, const Tensor* const* x, Tensor* const* y) {
  const int axis = AxisOf(node.axis, x[0]->rank);
  if (axis < 0 || x[0]->dims[axis] % kMostOutputs || node.to != kMostOutputs)
    return "does not split an axis into two halves";
  for (int part = 0; part < kMostOutputs; ++part) {
    CopyShape(*x[0], y[part]);
    y[part]->dims[axis] /= kMostOutputs;
  }
  return nullptr;
}

const char* Split(const TensorNode& node, const Tensor* const* x, Tensor* const* y, void*) {
  const int axis = AxisOf(node.axis, x[0]->rank);
  const int64_t outer = ProductOf(x[0]->dims, axis);
  const int64_t bytes = ProductOf(y[0]->dims + axis, y[0]->rank - axis) * SizeOf(x[0]->type);
  for (int64_t i = 0; i < outer; ++i) {
    for (int part = 0; part < kMostOutputs; ++part) {
      std::memcpy(y[part]->flags() + i * bytes, x[0]->flags() + (i * kMostOutputs + part) * bytes, bytes);
    }
  }
  return nullptr;
}

const char* ReduceSizes(const TensorNode& node, const Tensor* const* x, Tensor* const* y) {
  if (x[0]->type != kFloat) return "is not of real numbers";
  if (node.input_count == 1) {
    SetShape(y[0], kFloat, {});
    return nullptr;
  }
  if (x[0]->rank != 2 || !HasInts(*x[1], 1) || x[1]->Count() != 1 || AxisOf(x[1]->ints()[0], 2) != 1) {
    return "is not over everything or over the columns of a matrix";
  }
  SetShape(y[0], kFloat, {x[0]->dims[0]});
  return nullptr;
}

template <class Function>
const char* Reduce(const TensorNode&, const Tensor* const* x, Tensor* const* y, void*) {
  const int64_t rows = y[0]->Count(), columns = rows ? x[0]->Count() / rows : 0;
  if (rows && !columns) return "has nothing to reduce";
  const float* from = x[0]->reals();
  for (int64_t i = 0; i < rows; ++i, from += columns) {
    float value = from[0];
    for (int64_t j = 1; j < columns; ++j) value = Function()(value, from[j]);
    y[0]->reals()[i] = value;
  }
  return nullptr;
}

// Choices.

const char* NonZeroSizes(const TensorNode&, const Tensor* const* x, Tensor* const* y) {
  if (x[0]->type != kBool || x[0]->rank != 1) return "is not of a list of truth values";
  SetShape(y[0], kInt64, {1, x[0]->dims[0]});
  return nullptr;
}

const char* NonZero(const TensorNode&, const Tensor* const* x, Tensor* const* y, void*) {
  int64_t count = 0;
  for (int64_t i = 0; i < x[0]->dims[0]; ++i) {
    if (x[0]->flags()[i]) y[0]->ints()[count++] = i;
  }
  y[0]->dims[1] = count;
  return nullptr;
}

// NaN comes last, so that there is an order.
float Rank(float value) { return value == value ? value : -INFINITY; }

const char* TopKSizes(const TensorNode& node, const Tensor* const* x, Tensor* const* y) {
  if (x[0]->type != kFloat || x[0]->rank != 1 || AxisOf(node.axis, 1) != 0 || !IsCount(*x[1])) {
    return "is not of a list of real numbers and a count";
  }
  const int64_t count = x[1]->Largest()[0];
  if (count < 0 || count > x[0]->dims[0]) return "asks for more numbers than there are";
  SetShape(y[0], kFloat, {count});
  SetShape(y[1], kInt64, {count});
  return nullptr;
}

const char* TopK(const TensorNode&, const Tensor* const* x, Tensor* const* y, void*) {
  const float* values = x[0]->reals();
  int64_t* indices = y[1]->ints();
  const int64_t count = y[1]->dims[0];
  if (count == 0) return nullptr;
  // The first of two equal numbers comes first.
  const auto is_before = [&](int64_t a, int64_t b) {
    const float first = Rank(values[a]), second = Rank(values[b]);
    return first > second || (first == second && a < b);
  };
  for (int64_t i = 0; i < count; ++i) indices[i] = i;
  // The least of those chosen is on top of the heap.
  std::make_heap(indices, indices + count, is_before);
  float least = Rank(values[indices[0]]);
  for (int64_t i = count; i < x[0]->dims[0]; ++i) {
    if (!(values[i] > least)) continue;
    std::pop_heap(indices, indices + count, is_before);
    indices[count - 1] = i;
    std::push_heap(indices, indices + count, is_before);
    least = Rank(values[indices[0]]);
  }
  std::sort_heap(indices, indices + count, is_before);
  for (int64_t i = 0; i < count; ++i) y[0]->reals()[i] = values[indices[i]];
  return nullptr;
}

const char* SuppressSizes(const TensorNode&, const Tensor* const* x, Tensor* const* y) {
  const Tensor &boxes = *x[0], &scores = *x[1], &most = *x[2], &limit = *x[3];
  if (boxes.type != kFloat || boxes.rank != 3 || boxes.dims[0] != 1 || boxes.dims[2] != 4 || scores.type != kFloat ||
      scores.rank != 3 || scores.dims[0] != 1 || scores.dims[1] != 1 || scores.dims[2] != boxes.dims[1]) {
    return "does not take boxes of one image and a score of each";
  }
  if (most.type != kInt64 || most.Count() != 1 || limit.type != kFloat || limit.Count() != 1) {
    return "has no limits of count and overlap";
  }
  int64_t count = boxes.dims[1];
  if (IsCount(most)) count = std::min(count, std::max<int64_t>(most.Largest()[0], 0));
  SetShape(y[0], kInt64, {count, 3});
  return nullptr;
}

// Whether two boxes share more than a part `limit` of what they cover, in the order of operations of ONNX Runtime.
bool Overlap(const float* a, const float* b, float limit) {
  float low[2], high[2], size[2][2];
  for (int axis = 0; axis < 2; ++axis) {
    const float a_low = std::min(a[axis], a[axis + 2]), a_high = std::max(a[axis], a[axis + 2]);
    const float b_low = std::min(b[axis], b[axis + 2]), b_high = std::max(b[axis], b[axis + 2]);
    low[axis] = std::max(a_low, b_low);
    high[axis] = std::min(a_high, b_high);
    if (!(high[axis] > low[axis])) return false;
    size[0][axis] = a_high - a_low;
    size[1][axis] = b_high - b_low;
  }
  const float shared = (high[1] - low[1]) * (high[0] - low[0]);
  const float first = size[0][1] * size[0][0], second = size[1][1] * size[1][0], all = first + second - shared;
  return shared > 0 && first > 0 && second > 0 && all > 0 && shared / all > limit;
}

const char* Suppress(const TensorNode&, const Tensor* const* x, Tensor* const* y, void* scratch) {
  const float *boxes = x[0]->reals(), *scores = x[1]->reals();
  const int64_t count = x[0]->dims[1], most = y[0]->dims[0];
  auto candidates = static_cast<int64_t*>(scratch);
  const auto is_after = [&](int64_t a, int64_t b) {
    const float first = Rank(scores[a]), second = Rank(scores[b]);
    return first < second || (first == second && a > b);
  };
  for (int64_t i = 0; i < count; ++i) candidates[i] = i;
  std::make_heap(candidates, candidates + count, is_after);
  int64_t chosen = 0;
  int64_t* to = y[0]->ints();
  for (int64_t left = count; left > 0 && chosen < most; --left) {
    std::pop_heap(candidates, candidates + left, is_after);
    const int64_t box = candidates[left - 1];
    bool overlaps = false;
    for (int64_t i = 0; i < chosen && !overlaps; ++i) {
      overlaps = Overlap(boxes + 4 * box, boxes + 4 * to[3 * i + 2], x[3]->reals()[0]);
    }
    if (overlaps) continue;
    to[3 * chosen] = to[3 * chosen + 1] = 0;
    to[3 * chosen++ + 2] = box;
  }
  y[0]->dims[0] = chosen;
  return nullptr;
}

constexpr TensorOperator kOperators[] = {
    {"Identity", 1, 1, 1, {}, AnySizes, nullptr, false},
    {"Reshape", 2, 2, 1, {"allowzero"}, ReshapeSizes, nullptr, false},
    {"Unsqueeze", 2, 2, 1, {}, UnsqueezeSizes, nullptr, false},
    {"Squeeze", 2, 2, 1, {}, SqueezeSizes, nullptr, false},
    {"Shape", 1, 1, 1, {"start", "end"}, ShapeSizes, Shape, false, true},
    {"Range", 3, 3, 1, {}, RangeSizes, Range, false},
    {"Expand", 2, 2, 1, {}, ExpandSizes, Expand, false},
    {"Cast", 1, 1, 1, {"to"}, CastSizes, Cast, false},
    {"Relu", 1, 1, 1, {}, SameSizes, Elementwise<&ElementKernels::relu>, false},
    {"Sigmoid", 1, 1, 1, {}, SameSizes, Elementwise<&ElementKernels::sigmoid>, false},
    {"Exp", 1, 1, 1, {}, SameSizes, Elementwise<&ElementKernels::exp>, false},
    {"Clip", 3, 3, 1, {}, ClipSizes, Clip, false},
    {"PRelu", 2, 2, 1, {}, PReluSizes, PRelu, false},
    {"Add", 2, 2, 1, {}, NumberSizes, Pairs<AddNumbers>, false},
    {"Sub", 2, 2, 1, {}, NumberSizes, Pairs<SubtractNumbers>, false},
    {"Mul", 2, 2, 1, {}, NumberSizes, Pairs<MultiplyNumbers>, false},
    {"Div", 2, 2, 1, {}, NumberSizes, Pairs<DivideNumbers>, false},
    {"Mod", 2, 2, 1, {}, IntSizes, Mod, false},
    {"Min", 2, 2, 1, {}, NumberSizes, Pairs<OrNaN<SmallerNumber>>, false, true},
    {"Max", 2, 2, 1, {}, NumberSizes, Pairs<OrNaN<LargerNumber>>, false},
    {"Greater", 2, 2, 1, {}, GreaterSizes, Greater, false},
    {"And", 2, 2, 1, {}, AndSizes, And, false},
    {"Gather", 2, 2, 1, {"axis"}, GatherSizes, Gather, false},
    {"Slice", 4, 4, 1, {}, SliceSizes, Slice, false},
    {"Concat", 1, kMostInputs, 1, {"axis"}, ConcatSizes, Concat, false},
    {"Split", 1, 1, 2, {"axis", "num_outputs"}, SplitSizes, Split, false},
    {"ReduceMin", 1, 2, 1, {"keepdims", "noop_with_empty_axes"}, ReduceSizes, Reduce<SmallerNumber>, false},
    {"ReduceMax", 1, 2, 1, {"keepdims", "noop_with_empty_axes"}, ReduceSizes, Reduce<LargerNumber>, false},
    {"NonZero", 1, 1, 1, {}, NonZeroSizes, NonZero, true},
    {"TopK", 2, 2, 2, {"axis", "largest", "sorted"}, TopKSizes, TopK, false},
    {"NonMaxSuppression", 4, 4, 1, {"center_point_box"}, SuppressSizes, Suppress, true},
};

}  // namespace

int64_t Tensor::Count() const { return ProductOf(dims, rank); }

const TensorOperator* FindTensorOperator(Span op) {
  for (const TensorOperator& one : kOperators) {
    if (op.Is(one.op)) return &one;
  }
  return nullptr;
}

int64_t TensorBytes(const Tensor& tensor) {
  int64_t bytes = SizeOf(tensor.type);
  // As if no side were 0, so that no product of some of them is too large.
  for (int axis = 0; axis < tensor.rank; ++axis) {
    bytes = Product({bytes, std::max<int64_t>(tensor.dims[axis], 1)});
    if (bytes < 0 || bytes > PTRDIFF_MAX / 4) return -1;
  }
  return tensor.Count() ? bytes : 0;
}

int64_t TensorScratch(const TensorNode& node, const Tensor* const* x) {
  return node.what->compute == Suppress ? x[0]->dims[1] * static_cast<int64_t>(sizeof(int64_t)) : 0;
}

const char* RunTensorNode(const TensorNode& node, Tensor* tensors, void* scratch) {
  const Tensor* x[kMostInputs];
  Tensor* y[kMostOutputs];
  for (int i = 0; i < node.input_count; ++i) {
    Tensor& input = tensors[node.inputs[i]];
    if (input.counted >= 0) input.dims[0] = tensors[input.counted].dims[0];
    x[i] = &input;
  }
  for (int i = 0; i < node.what->outputs; ++i) y[i] = &tensors[node.outputs[i]];
  if (const char* wrong = node.what->sizes(node, x, y)) return wrong;
  if (!node.what->compute) {
    y[0]->data = x[0]->data;
    y[0]->room = x[0]->room;
    return nullptr;
  }
  for (int i = 0; i < node.what->outputs; ++i) {
    const int64_t bytes = TensorBytes(*y[i]);
    if (bytes < 0 || bytes > y[i]->room) return "gives more numbers than were planned";
  }
  return ComputeTensorNode(node, x, y, scratch);
}

const char* ComputeTensorNode(const TensorNode& node, const Tensor* const* x, Tensor* const* y, void* scratch) {
  return y[0]->Count() ? node.what->compute(node, x, y, scratch) : nullptr;
}

}  // namespace rebnn
