// The plan of a packed model: which operator computes each node, and where its numbers lie. Maps lie with their
// channels last whatever the graph says, so that a Transpose after a convolution costs nothing.
#include "planner.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "error.h"
#include "identities.h"

namespace rebnn {
namespace {

using Io = rebnn_conv_io;

// Terms that ONNX Runtime adds up before it adds them to what there is: of a matrix, and of a convolution. In the
// blocked layout these are the terms of one channel of an image, of eight of a map.
constexpr int64_t kMatrixChunk = 256, kConvChunk = 128, kBlockedChannels = 8;
// Strides, dilations and pads of convolutions on an image.
constexpr int64_t kMostStep = 1 << 16;
// Bytes that a model may keep for each of its file and of an image, and bytes besides. Packed models need four of the
// file, where that has numbers of 16 bits, and one of the image, for anchors.
constexpr int64_t kKeptPerByte = 16, kAlsoKept = 1 << 24;

}  // namespace

bool Planner::Refuse(const char* format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  Fail(REBNN_INVALID_ARGUMENT, "rebnn_model_load: the node %.*s that gives '%.*s' %s.", REBNN_TEXT(node_->op),
       REBNN_TEXT(node_->outputs[0]), text);
  return false;
}

bool Planner::Check(rebnn_status status) {
  if (status != REBNN_OK) status_ = status;
  return status == REBNN_OK;
}

bool Planner::NoMemory() {
  return Check(Fail(REBNN_OUT_OF_MEMORY, "rebnn_model_load: there is not enough memory."));
}

bool Planner::Take(int64_t bytes) {
  if (bytes < 0 || bytes > room_) return Refuse("makes larger constants than a packed model of this size has");
  room_ -= bytes;
  return true;
}

void* Planner::Keep(int64_t count, int64_t size) {
  const int64_t bytes = Product({count, size});
  if (!Take(bytes)) return nullptr;
  void* memory = AllocateAligned(sizeof(Block) + static_cast<size_t>(bytes));
  if (!memory) {
    NoMemory();
    return nullptr;
  }
  Block* block = static_cast<Block*>(memory);
  block->next = model_.blocks;
  model_.blocks = block;
  return block + 1;
}

const Value* Planner::Find(Span name) const {
  for (int i = 0; i < value_count_; ++i) {
    if (values_[i].name == name) return &values_[i];
  }
  return nullptr;
}

const Constant* Planner::FindConstant(Span name) const {
  for (int i = 0; i < file_.constant_count; ++i) {
    if (file_.constants[i].name == name) return &file_.constants[i];
  }
  return nullptr;
}

int Planner::CountUses(Span name) const {
  int uses = 0;
  for (int i = 0; i < file_.node_count; ++i) {
    const Node& node = file_.nodes[i];
    for (int j = 0; j < node.input_count; ++j) uses += node.inputs[j] == name;
  }
  for (int i = 0; i < file_.output_count; ++i) uses += file_.outputs[i] == name;
  return uses;
}

int64_t Value::Count(int first, int last) const {
  int64_t count = 1;
  for (int axis = first; axis < last; ++axis) count *= dims[axis];
  return count;
}

void Planner::CountImages(const Value& value) {
  step_->images = value.dims[0];
  step_->counted = value.counted;
  step_->numbers = value.tensor == value.counted ? value.Count(1, value.rank) : 0;
}

void Planner::Use(int buffer) {
  if (buffer < kGivenBuffers) return;
  model_.buffers[buffer].last = std::max(model_.buffers[buffer].last, model_.step_count - 1);
}

const Value* Planner::Map(int index, int rank) {
  const Value* value = index < node_->input_count ? Find(node_->inputs[index]) : nullptr;
  if (!value || value->constant.type || value->buffer < kGivenBuffers || value->rank != rank || !value->is_last ||
      value->type != kFloat) {
    Refuse("does not read the result of an earlier node, with its channels last, as input %d", index);
    return nullptr;
  }
  Use(value->buffer);
  CountImages(*value);
  return value;
}

const Value* Planner::Image(int index) {
  const Value* value = index < node_->input_count ? Find(node_->inputs[index]) : nullptr;
  if (value && value->buffer == kImageBuffer && !value->constant.type) return value;
  Refuse("does not read the image, and other real convolutions are not supported");
  return nullptr;
}

bool Planner::Find(int index, int64_t type, int rank, Constant* constant, bool* is_filled) {
  const Constant* found = nullptr;
  *is_filled = false;
  if (index < node_->input_count) {
    const Span name = node_->inputs[index];
    if (const Value* value = Find(name)) {
      if (value->constant.type) found = &value->constant;
      *is_filled = value->is_filled;
    }
    if (!found) found = FindConstant(name);
  }
  if (!found || found->type != type || found->rank != rank) {
    return Refuse("does not have a constant of the right type and rank as input %d", index);
  }
  *constant = *found;
  return true;
}

bool Planner::Weights(int index, int64_t type, int rank, Constant* constant) {
  bool is_filled;
  if (!Find(index, type, rank, constant, &is_filled)) return false;
  if (is_filled || constant->raw.size == 0) return Refuse("has no weights");
  return true;
}

const float* Planner::Vector(int index, int64_t count) {
  Constant constant;
  bool is_filled;
  if (!Find(index, kFloat, 1, &constant, &is_filled)) return nullptr;
  if (constant.dims[0] != count) {
    Refuse("has %lld numbers as input %d; it must have %lld", static_cast<long long>(constant.dims[0]), index,
           static_cast<long long>(count));
    return nullptr;
  }
  const int64_t room = CeilDiv(count, kProductBlock) * kProductBlock;
  auto numbers = static_cast<float*>(Keep(room, sizeof(float)));
  if (!numbers) return nullptr;
  std::fill(numbers, numbers + room, 0.0f);
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(numbers + i, constant.raw.data + (is_filled ? 0 : i * sizeof(float)), sizeof(float));
  }
  return numbers;
}

