#include "average_pool_kernel.h"

#include "rebnn.h"
#include "threads.h"

namespace rebnn::ort {

AveragePoolKernel::AveragePoolKernel(const Operator& op, const ApiTable* table, const KernelInfo* info)
    : Kernel(op, table, info) {
  const int64_t none = 0, ceil_mode = node_.Int(info, "ceil_mode", &none);
  if (ceil_mode != 0 && ceil_mode != 1) {
    node_.Fail("the attribute ceil_mode is %lld; it must be 0 or 1.", static_cast<long long>(ceil_mode));
  }
  ceil_mode_ = static_cast<int32_t>(ceil_mode);
}

void AveragePoolKernel::Run(KernelContext* context) const {
  const Tensor x = Take(context, 0);
  if (x.rank != 4) node_.Fail("X has the shape %s; it must have 4 dimensions.", x.Shape().c_str());
  rebnn_average_pool_io io = {};
  io.n = x.dims[0];
  io.h = x.dims[1];
  io.w = x.dims[2];
  io.channels = x.dims[3];
  io.ceil_mode = ceil_mode_;
  io.x = static_cast<const float*>(x.data);
  Tensor y = x;
  y.dims = {io.n, (io.h + ceil_mode_) / 2, (io.w + ceil_mode_) / 2, io.channels};
  io.y = static_cast<float*>(Output(context, 0, y));
  if (!io.y) return;
  Threads threads(node_.api(), context, op_.threads);
  const rebnn_status status = rebnn_average_pool_run(&io, threads.parallel());
  node_.Check(threads.status(), "running in parallel");
  Check(status);
}

}  // namespace rebnn::ort
