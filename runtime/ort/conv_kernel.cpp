#include "conv_kernel.h"

#include "../src/identities.h"
#include "threads.h"

namespace rebnn::ort {
namespace {

constexpr int64_t kMostChannels = (int64_t{1} << 31) - 1;
// Rows of a linear layer are laid out as an image of this width: kernels work on several pixels of a row at once, and
// threads share rows.
constexpr int64_t kLinearWidth = 16;

int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0); }

bool IsOneZero(const Tensor& tensor) {
  if (tensor.rank != 4) return false;
  for (size_t axis = 0; axis < tensor.rank; ++axis) {
    if (tensor.dims[axis] != 1) return false;
  }
  return *static_cast<const float*>(tensor.data) == 0;
}

}  // namespace

ConvKernel::ConvKernel(const Operator& op, const ApiTable* table, const KernelInfo* info)
    : Kernel(op, table, info), is_linear_(op.work == Work::kLinear) {
  rebnn_conv_desc desc = {};
  ReadAttributes(info, &desc);
  ReadWeights(info, &desc);
  ReadConstants(info);
  SkipIdentities(in_channels_, out_channels_, &constants_);
}

void ConvKernel::ReadAttributes(const KernelInfo* info, rebnn_conv_desc* desc) {
  const int64_t none = 0, one = 1;
  const int64_t channels = node_.Positive(info, "channels");
  desc->group = 1;
  if (is_linear_) {
    for (int axis = 0; axis < 2; ++axis) desc->stride[axis] = desc->dilation[axis] = 1;
  } else {
    node_.Ints(info, "strides", desc->stride, 2, 1);
    node_.Ints(info, "dilations", desc->dilation, 2, 1);
    node_.Ints(info, "pads", desc->pad, 4, 0);
    desc->group = node_.Int(info, "group", &one);
    const int64_t pad_value = node_.Int(info, "pad_value", &none);
    if (pad_value < -1 || pad_value > 1) {
      node_.Fail("the attribute pad_value is %lld; it must be -1, 0 or 1.", static_cast<long long>(pad_value));
    }
    desc->pad_value = static_cast<int32_t>(pad_value);
    layout_ = node_.Layout(info);
  }
  if (op_.clips) {
    clip_[0] = node_.Real(info, "low");
    clip_[1] = node_.Real(info, "high");
    if (!(clip_[0] < 0)) node_.Fail("the attribute low is %g; it must be negative.", clip_[0]);
    if (!(clip_[1] > 0)) node_.Fail("the attribute high is %g; it must be positive.", clip_[1]);
  }
  if (desc->group < 1 || desc->group > kMostChannels) {
    node_.Fail("the attribute group is %lld; it must be positive and below 2^31.",
               static_cast<long long>(desc->group));
  }
  if (op_.inputs[0].kind == Kind::kBits && desc->group != 1) node_.Fail("a packed input allows only group 1.");
  desc->in_channels = in_channels_ = channels * desc->group;
}

void ConvKernel::ReadWeights(const KernelInfo* info, rebnn_conv_desc* desc) {
  const Tensor weights = Constant(info, 1);
  const size_t rank = is_linear_ ? 2 : 4;
  const int64_t bytes = CeilDiv(in_channels_ / desc->group, 8);
  if (weights.rank != rank || weights.dims[rank - 1] != bytes) {
    node_.Fail("W has the shape %s; it must be [O, %s%lld] for %lld input channels in each group.",
               weights.Shape().c_str(), is_linear_ ? "" : "KH, KW, ", static_cast<long long>(bytes),
               static_cast<long long>(in_channels_ / desc->group));
  }
  desc->out_channels = out_channels_ = weights.dims[0];
  desc->kernel[0] = is_linear_ ? 1 : weights.dims[1];
  desc->kernel[1] = is_linear_ ? 1 : weights.dims[2];
  size_t size = 1;
  for (size_t i = 0; i < weights.rank; ++i) size *= static_cast<size_t>(weights.dims[i]);
  rebnn_conv* conv = nullptr;
  Check(rebnn_conv_create(desc, static_cast<const uint8_t*>(weights.data), size, &conv));
  conv_.reset(conv);
}

void ConvKernel::ReadConstants(const KernelInfo* info) {
  constants_.layout = layout_;
  if (op_.clips) constants_.clip = clip_;
  for (size_t i = 0; i < op_.input_count; ++i) {
    const Input& input = op_.inputs[i];
    if (input.kind == Kind::kWeights) continue;
    const bool is_vector = input.kind == Kind::kPerInput || input.kind == Kind::kPerOutput;
    Tensor tensor = {};
    if (is_vector && IsConstant(info, i, &tensor)) {
      CheckVector(input, tensor);
      const auto values = static_cast<const float*>(tensor.data);
      kept_.emplace_back(values, values + tensor.dims[0]);
      constants_.*input.step = kept_.back().data();
    } else if (input.kind == Kind::kLikeOutput && IsConstant(info, i, &tensor) && IsOneZero(tensor)) {
      continue;  // there is no residual
    } else {
      asked_for_.push_back(i);
    }
  }
}