bool Planner::IsOneZero(int index) {
  Constant constant;
  bool is_filled;
  float value = 1;
  if (!Find(index, kFloat, 4, &constant, &is_filled)) return false;
  for (int64_t size : constant.dims) {
    if (size != 1) return false;
  }
  std::memcpy(&value, constant.raw.data, sizeof value);
  return value == 0;
}

void Planner::Begin(Work work) {
  step_ = &model_.steps[model_.step_count++];
  step_->work = work;
  step_->x = step_->residual = step_->y = step_->bits = kNoBuffer;
  step_->images = 1;
  step_->counted = -1;
  step_->together = 1;
}

Value* Planner::NewValue(int index) {
  const Span name = node_->outputs[index];
  if (Find(name) || FindConstant(name)) {
    Refuse("gives a name that is there already");
    return nullptr;
  }
  return NameValue(name);
}

Value* Planner::NameValue(Span name) {
  Value* value = &values_[value_count_++];
  value->name = name;
  value->step = model_.step_count - 1;
  value->type = kFloat;
  value->buffer = value->integers = kNoBuffer;
  value->tensor = value->counted = -1;
  return value;
}

Value* Planner::CopyValue(const Value& x) {
  Value* value = NewValue(0);
  if (!value) return nullptr;
  const Span name = value->name;
  *value = x;
  value->name = name;
  value->tensor = -1;
  return value;
}

int Planner::NewBuffer(int64_t bytes, int64_t image_bytes) {
  const int step = model_.step_count - 1;
  model_.buffers[model_.buffer_count] = {bytes, step, step, 0, step_->counted < 0 ? 0 : image_bytes};
  return model_.buffer_count++;
}

bool Planner::AddValue(int index, bool is_bits, std::initializer_list<int64_t> dims, int* buffer, bool is_last) {
  *buffer = kNoBuffer;
  if (index >= node_->output_count || node_->outputs[index].size == 0) return true;
  Value* value = NewValue(index);
  if (!value) return false;
  int64_t bytes = is_bits ? 1 : sizeof(float);
  for (int64_t size : dims) {
    bytes = Product({bytes, size});
    if (size < 1 || bytes < 0 || bytes > PTRDIFF_MAX / 4)
      return Refuse("gives a map larger than memory can be, or none");
    value->dims[value->rank++] = size;
  }
  value->is_bits = is_bits;
  value->is_last = is_last;
  value->counted = step_->counted;
  value->buffer = *buffer = NewBuffer(bytes, bytes / value->dims[0]);
  return true;
}

// ConstantOfShape, which fills, and Cast, which turns numbers of 16 bits into float32.
bool Planner::MakeConstant() {
  const bool is_cast = node_->op.Is("Cast");
  const Constant* constant = FindConstant(node_->inputs[0]);
  if (is_cast && !(constant && constant->type == kHalf)) return PlanTensor(*FindTensorOperator(node_->op));
  Constant from = {};
  Value* value = NewValue(0);
  if (!value) return false;
  if (!is_cast) {
    Constant fill = {};
    if (!Weights(0, kInt64, 1, &from) || !node_->attributes.Tensor("value", &fill))
      return Refuse("has no shape or value");
    if (fill.type != kFloat || fill.raw.size != sizeof(float) || from.dims[0] > kMostDims) {
      return Refuse("does not make real numbers of at most 4 dimensions");
    }
    value->constant = fill;
    value->constant.rank = static_cast<int>(from.dims[0]);
    std::memcpy(value->constant.dims, from.raw.data, from.raw.size);
    for (int axis = 0; axis < value->constant.rank; ++axis) {
      const int64_t size = value->constant.dims[axis];
      if (size < 1 || size > kMaxSide) return Refuse("makes a constant with a size out of range");
    }
    return value->is_filled = true;
  }
  int64_t to;
  if (!Weights(0, kHalf, constant->rank, &from) || !node_->attributes.Int("to", 0, &to)) return false;
  if (to != kFloat) return Refuse("does not make real numbers");
  const auto count = static_cast<int64_t>(from.raw.size / sizeof(uint16_t));
  auto numbers = static_cast<float*>(Keep(count, sizeof(float)));
  if (!numbers) return false;
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, from.raw.data + i * sizeof bits, sizeof bits);
    numbers[i] = FromHalf(bits);
  }
  value->constant = from;
  value->constant.type = kFloat;
  value->constant.raw = {reinterpret_cast<const uint8_t*>(numbers), static_cast<size_t>(count) * sizeof(float)};
  return true;
}

