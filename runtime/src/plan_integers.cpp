// The plan of int8 layers: QuantizeLinear and DequantizeLinear before and after Conv and MatMul. Quantised maps and
// weights are counted from their zero points. Sums are exact, and are scaled and rounded in the order of ONNX Runtime.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "planner.h"

namespace rebnn {
namespace {

constexpr float kMostLevel = 255;
constexpr int64_t kMiddleLevel = 128;
// Of terms, so that their sum is an int32 whatever the numbers are.
constexpr int64_t kMostDepth = 32768;

// Bytes of so many whole numbers, in whole lines of the cache: a product reads the second number of a pair even where
// it has none.
int64_t RoomOf(int64_t count) {
  return CeilDiv((count + 1) * static_cast<int64_t>(sizeof(int16_t)), kAlignment) * int64_t{kAlignment};
}

float NumberAt(const Constant& constant, int64_t i) {
  float number;
  std::memcpy(&number, constant.raw.data + i * sizeof number, sizeof number);
  return number;
}

// Of what a constant has one for all, or one each.
int64_t PlaceOf(const Constant& constant, int64_t i) { return constant.rank == 0 ? 0 : i; }

bool SuitsColumns(const Constant& constant, int64_t type, int64_t columns) {
  return constant.type == type && (constant.rank == 0 || (constant.rank == 1 && constant.dims[0] == columns));
}

}  // namespace

bool Planner::FindUnit(int index, float* unit, float* zero) {
  Constant scale, point;
  if (!Weights(index, kFloat, 0, &scale) || !Weights(index + 1, kUint8, 0, &point)) return false;
  *unit = NumberAt(scale, 0);
  *zero = point.raw.data[0];
  return (*unit > 0 && std::isfinite(*unit)) || Refuse("has a scale that is not a positive number");
}

const float* Planner::Factors(const Value& weights, int64_t columns, float x_unit, float y_unit) {
  const int64_t room = CeilDiv(columns, kProductBlock) * kProductBlock;
  auto factors = static_cast<float*>(Keep(room, sizeof(float)));
  if (!factors) return nullptr;
  std::fill(factors, factors + room, 0.0f);
  for (int64_t i = 0; i < columns; ++i)
    factors[i] = x_unit * NumberAt(weights.units, PlaceOf(weights.units, i)) / y_unit;
  return factors;
}

bool Planner::MakeIntegerMatrix(const Value& weights, int64_t columns, int64_t channels, int64_t zero,
                                const Windows* windows, Steps steps) {
  const int64_t rows = windows ? windows->kernel[0] : 1, taps = windows ? rows * windows->kernel[1] : 1;
  if (channels > kMostDepth / taps) return Refuse("sums more products than any int8 layer of a packed model");
  if (!SuitsColumns(weights.units, kFloat, columns) || !SuitsColumns(weights.zeros, kInt8, columns)) {
    return Refuse("has weights with other scales than one of each output channel");
  }
  const auto at = [](const Constant& constant, int64_t i) { return static_cast<int8_t>(constant.raw.data[i]); };
  // Weights that differ from their zero points by more than 8 bits hold stay with 16.
  bool has_bytes = model_.kernels->real.multiply_bytes && HasDotProducts();
  for (size_t i = 0; i < weights.zeros.raw.size; ++i) has_bytes = has_bytes && at(weights.zeros, i) == 0;
  const int64_t terms = has_bytes ? 4 : 2, of_tap = CeilDiv(channels, terms), parts = taps * of_tap;
  const int64_t blocks = CeilDiv(columns, kIntegerBlock), number_bytes = has_bytes ? sizeof(int8_t) : sizeof(int16_t);
  void* numbers = Keep(Product({blocks, parts}), kIntegerBlock * terms * number_bytes);
  auto places = numbers ? static_cast<int64_t*>(Keep(parts, sizeof(int64_t))) : nullptr;
  auto start = places ? static_cast<int32_t*>(Keep(blocks, kIntegerBlock * sizeof(int32_t))) : nullptr;
  if (!start) return false;
  const auto words = static_cast<int16_t*>(numbers);
  const auto bytes = static_cast<int8_t*>(numbers);
  step_->integer_matrix = {parts, columns, places, words, nullptr, start, 0};
  if (has_bytes) step_->integer_matrix = {parts, columns, places, nullptr, bytes, start, zero - kMiddleLevel};
  std::fill(start, start + blocks * kIntegerBlock, 0);
  for (int64_t tap = 0; tap < taps; ++tap) {
    int64_t place = 0;
    if (windows) {
      const int64_t row = tap / windows->kernel[1] * windows->dilation[0];
      place = (row * windows->Padded(1) + tap % windows->kernel[1] * windows->dilation[1]) * channels;
    }
    for (int64_t part = 0; part < of_tap; ++part) *places++ = place + terms * part;
  }
  int64_t to = 0;
  for (int64_t first = 0; first < columns; first += kIntegerBlock) {
    for (int64_t part = 0; part < parts; ++part) {
      for (int64_t i = 0; i < kIntegerBlock * terms; ++i, ++to) {
        const int64_t c = first + i / terms, channel = part % of_tap * terms + i % terms;
        int number = 0;
        if (c < columns && channel < channels) {
          const int64_t from = c * steps.column + channel * steps.channel + part / of_tap * steps.tap;
          number = at(weights.constant, from) - at(weights.zeros, PlaceOf(weights.zeros, c));
        }
        if (has_bytes) {
          bytes[to] = static_cast<int8_t>(number);
          start[c] += static_cast<int32_t>(kMiddleLevel - zero) * number;
        } else {
          words[to] = static_cast<int16_t>(number);
        }
      }
    }
  }
  return true;
}

bool Planner::AddIntegers(int index, int64_t columns) {
  auto added = static_cast<int32_t*>(Keep(columns, sizeof(int32_t)));
  if (!added) return false;
  std::fill(added, added + columns, 0);
  step_->integers.added = added;
  if (node_->input_count <= index) return true;
  const Value* bias = Find(node_->inputs[index]);
  if (!bias || bias->constant.type != kInt32 || bias->constant.rank != 1 || bias->constant.dims[0] != columns) {
    return Refuse("has a bias that is not quantised");
  }
  std::memcpy(added, bias->constant.raw.data, bias->constant.raw.size);
  return true;
}

bool Planner::IntegerConv(const Value& x) {
  int64_t group;
  Begin(Work::kIntegerConv);
  const Value* weights = Find(node_->inputs[1]);
  if (!node_->attributes.Int("group", 1, &group)) return false;
  if (!weights || weights->constant.type != kInt8 || weights->constant.rank != 4 || weights->axis != 0 || group != 1 ||
      x.type != kFloat || x.is_last || x.rank != 4 || weights->constant.dims[1] != x.dims[1]) {
    return Refuse("does not multiply a quantised map by quantised weights that suit it");
  }
  const int64_t* dims = weights->constant.dims;
  const int64_t columns = dims[0], taps = dims[2] * dims[3];
  Windows& windows = step_->windows;
  if (!ReadWindows(x, dims + 2, &windows) ||
      !MakeIntegerMatrix(*weights, columns, dims[1], x.axis, &windows, {dims[1] * taps, taps, 1})) {
    return false;
  }
  if (!(step_->integers.factor = Factors(*weights, columns, x.unit, 1))) return false;
  if (!AddIntegers(2, columns)) return false;
  step_->sums = RoomOf(windows.channels * windows.Padded(0) * windows.Padded(1));
  step_->scratch = step_->sums + IntegerScratch(columns);
  step_->x = x.integers;
  Use(x.integers);
  if (!AddValue(0, false, {1, columns, windows.out[0], windows.out[1]}, &step_->y, false)) return false;
  Value& sums = values_[value_count_ - 1];
  sums.is_sums = true;
  sums.type = kInt32;
  return true;
}

bool Planner::IntegerProduct(const Value& x, bool is_transposed) {
  const Value* weights = Find(node_->inputs[1]);
  if (!weights || weights->constant.type != kInt8 || weights->constant.rank != 2 || weights->axis != !is_transposed ||
      x.type != kFloat || !x.is_last || weights->constant.dims[is_transposed] != x.dims[x.rank - 1]) {
    return Refuse("does not multiply a quantised map by quantised weights that suit it");
  }
  const int64_t depth = weights->constant.dims[is_transposed], columns = weights->constant.dims[!is_transposed];
  const Steps steps = is_transposed ? Steps{depth, 1, 0} : Steps{1, columns, 0};
  if (!MakeIntegerMatrix(*weights, columns, depth, x.axis, nullptr, steps) || !AddIntegers(2, columns)) return false;
  if (step_->integer_matrix.bytes) step_->sums = CeilDiv(ByteScratch(depth), kAlignment) * int64_t{kAlignment};
  step_->scratch = step_->sums + IntegerScratch(columns);
  step_->depth = depth;
  if (!(step_->integers.factor = Factors(*weights, columns, x.unit, 1))) return false;
  step_->x = x.integers;
  Use(x.integers);
  step_->rows = x.Count(1, x.rank - 1);
  CountImages(x);
  return x.rank == 2 ? AddValue(0, false, {x.dims[0], columns}, &step_->y)
                     : AddValue(0, false, {x.dims[0], x.dims[1], x.dims[2], columns}, &step_->y);
}

bool Planner::Quantize() {
  float unit, zero;
  const Value* x = Find(node_->inputs[0]);
  if (!FindUnit(1, &unit, &zero)) return false;
  Integers integers = {};
  integers.low = -zero;
  integers.high = kMostLevel - zero;
  if (x && x->is_sums) {
    // The convolution rounds its sums itself.
    if (CountUses(node_->inputs[0]) != 1) return Refuse("quantises sums that others read, too");
    Step& step = model_.steps[x->step];
    auto factors = const_cast<float*>(step.integers.factor);
    for (int64_t i = 0; i < step.integer_matrix.columns; ++i) factors[i] /= unit;
    step.integers.low = x->is_cut ? 0 : integers.low;
    step.integers.high = integers.high;
  } else {
    const bool is_image = x && x->buffer == kImageBuffer;
    if (!x || x->constant.type || (x->buffer < kGivenBuffers && !is_image) || x->type != kFloat || x->is_bits ||
        (x->rank != 4 && x->rank != 2)) {
      return Refuse("does not read the map of an earlier node");
    }
    Begin(is_image ? Work::kQuantizeImage : Work::kQuantize);
    step_->x = x->buffer;
    step_->integers = integers;
    step_->unit = unit;
    step_->rows = x->Count(1, x->rank);
    step_->columns = x->dims[1];
    CountImages(*x);
    Use(x->buffer);
  }
  Value* y = CopyValue(*x);
  if (!y) return false;
  y->is_sums = false;
  y->type = kUint8;
  y->unit = unit;
  y->axis = static_cast<int64_t>(zero);
  y->integers = x->buffer;
  y->buffer = kNoBuffer;
  if (!x->is_sums) {
    const int64_t bytes = RoomOf(step_->images * step_->rows), image_bytes = step_->rows * int64_t{sizeof(int16_t)};
    y->integers = step_->y = NewBuffer(bytes, image_bytes);
  }
  return true;
}

bool Planner::Dequantize() {
  int64_t axis;
  if (!node_->attributes.Int("axis", 1, &axis)) return false;
  const Value* x = Find(node_->inputs[0]);
  const Constant *numbers = FindConstant(node_->inputs[0]), *units = FindConstant(node_->inputs[1]),
                 *zeros = FindConstant(node_->inputs[2]);
  if (!units || !zeros || units->type != kFloat) return Refuse("has no constant scale and zero point");
  if (numbers) {
    if ((numbers->type != kInt8 && numbers->type != kInt32) || numbers->raw.size == 0)
      return Refuse("does not read integers");
    Value* y = NewValue(0);
    if (!y) return false;
    y->constant = *numbers;
    y->units = *units;
    y->zeros = *zeros;
    y->axis = axis;
    return true;
  }
  float unit, zero;
  if (!FindUnit(1, &unit, &zero)) return false;
  if (!x || x->type != kUint8 || x->integers == kNoBuffer || unit != x->unit || static_cast<int64_t>(zero) != x->axis) {
    return Refuse("does not undo a QuantizeLinear");
  }
  // Products read the whole numbers; whoever else reads the result needs what they stand for.
  bool is_read = false;
  for (int i = 0; i < file_.node_count; ++i) {
    const Node& node = file_.nodes[i];
    if (node.op.Is("Conv") || node.op.Is("MatMul") || node.op.Is("Gemm")) continue;
    for (int j = 0; j < node.input_count; ++j) is_read |= node.inputs[j] == node_->outputs[0];
  }
  if (is_read) Begin(Work::kDequantize);
  Value* y = CopyValue(*x);
  if (!y) return false;
  y->type = kFloat;
  if (!is_read) return true;
  step_->x = x->integers;
  step_->unit = unit;
  step_->rows = x->Count(1, x->rank);
  CountImages(*x);
  Use(x->integers);
  const int64_t image_bytes = step_->rows * int64_t{sizeof(float)};
  y->buffer = step_->y = NewBuffer(step_->images * image_bytes, image_bytes);
  return true;
}

}  // namespace rebnn
