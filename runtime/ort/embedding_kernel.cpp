#include "embedding_kernel.h"

namespace rebnn::ort {

EmbeddingKernel::EmbeddingKernel(const Operator& op, const ApiTable* table, const KernelInfo* info)
    : Kernel(op, table, info) {
  channels_ = node_.Positive(info, "channels");
}

void EmbeddingKernel::Run(KernelContext* context) const {
  const Tensor ids = Take(context, 0), table = Take(context, 1), scale = Take(context, 2);
  const int64_t bytes = channels_ / 8 + (channels_ % 8 != 0);
  if (table.rank != 2 || table.dims[0] < 1 || table.dims[1] != bytes) {
    node_.Fail("W has the shape %s; it must be [V, %lld] for %lld channels.", table.Shape().c_str(),
               static_cast<long long>(bytes), static_cast<long long>(channels_));
  }
  const int64_t rows = table.dims[0];
  if (scale.rank != 1 || scale.dims[0] != rows) {
    node_.Fail("scale has the shape %s; it must be [%lld].", scale.Shape().c_str(), static_cast<long long>(rows));
  }
  if (ids.rank >= Tensor::kMaxRank) {
    node_.Fail("ids has %zu dimensions; at most %zu are supported.", ids.rank, Tensor::kMaxRank - 1);
  }
  Tensor shape = ids;
  shape.dims[shape.rank++] = channels_;
  rebnn_embedding_io io = {};
  io.rows = rows;
  io.channels = channels_;
  io.table = static_cast<const uint8_t*>(table.data);
  io.scale = static_cast<const float*>(scale.data);
  io.count = 1;
  for (size_t axis = 0; axis < ids.rank; ++axis) io.count *= ids.dims[axis];
  io.ids = static_cast<const int64_t*>(ids.data);
  io.y = static_cast<float*>(Output(context, 0, shape));
  if (io.y) Check(rebnn_embedding_run(&io));
}

}  // namespace rebnn::ort