bool Planner::BinaryConv(bool is_packed, bool is_block, bool clips) {
  static constexpr const float* Io::*kConvSteps[] = {&Io::scale, &Io::add};
  static constexpr const float* Io::*kBlockSteps[] = {&Io::scale, &Io::mul,   &Io::add,  &Io::residual,
                                                      &Io::pre,   &Io::slope, &Io::post, &Io::next_shift};
  const Attributes& attributes = node_->attributes;
  rebnn_conv_desc desc = {};
  int64_t channels, pad_value;
  Span layout;
  Begin(Work::kConv);
  const Value* x = Map(0, 4);
  Constant weights;
  if (!x || !attributes.Int("channels", 0, &channels) || !attributes.Ints("strides", 2, 1, desc.stride) ||
      !attributes.Ints("dilations", 2, 1, desc.dilation) ||
      !attributes.Ints("pads", 4, 0, desc.pad) || !attributes.Int("group", 1, &desc.group) ||
      !attributes.Int("pad_value", 0, &pad_value) || !attributes.Text("layout", "NCHW", &layout) ||
      !Weights(1, kUint8, 4, &weights)) {
    return false;
  }
  if (!layout.Is("NHWC")) return Refuse("does not have its channels last");
  if (channels < 1 || channels > kMaxSide || desc.group < 1 || desc.group > kMaxSide || pad_value < -1 ||
      pad_value > 1) {
    return Refuse("has channels, group or pad_value out of range");
  }
  if (is_packed && desc.group != 1) return Refuse("has packed input and groups");
  desc.in_channels = channels * desc.group;
  desc.out_channels = weights.dims[0];
  desc.kernel[0] = weights.dims[1];
  desc.kernel[1] = weights.dims[2];
  desc.pad_value = static_cast<int32_t>(pad_value);
  const int64_t n = x->dims[0], h = x->dims[1], w = x->dims[2];
  if (x->is_bits != is_packed || x->dims[3] != (is_packed ? CeilDiv(channels, 8) : desc.in_channels) ||
      weights.dims[3] != CeilDiv(channels, 8)) {
    return Refuse("has an input or weights that do not suit its channels");
  }
  int64_t out_h, out_w;
  size_t scratch;
  const ConvBytes bytes = BytesOf(desc, *model_.kernels);
  if (!Take(bytes.weights) || !Take(bytes.border_sums) ||
      !Check(rebnn_conv_create(&desc, weights.raw.data, weights.raw.size, &step_->conv)) ||
      !Check(rebnn_conv_output_size(step_->conv, h, w, &out_h, &out_w)) ||
      !Check(rebnn_conv_scratch_size(step_->conv, n, h, w, 1, &scratch))) {
    return false;
  }
  step_->scratch = static_cast<int64_t>(scratch);
  step_->x = x->buffer;
  step_->reads_bits = is_packed;
  Io& io = step_->conv_io;
  io.n = n;
  io.h = h;
  io.w = w;
  io.layout = REBNN_NHWC;
  int index = 2;
  if (!is_packed && !(io.shift = Vector(index++, desc.in_channels))) return false;
  for (int i = 0; i < (is_block ? 8 : 2); ++i, ++index) {
    const auto step = is_block ? kBlockSteps[i] : kConvSteps[i];
    if (step != &Io::residual) {
      if (!(io.*step = Vector(index, desc.out_channels))) return false;
      continue;
    }
    const Value* residual = index < node_->input_count ? Find(node_->inputs[index]) : nullptr;
    if (!residual || residual->constant.type) {
      if (!IsOneZero(index)) return Refuse("adds a constant that is not one 0");
      continue;
    }
    residual = Map(index, 4);
    if (!residual) return false;
    const int64_t dims[] = {n, out_h, out_w, desc.out_channels};
    if (residual->is_bits || !std::equal(dims, dims + 4, residual->dims)) return Refuse("adds a map of another size");
    step_->residual = residual->buffer;
  }
  if (index != node_->input_count) return Refuse("has %d inputs", node_->input_count);
  if (clips) {
    if (!attributes.Real("low", 0, &step_->clip[0]) || !attributes.Real("high", 0, &step_->clip[1])) return false;
    if (!(step_->clip[0] < 0 && step_->clip[1] > 0)) return Refuse("needs a negative low and a positive high");
    io.clip = step_->clip;
  }
  SkipIdentities(desc.in_channels, desc.out_channels, &io);
  if (!AddValue(0, false, {n, out_h, out_w, desc.out_channels}, &step_->y) ||
      !AddValue(1, true, {n, out_h, out_w, CeilDiv(desc.out_channels, 8)}, &step_->bits)) {
    return false;
  }
  if (step_->bits != kNoBuffer && !is_block) return Refuse("gives bits");
  if (step_->bits == kNoBuffer) io.next_shift = nullptr;
  if (step_->bits == kNoBuffer && step_->y == kNoBuffer) return Refuse("gives nothing");
  return true;
}

bool Planner::Stem() {
  Span layout, precision;
  Constant weights;
  Begin(Work::kStem);
  const Value* x = Image(0);
  if (!x || !node_->attributes.Text("layout", "NCHW", &layout) ||
      !node_->attributes.Text("precision", "float32", &precision) || !Weights(1, kFloat, 4, &weights)) {
    return false;
  }
  const bool half = precision.Is("half");
  if (!layout.Is("NHWC") || (!half && !precision.Is("float32"))) return Refuse("has an unknown layout or precision");
  if (weights.dims[1] != x->dims[1] || weights.dims[2] != 7 || weights.dims[3] != 7) {
    return Refuse("has weights that do not suit the image");
  }
  const float* mul = Vector(2, weights.dims[0]);
  const float* add = mul ? Vector(3, weights.dims[0]) : nullptr;
  const auto count = static_cast<int64_t>(weights.raw.size / sizeof(float));
  auto numbers = add ? static_cast<float*>(Keep(count, sizeof(float))) : nullptr;
  if (!numbers) return false;
  std::memcpy(numbers, weights.raw.data, weights.raw.size);
  rebnn_stem_io& io = step_->stem_io;
  io.n = x->dims[0];
  io.h = x->dims[2];
  io.w = x->dims[3];
  io.layout = REBNN_NHWC;
  int64_t h, w;
  size_t scratch;
  const auto create = half ? rebnn_stem_create_half : rebnn_stem_create;
  if (!Check(create(x->dims[1], weights.dims[0], numbers, mul, add, &step_->stem)) ||
      !Check(rebnn_stem_output_size(step_->stem, io.h, io.w, &h, &w)) ||
      !Check(rebnn_stem_scratch_size(step_->stem, io.n, io.h, io.w, 1, &scratch))) {
    return false;
  }
  step_->scratch = static_cast<int64_t>(scratch);
  step_->x = x->buffer;
  const rebnn_stem& made = *step_->stem;
  return Take(made.blocks * made.kernels->block * kPoints * made.depth * int64_t{sizeof(float)}) &&
         AddValue(0, false, {io.n, h, w, weights.dims[0]}, &step_->y);
}

