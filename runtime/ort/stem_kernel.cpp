#include "stem_kernel.h"

#include <string>

#include "threads.h"

namespace rebnn::ort {

StemKernel::StemKernel(const Operator& op, const ApiTable* table, const KernelInfo* info) : Kernel(op, table, info) {
  layout_ = node_.Layout(info);
  const Tensor weights = Constant(info, 1);
  if (weights.rank != 4 || weights.dims[2] != 7 || weights.dims[3] != 7) {
    node_.Fail("W has the shape %s; it must be [O, C, 7, 7].", weights.Shape().c_str());
  }
  out_channels_ = weights.dims[0];
  in_channels_ = weights.dims[1];
  const float* mul = PerOutput(info, 2);
  const float* add = PerOutput(info, 3);
  const std::string precision = node_.Text(info, "precision", "float32");
  if (precision != "float32" && precision != "half") node_.Fail("the attribute precision must be float32 or half.");
  const auto create = precision == "half" ? rebnn_stem_create_half : rebnn_stem_create;
  rebnn_stem* stem = nullptr;
  Check(create(in_channels_, out_channels_, static_cast<const float*>(weights.data), mul, add, &stem));
  stem_.reset(stem);
}

const float* StemKernel::PerOutput(const KernelInfo* info, size_t index) const {
  const Tensor tensor = Constant(info, index);
  if (tensor.rank != 1 || tensor.dims[0] != out_channels_) {
    node_.Fail("%s has the shape %s; it must be [%lld].", op_.inputs[index].name, tensor.Shape().c_str(),
               static_cast<long long>(out_channels_));
  }
  return static_cast<const float*>(tensor.data);
}

void StemKernel::Run(KernelContext* context) const {
  const Tensor x = Take(context, 0);
  if (x.rank != 4 || x.dims[1] != in_channels_) {
    node_.Fail("X has the shape %s; it must have 4 dimensions, the second of them %lld.", x.Shape().c_str(),
               static_cast<long long>(in_channels_));
  }
  rebnn_stem_io io = {};
  io.n = x.dims[0];
  io.h = x.dims[2];
  io.w = x.dims[3];
  io.x = static_cast<const float*>(x.data);
  io.layout = layout_;
  Threads threads(node_.api(), context, op_.threads);
  int64_t h = 0, w = 0;
  size_t bytes = 0;
  Check(rebnn_stem_output_size(stem_.get(), io.h, io.w, &h, &w));
  Check(rebnn_stem_scratch_size(stem_.get(), io.n, io.h, io.w, op_.threads, &bytes));
  Tensor y = x;
  if (layout_ == REBNN_NCHW) {
    y.dims = {io.n, out_channels_, h, w};
  } else {
    y.dims = {io.n, h, w, out_channels_};
  }
  io.y = static_cast<float*>(Output(context, 0, y));
  if (!io.y || io.n == 0) return;
  const Scratch scratch(bytes);
  const rebnn_status status = rebnn_stem_run(stem_.get(), &io, scratch.data(), bytes, threads.parallel());
  node_.Check(threads.status(), "running in parallel");
  Check(status);
}

}  // namespace rebnn::ort
