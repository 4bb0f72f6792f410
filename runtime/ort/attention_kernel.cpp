#include "attention_kernel.h"

#include <vector>

#include "threads.h"

namespace rebnn::ort {
namespace {

// A mask as [batch, length], its dimensions of 1 repeated.
std::vector<uint8_t> Spread(const Tensor& mask, int64_t batch, int64_t length) {
  const auto from = static_cast<const uint8_t*>(mask.data);
  std::vector<uint8_t> all(static_cast<size_t>(batch * length));
  for (int64_t text = 0; text < batch; ++text) {
    for (int64_t j = 0; j < length; ++j) {
      const int64_t row = mask.dims[0] == 1 ? 0 : text * mask.dims[3];
      all[static_cast<size_t>(text * length + j)] = from[row + (mask.dims[3] == 1 ? 0 : j)];
    }
  }
  return all;
}

}  // namespace

AttentionKernel::AttentionKernel(const Operator& op, const ApiTable* table, const KernelInfo* info)
    : Kernel(op, table, info) {
  const int64_t one = 1;
  const int64_t tie = node_.Int(info, "tie", &one);
  if (tie != 0 && tie != 1) node_.Fail("the attribute tie is %lld; it must be 0 or 1.", static_cast<long long>(tie));
  tie_ = static_cast<int32_t>(tie);
}

void AttentionKernel::Run(KernelContext* context) const {
  const Tensor q = Take(context, 0), k = Take(context, 1), v = Take(context, 2), mask = Take(context, 3);
  if (q.rank != 4) node_.Fail("Q has the shape %s; it must be [B, L, H, D].", q.Shape().c_str());
  for (const Tensor* other : {&k, &v}) {
    if (other->rank != 4 || other->dims != q.dims) {
      node_.Fail("%s has the shape %s; it must be that of Q, %s.", other == &k ? "K" : "V", other->Shape().c_str(),
                 q.Shape().c_str());
    }
  }
  const int64_t batch = q.dims[0], length = q.dims[1];
  const bool fits = mask.rank == 4 && (mask.dims[0] == batch || mask.dims[0] == 1) && mask.dims[1] == 1 &&
                    mask.dims[2] == 1 && (mask.dims[3] == length || mask.dims[3] == 1);
  if (!fits) {
    node_.Fail("mask has the shape %s; it must be [%lld, 1, 1, %lld], or 1 in place of a number.",
               mask.Shape().c_str(), static_cast<long long>(batch), static_cast<long long>(length));
  }
  rebnn_attention_io io = {};
  io.batch = batch;
  io.length = length;
  io.heads = q.dims[2];
  io.head_size = q.dims[3];
  io.q = static_cast<const float*>(q.data);
  io.k = static_cast<const float*>(k.data);
  io.v = static_cast<const float*>(v.data);
  io.mask = static_cast<const uint8_t*>(mask.data);
  io.tie = tie_;
  const bool empty = batch * length * io.heads * io.head_size == 0;
  size_t bytes = 0;
  if (!empty) Check(rebnn_attention_scratch_size(&io, op_.threads, &bytes));
  io.y = static_cast<float*>(Output(context, 0, q));
  if (!io.y || empty) return;
  std::vector<uint8_t> spread;
  if (mask.dims[0] != batch || mask.dims[3] != length) {
    spread = Spread(mask, batch, length);
    io.mask = spread.data();
  }
  const Scratch scratch(bytes);
  Threads threads(node_.api(), context, op_.threads);
  const rebnn_status status = rebnn_attention_run(&io, scratch.data(), bytes, threads.parallel());
  node_.Check(threads.status(), "running in parallel");
  Check(status);
}

}  // namespace rebnn::ort