bool Planner::UpsampleAdd() {
  Begin(Work::kUpsampleAdd);
  const Value* x = Map(0, 4);
  const Value* added = x ? Map(1, 4) : nullptr;
  if (!added) return false;
  const int64_t dims[] = {x->dims[0], 2 * x->dims[1], 2 * x->dims[2], x->dims[3]};
  if (x->is_bits || added->is_bits || !std::equal(dims, dims + 4, added->dims)) {
    return Refuse("adds a map that is not twice as large: the sides of the image do not suit the file");
  }
  step_->upsample_io = {x->dims[0], x->dims[1], x->dims[2], x->dims[3], nullptr, nullptr, nullptr};
  step_->x = x->buffer;
  step_->residual = added->buffer;
  return AddValue(0, false, {dims[0], dims[1], dims[2], dims[3]}, &step_->y);
}

bool Planner::AveragePool() {
  int64_t ceil_mode;
  Begin(Work::kAveragePool);
  const Value* x = Map(0, 4);
  if (!x || !node_->attributes.Int("ceil_mode", 0, &ceil_mode)) return false;
  if (x->is_bits || ceil_mode < 0 || ceil_mode > 1) return Refuse("has an unknown ceil_mode, or averages bits");
  rebnn_average_pool_io& io = step_->pool_io;
  io.n = x->dims[0];
  io.h = x->dims[1];
  io.w = x->dims[2];
  io.channels = x->dims[3];
  io.ceil_mode = static_cast<int32_t>(ceil_mode);
  step_->x = x->buffer;
  return AddValue(0, false, {io.n, (io.h + ceil_mode) / 2, (io.w + ceil_mode) / 2, io.channels}, &step_->y);
}

bool Planner::ReadWindows(const Value& x, const int64_t* kernel, Windows* windows) {
  const Attributes& attributes = node_->attributes;
  Span auto_pad;
  int64_t shape[2];
  if (!attributes.Text("auto_pad", "NOTSET", &auto_pad) || !attributes.Ints("kernel_shape", 2, 0, shape) ||
      !attributes.Ints("strides", 2, 1, windows->stride) || !attributes.Ints("dilations", 2, 1, windows->dilation) ||
      !attributes.Ints("pads", 4, 0, windows->pad)) {
    return false;
  }
  if (!auto_pad.Is("NOTSET")) return Refuse("has an auto_pad");
  if (x.dims[0] != 1 || x.counted >= 0) return Refuse("slides over several maps");
  windows->channels = x.dims[1];
  for (int axis = 0; axis < 2; ++axis) {
    if (kernel && shape[axis] != kernel[axis]) return Refuse("has a kernel_shape that is not that of its weights");
    for (int64_t number : {shape[axis], windows->stride[axis], windows->dilation[axis], windows->pad[axis] + 1,
                           windows->pad[axis + 2] + 1}) {
      if (number < 1 || number > kMostStep) return Refuse("has a kernel, stride, dilation or pad out of range");
    }
    windows->kernel[axis] = shape[axis];
    windows->size[axis] = x.dims[2 + axis];
    const int64_t left = windows->Padded(axis) - (shape[axis] - 1) * windows->dilation[axis] - 1;
    if (left < 0) return Refuse("has a kernel larger than its input");
    windows->out[axis] = left / windows->stride[axis] + 1;
  }
  const int64_t padded = Product({windows->channels, windows->Padded(0), windows->Padded(1), sizeof(float)});
  return (padded >= 0 && padded <= PTRDIFF_MAX / 4) || Refuse("needs more memory than there can be");
}

bool Planner::MakeMatrix(const Constant& weights, int64_t depth, int64_t columns, int64_t term_step,
                         int64_t column_step, const int64_t* terms) {
  const int64_t blocks = CeilDiv(columns, kProductBlock);
  auto numbers = static_cast<float*>(Keep(Product({blocks, depth}), kProductBlock * sizeof(float)));
  auto places = numbers ? static_cast<int64_t*>(Keep(depth, sizeof(int64_t))) : nullptr;
  if (!places) return false;
  step_->matrix = {depth, columns, kMatrixChunk, numbers, nullptr, nullptr, places};
  for (int64_t k = 0; k < depth; ++k) places[k] = k;
  for (int64_t block = 0; block < blocks; ++block) {
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t c = block * kProductBlock; c < (block + 1) * kProductBlock; ++c, ++numbers) {
        *numbers = 0;
        if (c >= columns) continue;
        const int64_t term = terms ? terms[k] : k;
        std::memcpy(numbers, weights.raw.data + (term * term_step + c * column_step) * sizeof(float), sizeof(float));
      }
    }
  }
  return true;
}

bool Planner::PlaceTerms(const Windows& windows, int64_t channels, int64_t** terms, int64_t** places) {
  const int64_t depth = windows.channels * windows.kernel[0] * windows.kernel[1];
  *terms = static_cast<int64_t*>(Keep(depth, sizeof(int64_t)));
  *places = *terms ? static_cast<int64_t*>(Keep(depth, sizeof(int64_t))) : nullptr;
  if (!*places) return false;
  SetMapPlaces(windows, channels, *terms, *places);
  return true;
}