void ConvKernel::CheckVector(const Input& input, const Tensor& tensor) const {
  const int64_t count = input.kind == Kind::kPerInput ? in_channels_ : out_channels_;
  if (tensor.rank != 1 || tensor.dims[0] != count) {
    node_.Fail("%s has the shape %s; it must be [%lld].", input.name, tensor.Shape().c_str(),
               static_cast<long long>(count));
  }
}

Tensor ConvKernel::OutputShape(const Input& input, const Tensor& x, rebnn_conv_io* io) const {
  const bool packed = input.kind == Kind::kBits;
  const int64_t channels = packed ? CeilDiv(in_channels_, 8) : in_channels_;
  Tensor shape = x;
  if (is_linear_) {
    if (x.rank < 1 || x.dims[x.rank - 1] != channels) {
      node_.Fail("X has the shape %s; its last dimension must be %lld.", x.Shape().c_str(),
                 static_cast<long long>(channels));
    }
    shape.dims[x.rank - 1] = out_channels_;
    return shape;
  }
  const bool first = !packed && layout_ == REBNN_NCHW;
  const size_t channel_axis = first ? 1 : 3, height_axis = first ? 2 : 1;
  if (x.rank != 4 || x.dims[channel_axis] != channels) {
    node_.Fail("%s has the shape %s; it must have 4 dimensions, the %s of them %lld.", input.name, x.Shape().c_str(),
               first ? "second" : "last", static_cast<long long>(channels));
  }
  io->n = x.dims[0];
  io->h = x.dims[height_axis];
  io->w = x.dims[height_axis + 1];
  int64_t h = 0, w = 0;
  size_t bytes = 0;
  Check(rebnn_conv_output_size(conv_.get(), io->h, io->w, &h, &w));
  // Refuses sizes whose products overflow, before an output of such a size is asked for.
  Check(rebnn_conv_scratch_size(conv_.get(), io->n, io->h, io->w, 1, &bytes));
  if (layout_ == REBNN_NCHW) {
    shape.dims = {io->n, out_channels_, h, w};
  } else {
    shape.dims = {io->n, h, w, out_channels_};
  }
  return shape;
}

void ConvKernel::Run(KernelContext* context) const {
  rebnn_conv_io io = constants_;
  Tensor x = {}, y = {};
  for (const size_t i : asked_for_) {
    const Input& input = op_.inputs[i];
    const Tensor tensor = Take(context, i);
    if (input.kind == Kind::kReal || input.kind == Kind::kBits) {
      x = tensor;
      y = OutputShape(input, x, &io);
    } else if (input.kind == Kind::kLikeOutput) {
      if (tensor.rank != y.rank || tensor.dims != y.dims) {
        if (IsOneZero(tensor)) continue;  // there is no residual
        node_.Fail("%s has the shape %s; it must be that of Y, %s, or one 0 of the shape [1, 1, 1, 1].", input.name,
                   tensor.Shape().c_str(), y.Shape().c_str());
      }
    } else {
      CheckVector(input, tensor);
    }
    if (input.kind == Kind::kBits) {
      io.x_bits = static_cast<const uint8_t*>(tensor.data);
    } else {
      io.*input.step = static_cast<const float*>(tensor.data);
    }
  }
  io.y = static_cast<float*>(Output(context, 0, y));
  if (op_.gives_bits) {
    Tensor bits = y;
    const bool first = layout_ == REBNN_NCHW;
    bits.dims = {y.dims[0], y.dims[first ? 2 : 1], y.dims[first ? 3 : 2], CeilDiv(out_channels_, 8)};
    io.y_bits = static_cast<uint8_t*>(Output(context, 1, bits));
    if (!io.y_bits) io.next_shift = nullptr;
  }
  if (!io.y && !io.y_bits) return;
  if (!is_linear_) return Compute(context, io);
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < x.rank; ++i) rows *= x.dims[i];
  io.n = rows ? 1 : 0;
  io.h = rows / kLinearWidth;
  io.w = kLinearWidth;
  if (io.h) Compute(context, io);
  const int64_t done = io.h * kLinearWidth;
  if (done == rows) return;
  io.x += done * in_channels_;
  io.y += done * out_channels_;
  io.h = 1;
  io.w = rows - done;
  Compute(context, io);
}

void ConvKernel::Compute(KernelContext* context, const rebnn_conv_io& io) const {
  if (io.n == 0) return;
  Threads threads(node_.api(), context, op_.threads);
  size_t bytes = 0;
  Check(rebnn_conv_scratch_size(conv_.get(), io.n, io.h, io.w, op_.threads, &bytes));
  const Scratch scratch(bytes);
  const rebnn_status status = rebnn_conv_run(conv_.get(), &io, scratch.data(), bytes, threads.parallel());
  node_.Check(threads.status(), "running in parallel");
  Check(status);
}

}  // namespace rebnn::ort
