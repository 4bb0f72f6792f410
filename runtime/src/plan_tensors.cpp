// The plan of the small tensors of a detector. What does not depend on the image is computed here, by the same code
// that computes the rest in a run.
#include <algorithm>
#include <cstring>

#include "planner.h"

namespace rebnn {

bool Planner::NameConstant() {
  Constant constant;
  if (!node_->attributes.Tensor("value", &constant)) return Refuse("has no value stored as raw bytes");
  Value* value = NewValue(0);
  if (!value) return false;
  value->constant = constant;
  return true;
}

int Planner::TensorOf(int index, bool any_layout) {
  Value* value = const_cast<Value*>(Find(node_->inputs[index]));
  if (value && !value->constant.type && !value->is_last && !any_layout) {
    Refuse("does not read a map with its channels last as input %d", index);
    return -1;
  }
  if (value && value->tensor >= 0) return value->tensor;
  const Constant* constant = value && value->constant.type ? &value->constant : FindConstant(node_->inputs[index]);
  Tensor tensor = {};
  tensor.counted = -1;
  if (constant) {
    if ((constant->type != kFloat && constant->type != kInt64) || constant->raw.size == 0) {
      Refuse("reads a constant that is empty or of another type than input %d can be", index);
      return -1;
    }
    tensor.type = constant->type;
    tensor.rank = constant->rank;
    std::copy(constant->dims, constant->dims + kMostDims, tensor.dims);
    tensor.room = TensorBytes(tensor);
    tensor.buffer = kNoBuffer;
    const bool is_filled = value && value->is_filled;
    if (tensor.room < 0) {
      Refuse("reads a constant larger than memory can be");
      return -1;
    }
    auto to = static_cast<uint8_t*>(Keep(tensor.room, 1));
    if (!to) return -1;
    tensor.data = to;
    const int64_t once = is_filled ? sizeof(float) : tensor.room;
    for (int64_t at = 0; at < tensor.room; at += once) std::memcpy(to + at, constant->raw.data, once);
  } else {
    if (!value || value->buffer == kNoBuffer || value->buffer == kImageBuffer || value->is_bits || value->is_sums ||
        (value->type != kFloat && value->type != kInt64)) {
      Refuse("does not read the result of an earlier node as input %d", index);
      return -1;
    }
    tensor.type = value->type;
    tensor.rank = value->rank;
    std::copy(value->dims, value->dims + kMostDims, tensor.dims);
    tensor.buffer = value->buffer;
    tensor.counted = value->counted;
    tensor.varies = value->counted >= 0;
  }
  model_.tensors[model_.tensor_count] = tensor;
  if (value) value->tensor = model_.tensor_count;
  return model_.tensor_count++;
}

bool Planner::AddTensor(int index, const Tensor& tensor, bool is_last) {
  Value* value = NewValue(index);
  if (!value) return false;
  value->type = tensor.type;
  value->rank = tensor.rank;
  value->is_last = is_last;
  std::copy(tensor.dims, tensor.dims + kMostDims, value->dims);
  value->buffer = tensor.buffer;
  if (tensor.data) {
    value->constant = {value->name, tensor.type, tensor.rank, {}, {static_cast<const uint8_t*>(tensor.data), 0}};
    value->constant.raw.size = static_cast<size_t>(tensor.room);
    std::copy(tensor.dims, tensor.dims + kMostDims, value->constant.dims);
  }
  value->tensor = model_.tensor_count;
  if (tensor.varies) value->counted = value->tensor;
  model_.tensors[model_.tensor_count++] = tensor;
  return true;
}

bool Planner::PlanTensor(const TensorOperator& what) {
  const Attributes& attributes = node_->attributes;
  if (!HasInputs(what.least_inputs, what.most_inputs) || node_->output_count != what.outputs) {
    return Refuse("has %d inputs and %d outputs", node_->input_count, node_->output_count);
  }
  TensorNode node = {};
  node.what = &what;
  node.elements = &model_.kernels->real.elements;
  node.input_count = node_->input_count;
  int64_t allowzero, keepdims, empty_axes, largest, center;
  if (!attributes.AreAmong(what.attributes) ||
      !attributes.Int("axis", node_->op.Is("TopK") ? -1 : 0, &node.axis) || !attributes.Int("start", 0, &node.start) ||
      !attributes.Int("end", kMostDims, &node.end) ||
      !attributes.Int(node_->op.Is("Split") ? "num_outputs" : "to", 0, &node.to) ||
      !attributes.Int("allowzero", 0, &allowzero) ||
      !attributes.Int("keepdims", std::strncmp(what.op, "Reduce", 6) == 0, &keepdims) ||
      !attributes.Int("noop_with_empty_axes", 0, &empty_axes) || !attributes.Int("largest", 1, &largest) ||
      !attributes.Int("center_point_box", 0, &center)) {
    return false;
  }
  if (keepdims || empty_axes || largest != 1 || center) return Refuse("has an attribute that no packed model has");
  // Each element by itself, whatever the order; anything else needs the order of the graph.
  const bool is_relu = node_->op.Is("Relu"), is_shape = node_->op.Is("Shape");
  const Value* first = Find(node_->inputs[0]);
  if (is_relu && first && first->is_sums) {
    if (CountUses(first->name) != 1) return Refuse("reads sums that others read, too");
    Value* value = CopyValue(*first);
    if (!value) return false;
    return value->is_cut = true;
  }
  const bool is_last = !is_relu || !first || first->constant.type || first->is_last;
  const Tensor* x[Node::kMostInputs];
  bool is_known = true, varies = what.varies;
  for (int i = 0; i < node.input_count; ++i) {
    if ((node.inputs[i] = TensorOf(i, is_relu || is_shape)) < 0) return false;
    x[i] = &model_.tensors[node.inputs[i]];
    is_known = is_known && x[i]->data;
    varies = varies || x[i]->varies;
  }
  if (is_shape) is_known = !varies;
  Tensor results[Node::kMostOutputs] = {};
  Tensor* y[] = {&results[0], &results[1]};
  for (Tensor& result : results) result.counted = -1;
  if (const char* wrong = what.sizes(node, x, y)) return Refuse("%s", wrong);
  for (int i = 0; i < what.outputs; ++i) {
    y[i]->room = TensorBytes(*y[i]);
    y[i]->varies = varies;
    y[i]->buffer = kNoBuffer;
    if (y[i]->room < 0) return Refuse("gives more numbers than memory can hold");
  }
  if (is_known) {
    for (int i = 0; i < what.outputs; ++i) {
      y[i]->data = what.compute ? Keep(y[i]->room, 1) : x[0]->data;
      if (!y[i]->data) return false;
    }
    void* scratch = Keep(TensorScratch(node, x), 1);
    if (!scratch) return false;
    const char* wrong = what.compute ? ComputeTensorNode(node, x, y, scratch) : nullptr;
    if (wrong) return Refuse("%s", wrong);
    for (int i = 0; i < what.outputs; ++i) {
      y[i]->room = TensorBytes(*y[i]);
      y[i]->varies = false;
      if (!AddTensor(i, *y[i], true)) return false;
    }
    return true;
  }
  if (!FindLargest(node, x, y[0])) return false;
  Begin(Work::kTensor);
  step_->scratch = TensorScratch(node, x);
  for (int i = 0; i < node.input_count; ++i) Use(x[i]->buffer);
  for (int i = 0; i < what.outputs; ++i) {
    y[i]->buffer = x[0]->buffer;
    if (what.compute) y[i]->buffer = NewBuffer(y[i]->room, 0);
    node.outputs[i] = model_.tensor_count;
    if (!AddTensor(i, *y[i], is_last)) return false;
  }
  step_->tensor = node;
  return true;
}

bool Planner::FindLargest(const TensorNode& node, const Tensor* const* x, Tensor* y) {
  if (y->type != kInt64 || y->rank > 1) return true;
  if (!node.what->compute) y->largest = x[0]->Largest();
  if (!node.what->compute || !node.what->rises) return true;
  Tensor from[Node::kMostInputs], to = *y;
  const Tensor* inputs[Node::kMostInputs];
  Tensor* outputs[] = {&to};
  for (int i = 0; i < node.input_count; ++i) {
    from[i] = *x[i];
    from[i].data = const_cast<int64_t*>(x[i]->Largest());
    inputs[i] = &from[i];
    // Of a Shape only the sizes count.
    if (!from[i].data && !node_->op.Is("Shape")) return true;
  }
  if (!(to.data = Keep(y->room, 1))) return false;
  y->largest = to.ints();
  const char* wrong = node.what->compute(node, inputs, outputs, nullptr);
  return !wrong || Refuse("%s", wrong);
}

bool Planner::FindDetections() {
  int* const numbers[] = {&model_.boxes, &model_.scores, &model_.labels};
  constexpr int64_t kTypes[] = {kFloat, kFloat, kInt64};
  for (int i = 0; i < OnnxFile::kMostOutputs; ++i) {
    const Value* value = Find(file_.outputs[i]);
    const Tensor* tensor = value && value->tensor >= 0 ? &model_.tensors[value->tensor] : nullptr;
    if (!tensor || tensor->type != kTypes[i] || tensor->rank != (i ? 1 : 2) || (i == 0 && tensor->dims[1] != 4)) {
      Fail(REBNN_INVALID_ARGUMENT, "rebnn_model_load: no node of the file gives its boxes, scores or labels.");
      return false;
    }
    const int64_t most = tensor->dims[0];
    model_.most_detections = i ? std::min(model_.most_detections, most) : most;
    *numbers[i] = value->tensor;
    // Nothing may be written there before the run has ended.
    if (tensor->buffer >= kGivenBuffers) model_.buffers[tensor->buffer].last = model_.step_count;
  }
  model_.classes = file_.classes;
  return true;
}

}  // namespace rebnn