bool Planner::Conv() {
  int64_t group;
  Constant weights;
  const Value* x = Find(node_->inputs[0]);
  if (x && x->integers != kNoBuffer) return IntegerConv(*x);
  const bool is_map =
      x && x->buffer >= kGivenBuffers && !x->is_last && !x->is_sums && x->type == kFloat && x->rank == 4;
  Begin(is_map ? Work::kMapConv : Work::kImageConv);
  if (!is_map) x = Image(0);
  if (!x || !node_->attributes.Int("group", 1, &group) || !Weights(1, kFloat, 4, &weights)) return false;
  Windows& windows = step_->windows;
  if (group != 1 || weights.dims[1] != x->dims[1]) return Refuse("has groups, or weights for another image");
  if (!ReadWindows(*x, weights.dims + 2, &windows)) return false;
  const int64_t depth = weights.dims[1] * weights.dims[2] * weights.dims[3], columns = weights.dims[0];
  // The blocked layout has so many channels side by side.
  const int64_t block = is_map && file_.blocked && windows.channels % kBlockedChannels == 0 ? kBlockedChannels : 1;
  int64_t *terms = nullptr, *places = nullptr;
  if (is_map && !PlaceTerms(windows, block, &terms, &places)) return false;
  if (!MakeMatrix(weights, depth, columns, 1, depth, terms)) return false;
  // One pixel without a border has a loop of its own there.
  const bool is_pixel = weights.dims[2] * weights.dims[3] == 1 && std::count(windows.pad, windows.pad + 4, 0) == 4;
  const bool by_block = file_.blocked && !(is_pixel && block > 1);
  step_->matrix.chunk = by_block ? block * weights.dims[2] * weights.dims[3] : kConvChunk;
  if (is_map) {
    step_->matrix.places = places;
    Use(x->buffer);
  } else {
    SetPlaces(windows, const_cast<int64_t*>(step_->matrix.places));
  }
  if (node_->input_count > 2 && !(step_->matrix.bias = Vector(2, columns))) return false;
  step_->scratch = windows.channels * windows.Padded(0) * windows.Padded(1) * int64_t{sizeof(float)};
  step_->x = x->buffer;
  return AddValue(0, false, {1, columns, windows.out[0], windows.out[1]}, &step_->y, false);
}

bool Planner::MaxPool() {
  int64_t ceil_mode, order;
  Begin(Work::kMaxPool);
  const Value* x = Find(node_->inputs[0]);
  const Attributes& attributes = node_->attributes;
  if (!attributes.Int("ceil_mode", 0, &ceil_mode) || !attributes.Int("storage_order", 0, &order)) return false;
  if (!x || x->constant.type || x->buffer < kGivenBuffers || x->is_last || x->rank != 4 || ceil_mode || order ||
      x->type != kFloat) {
    return Refuse("does not follow a convolution, or has a ceil_mode");
  }
  Windows& windows = step_->windows;
  if (!ReadWindows(*x, nullptr, &windows)) return false;
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t most = windows.kernel[axis] - 1;
    if (windows.dilation[axis] != 1 || windows.pad[axis] > most || windows.pad[axis + 2] > most) {
      return Refuse("has dilations, or pads as large as its kernel");
    }
  }
  Use(x->buffer);
  step_->x = x->buffer;
  return AddValue(0, false, {1, windows.channels, windows.out[0], windows.out[1]}, &step_->y, false);
}

// Of a whole map.
bool Planner::AverageMap() {
  const Attributes& attributes = node_->attributes;
  Span auto_pad;
  int64_t kernel[2], dilations[2], pads[4];
  Begin(Work::kMean);
  const Value* x = Find(node_->inputs[0]);
  if (!attributes.Text("auto_pad", "NOTSET", &auto_pad) || !attributes.Ints("kernel_shape", 2, 0, kernel) ||
      !attributes.Ints("dilations", 2, 1, dilations) || !attributes.Ints("pads", 4, 0, pads)) {
    return false;
  }
  if (!x || x->constant.type || x->buffer < kGivenBuffers || x->is_last || x->is_sums || x->rank != 4 ||
      x->type != kFloat || !auto_pad.Is("NOTSET") || !std::equal(kernel, kernel + 2, x->dims + 2) ||
      dilations[0] != 1 || dilations[1] != 1 || std::count(pads, pads + 4, 0) != 4) {
    return Refuse("is not the mean of a whole map");
  }
  Use(x->buffer);
  CountImages(*x);
  step_->x = x->buffer;
  step_->rows = x->Count(2, 4);
  step_->columns = x->dims[1];
  // One pixel lies the same wherever its channels are.
  return AddValue(0, false, {x->dims[0], step_->columns, 1, 1}, &step_->y);
}

bool Planner::RoiAlign() {
  const Attributes& attributes = node_->attributes;
  Begin(Work::kRoiAlign);
  rebnn_roi_align_io& io = step_->roi_io;
  Span mode;
  const Value* x = Map(0, 4);
  if (!x || !attributes.Int("output_height", 0, &io.bins[0]) ||
      !attributes.Int("output_width", 0, &io.bins[1]) || !attributes.Real("spatial_scale", 1, &io.spatial_scale) ||
      !attributes.Int("sampling_ratio", 0, &io.sampling_ratio) ||
      !attributes.Text("coordinate_transformation_mode", "half_pixel", &mode)) {
    return false;
  }
  if (x->is_bits || x->counted >= 0) return Refuse("does not read the map of an image");
  io.half_pixel = mode.Is("half_pixel");
  if (!io.half_pixel && !mode.Is("output_half_pixel")) return Refuse("has an unknown coordinate_transformation_mode");
  if ((step_->rois = TensorOf(1, false)) < 0 || (step_->batch_indices = TensorOf(2, false)) < 0) return false;
  const Tensor &rois = model_.tensors[step_->rois], &indices = model_.tensors[step_->batch_indices];
  if (rois.type != kFloat || rois.rank != 2 || rois.dims[1] != 4 || indices.type != kInt64 || indices.rank != 1 ||
      indices.dims[0] != rois.dims[0]) {
    return Refuse("does not read boxes and the image of each");
  }
  Use(rois.buffer);
  Use(indices.buffer);
  io.n = x->dims[0];
  io.h = x->dims[1];
  io.w = x->dims[2];
  io.channels = x->dims[3];
  io.regions = step_->images = rois.dims[0];
  step_->counted = rois.varies ? step_->rois : -1;
  step_->numbers = rois.dims[1];
  size_t scratch;
  if (!Check(rebnn_roi_align_scratch_size(&io, 1, &scratch))) return false;
  step_->scratch = static_cast<int64_t>(scratch);
  step_->x = x->buffer;
  return AddValue(0, false, {io.regions, io.bins[0], io.bins[1], io.channels}, &step_->y);
}

// Only the order of the sizes changes: maps lie with their channels last in any case.
bool Planner::Transpose() {
  constexpr int64_t kToLast[] = {0, 2, 3, 1}, kToFirst[] = {0, 3, 1, 2};
  int64_t perm[4];
  const Value* x = Find(node_->inputs[0]);
  if (!node_->attributes.Ints("perm", 4, -1, perm)) return false;
  if (!x || x->constant.type || (x->buffer < kGivenBuffers && x->integers == kNoBuffer) || x->is_bits || x->rank != 4 ||
      x->is_sums || !std::equal(perm, perm + 4, x->is_last ? kToFirst : kToLast)) {
    return Refuse("does not put the channels of a map last or first");
  }
  Value* value = CopyValue(*x);
  if (!value) return false;
  value->is_last = !x->is_last;
  value->step = -1;  // whose sums have the bias of another axis here
  for (int axis = 0; axis < 4; ++axis) value->dims[axis] = x->dims[perm[axis]];
  return true;
}

bool Planner::MatMul() {
  Constant weights;
  const Value* given = Find(node_->inputs[0]);
  const bool is_integer = given && given->integers != kNoBuffer;
  Begin(is_integer ? Work::kIntegerProduct : Work::kProduct);
  if (is_integer) return IntegerProduct(*given, false);
  const Value* x = Map(0, 4);
  if (!x || !Weights(1, kFloat, 2, &weights)) return false;
  if (x->is_bits || weights.dims[0] != x->dims[3]) return Refuse("has a matrix of another size than its input");
  if (!MakeMatrix(weights, weights.dims[0], weights.dims[1], weights.dims[1], 1)) return false;
  step_->x = x->buffer;
  step_->rows = x->Count(1, 3);
  return AddValue(0, false, {x->dims[0], x->dims[1], x->dims[2], weights.dims[1]}, &step_->y);
}

// The bias of a MatMul before it becomes a part of that.
bool Planner::Add() {
  const Value* x = Find(node_->inputs[0]);
  const Constant* bias = FindConstant(node_->inputs[1]);
  Step* step = x && !x->constant.type && x->buffer >= kGivenBuffers && x->step >= 0 ? &model_.steps[x->step] : nullptr;
  const bool is_integer = step && step->work == Work::kIntegerProduct;
  const int64_t columns = !step ? -1 : is_integer ? step->integer_matrix.columns : step->matrix.columns;
  const bool is_bias = step && (is_integer || step->work == Work::kProduct) && step->y == x->buffer && x->rank == 4 &&
                       CountUses(x->name) == 1 && bias && bias->rank == 1 && bias->dims[0] == columns &&
                       !step->matrix.bias && !step->integers.bias;
  if (!is_bias) return PlanTensor(*FindTensorOperator(node_->op));
  const float*& to = is_integer ? step->integers.bias : step->matrix.bias;
  return (to = Vector(1, columns)) && CopyValue(*x);
}

bool Planner::ReduceMean() {
  int64_t keepdims;
  Constant axes;
  Begin(Work::kMean);
  const Value* x = Map(0, 4);
  if (!x || !node_->attributes.Int("keepdims", 1, &keepdims) || !Weights(1, kInt64, 1, &axes)) return false;
  const int64_t rows_and_columns[] = {1, 2};
  if (x->is_bits || keepdims || axes.raw.size != sizeof rows_and_columns ||
      std::memcmp(axes.raw.data, rows_and_columns, sizeof rows_and_columns) != 0) {
    return Refuse("is not the mean of a map's rows and columns");
  }
  step_->x = x->buffer;
  step_->rows = x->dims[1] * x->dims[2];
  step_->columns = x->dims[3];
  return AddValue(0, false, {x->dims[0], step_->columns}, &step_->y);
}

bool Planner::Gemm() {
  float alpha, beta;
  int64_t trans_a, trans_b;
  Constant weights;
  const Value* given = Find(node_->inputs[0]);
  const bool is_integer = given && given->integers != kNoBuffer;
  Begin(is_integer ? Work::kIntegerProduct : Work::kProduct);
  const Attributes& attributes = node_->attributes;
  if (!attributes.Real("alpha", 1, &alpha) || !attributes.Real("beta", 1, &beta) ||
      !attributes.Int("transA", 0, &trans_a) || !attributes.Int("transB", 0, &trans_b)) {
    return false;
  }
  if (alpha != 1 || beta != 1 || trans_a || trans_b != 1) return Refuse("is not a linear layer");
  if (is_integer) return IntegerProduct(*given, true);
  const Value* x = Map(0, 2);
  if (!x || !Weights(1, kFloat, 2, &weights)) return false;
  const int64_t columns = weights.dims[0], depth = weights.dims[1];
  if (depth != x->dims[1]) return Refuse("is not a linear layer that suits its input");
  if (!MakeMatrix(weights, depth, columns, 1, depth)) return false;
  if (node_->input_count > 2 && !(step_->matrix.start = Vector(2, columns))) return false;
  step_->x = x->buffer;
  step_->rows = 1;
  return AddValue(0, false, {x->dims[0], columns}, &step_->y);
}

bool Planner::Softmax() {
  int64_t axis;
  Begin(Work::kSoftmax);
  const Value* x = Map(0, 2);
  if (!x || !node_->attributes.Int("axis", -1, &axis)) return false;
  if (axis != 1 && axis != -1) return Refuse("is not over the classes");
  step_->x = x->buffer;
  step_->columns = x->dims[1];
  return AddValue(0, false, {x->dims[0], step_->columns}, &step_->y);
}

bool Planner::PlanNode() {
  struct Names {
    const char* of[10];  // ends with NULL
  };
  struct Entry {
    const char* domain;
    const char* op;
    bool (*plan)(Planner&);
    int least_inputs, most_inputs, most_outputs;
    Names attributes = {};
  };
  static constexpr Names kBinary = {
      {"channels", "strides", "dilations", "pads", "group", "pad_value", "layout", "low", "high"}};
  static constexpr Entry kEntries[] = {
      {"", "ConstantOfShape", [](Planner& p) { return p.MakeConstant(); }, 1, 1, 1, {{"value"}}},
      {"", "Cast", [](Planner& p) { return p.MakeConstant(); }, 1, 1, 1, {{"to", "saturate"}}},
      {"", "Conv", [](Planner& p) { return p.Conv(); }, 2, 3, 1,
       {{"group", "auto_pad", "kernel_shape", "strides", "dilations", "pads"}}},
      {"", "Constant", [](Planner& p) { return p.NameConstant(); }, 0, 0, 1, {{"value"}}},
      {"", "QuantizeLinear", [](Planner& p) { return p.Quantize(); }, 3, 3, 1},
      {"", "DequantizeLinear", [](Planner& p) { return p.Dequantize(); }, 3, 3, 1, {{"axis"}}},
      {"", "MaxPool", [](Planner& p) { return p.MaxPool(); }, 1, 1, 1,
       {{"auto_pad", "kernel_shape", "strides", "dilations", "pads", "ceil_mode", "storage_order"}}},
      {"", "AveragePool", [](Planner& p) { return p.AverageMap(); }, 1, 1, 1,
       {{"auto_pad", "kernel_shape", "strides", "dilations", "pads", "ceil_mode", "count_include_pad"}}},
      {"", "Transpose", [](Planner& p) { return p.Transpose(); }, 1, 1, 1, {{"perm"}}},
      {"", "MatMul", [](Planner& p) { return p.MatMul(); }, 2, 2, 1},
      {"", "Add", [](Planner& p) { return p.Add(); }, 2, 2, 1},
      {"", "ReduceMean", [](Planner& p) { return p.ReduceMean(); }, 2, 2, 1, {{"keepdims", "noop_with_empty_axes"}}},
      {"", "Gemm", [](Planner& p) { return p.Gemm(); }, 2, 3, 1, {{"alpha", "beta", "transA", "transB"}}},
      {"", "Softmax", [](Planner& p) { return p.Softmax(); }, 1, 1, 1, {{"axis"}}},
      {"rebnn", "RealStem", [](Planner& p) { return p.Stem(); }, 4, 4, 1, {{"layout", "precision"}}},
      {"rebnn", "RealAveragePool", [](Planner& p) { return p.AveragePool(); }, 1, 1, 1, {{"ceil_mode"}}},
      {"rebnn", "RealRoiAlign", [](Planner& p) { return p.RoiAlign(); }, 3, 3, 1,
       {{"output_height", "output_width", "spatial_scale", "sampling_ratio", "coordinate_transformation_mode"}}},
      {"rebnn", "RealUpsampleAdd", [](Planner& p) { return p.UpsampleAdd(); }, 2, 2, 1},
      {"rebnn", "BinaryConv", [](Planner& p) { return p.BinaryConv(false, false, false); }, 5, 5, 1, kBinary},
      {"rebnn", "BinaryBlock", [](Planner& p) { return p.BinaryConv(false, true, false); }, 11, 11, 2, kBinary},
      {"rebnn", "BinaryClipBlock", [](Planner& p) { return p.BinaryConv(false, true, true); }, 11, 11, 2, kBinary},
      {"rebnn", "PackedBinaryConv", [](Planner& p) { return p.BinaryConv(true, false, false); }, 4, 4, 1, kBinary},
      {"rebnn", "PackedBinaryBlock", [](Planner& p) { return p.BinaryConv(true, true, false); }, 10, 10, 2, kBinary},
      {"rebnn", "PackedBinaryClipBlock", [](Planner& p) { return p.BinaryConv(true, true, true); }, 10, 10, 2, kBinary},
  };
  for (const Entry& entry : kEntries) {
    if (!node_->domain.Is(entry.domain) || !node_->op.Is(entry.op)) continue;
    if (!HasInputs(entry.least_inputs, entry.most_inputs) || node_->output_count < 1 ||
        node_->output_count > entry.most_outputs) {
      return Refuse("has %d inputs and %d outputs", node_->input_count, node_->output_count);
    }
    return node_->attributes.AreAmong(entry.attributes.of) && entry.plan(*this);
  }
  const TensorOperator* what = node_->domain.Is("") ? FindTensorOperator(node_->op) : nullptr;
  return what ? PlanTensor(*what) : Refuse("is none that this reader knows; run the file with ONNX Runtime");
}

// Regions go through the layers after a RoiAlign a few at a time; what lies between these has room for no more.
void Planner::GroupRegions() {
  for (int first = 0; first < model_.step_count; ++first) {
    Step& step = model_.steps[first];
    if (step.work != Work::kRoiAlign || step.counted < 0) continue;
    int end = first + 1;
    while (end < model_.step_count && model_.steps[end].counted == step.counted) ++end;
    step.together = end - first;
    for (int i = kGivenBuffers; i < model_.buffer_count; ++i) {
      Buffer& buffer = model_.buffers[i];
      if (buffer.last < first || buffer.first >= end) continue;
      if (!buffer.image_bytes || buffer.first < first || buffer.last >= end) {
        // It is read or written again for the next regions.
        buffer.first = std::min(buffer.first, first);
        buffer.last = std::max(buffer.last, end - 1);
        continue;
      }
      buffer.bytes = std::min(kRegions, step.images) * buffer.image_bytes + int64_t{kAlignment};
      buffer.image_bytes = 0;
    }
    first = end - 1;
  }
}

bool Planner::PlaceBuffers() {
  // Those that are placed, by their offsets.
  auto placed = static_cast<Buffer**>(std::calloc(static_cast<size_t>(model_.buffer_count), sizeof(Buffer*)));
  if (!placed) return NoMemory();
  int count = 0;
  for (int i = kGivenBuffers; i < model_.buffer_count; ++i) {
    if (i == model_.output) continue;
    Buffer& buffer = model_.buffers[i];
    for (int j = 0; j < count; ++j) {
      const Buffer& other = *placed[j];
      if (other.last < buffer.first || buffer.last < other.first) continue;
      if (buffer.offset + buffer.bytes <= other.offset) break;
      buffer.offset = std::max(buffer.offset, CeilDiv(other.offset + other.bytes, kAlignment) * int64_t{kAlignment});
    }
    int at = count++;
    for (; at > 0 && placed[at - 1]->offset > buffer.offset; --at) placed[at] = placed[at - 1];
    placed[at] = &buffer;
    model_.arena_bytes = std::max(model_.arena_bytes, buffer.offset + buffer.bytes);
    if (model_.arena_bytes > PTRDIFF_MAX / 4) break;
  }
  std::free(placed);
  int64_t scratch = 0;
  for (int i = 0; i < model_.step_count; ++i) scratch = std::max(scratch, model_.steps[i].scratch);
  if (model_.arena_bytes > PTRDIFF_MAX / 4 || scratch > PTRDIFF_MAX / 4) return NoMemory();
  model_.table = CeilDiv(model_.arena_bytes, kAlignment) * int64_t{kAlignment};
  const int64_t table_bytes = model_.tensor_count * static_cast<int64_t>(sizeof(Tensor));
  model_.arena_bytes = model_.table + CeilDiv(table_bytes, kAlignment) * int64_t{kAlignment};
  model_.scratch_bytes = model_.arena_bytes + scratch;
  return true;
}

bool Planner::Plan(int64_t h, int64_t w) {
  const auto nodes = static_cast<size_t>(file_.node_count);
  size_t tensors = 0;
  for (int i = 0; i < file_.node_count; ++i) tensors += file_.nodes[i].input_count + Node::kMostOutputs;
  values_ = static_cast<Value*>(std::calloc(2 * nodes + 2, sizeof(Value)));
  model_.tensors = static_cast<Tensor*>(std::calloc(tensors + OnnxFile::kMostOutputs, sizeof(Tensor)));
  model_.steps = static_cast<Step*>(std::calloc(nodes + 1, sizeof(Step)));
  model_.buffers = static_cast<Buffer*>(std::calloc(2 * nodes + kGivenBuffers, sizeof(Buffer)));
  if (!values_ || !model_.tensors || !model_.steps || !model_.buffers) return NoMemory();
  const int64_t image[] = {1, file_.image[1], h, w};
  for (int axis = 0; axis < 4; ++axis) {
    if (image[axis] < 1 || image[axis] > kMaxSide || (file_.image[axis] >= 0 && file_.image[axis] != image[axis])) {
      Fail(REBNN_INVALID_ARGUMENT,
           "rebnn_model_load: one image of %lld x %lld pixels is not what the file takes.", static_cast<long long>(w),
           static_cast<long long>(h));
      return false;
    }
  }
  const int64_t image_bytes = Product({image[1], h, w, sizeof(float)});
  if (image_bytes < 0 || image_bytes > PTRDIFF_MAX / 4) {
    Fail(REBNN_INVALID_ARGUMENT, "rebnn_model_load: an image of %lld x %lld pixels is larger than memory can be.",
         static_cast<long long>(w), static_cast<long long>(h));
    return false;
  }
  const int64_t given = std::min(static_cast<int64_t>(file_.bytes) + image_bytes, PTRDIFF_MAX / kKeptPerByte / 2);
  room_ = kKeptPerByte * given + kAlsoKept;
  Value& first = *NameValue(file_.input);
  first.rank = 4;
  std::copy(image, image + 4, first.dims);
  first.buffer = kImageBuffer;
  model_.buffer_count = kGivenBuffers;
  model_.output = kNoBuffer;
  model_.is_detector = file_.is_detector;
  if (file_.is_detector) {
    Value& size = *NameValue(file_.valid_size);
    size.type = kInt64;
    size.rank = 1;
    size.dims[0] = 2;
    size.is_last = true;
    size.buffer = kValidSizeBuffer;
    model_.buffers[kValidSizeBuffer].bytes = 2 * sizeof(int64_t);
  }
  model_.channels = image[1];
  for (int i = 0; i < file_.node_count; ++i) {
    node_ = &file_.nodes[i];
    if (!PlanNode()) return false;
  }
  if (file_.is_detector) {
    if (!FindDetections()) return false;
    GroupRegions();
    return PlaceBuffers();
  }
  const Value* scores = Find(file_.outputs[0]);
  if (!scores || scores->type != kFloat || scores->is_bits || scores->buffer < kGivenBuffers || scores->constant.type ||
      scores->rank != 2 || scores->dims[0] != 1 || scores->counted >= 0) {
    Fail(REBNN_INVALID_ARGUMENT, "rebnn_model_load: no node of the file gives its scores.");
    return false;
  }
  model_.output = scores->buffer;
  model_.classes = scores->dims[1];
  return PlaceBuffers();
}

rebnn_status MakePlan(const OnnxFile& file, int64_t h, int64_t w, rebnn_model* model) {
  Planner planner(file, model);
  return planner.Plan(h, w) ? REBNN_OK : planner.status();
}

}  // namespace rebnn
