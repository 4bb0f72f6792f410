// One binary layer of a session.
#ifndef REBNN_ORT_KERNEL_H_
#define REBNN_ORT_KERNEL_H_

#include <memory>

#include "node.h"
#include "operators.h"
#include "rebnn.h"
#include "scratch.h"

namespace rebnn::ort {

class Kernel {
 public:
  // Reads attributes and weights. Throws Failure.
  Kernel(const Operator& op, const ApiTable* table, const KernelInfo* info);

  // Runs once; several threads may do so at the same time. Throws Failure.
  void Run(KernelContext* context) const;

 private:
  struct Destroy {
    void operator()(rebnn_conv* conv) const { rebnn_conv_destroy(conv); }
  };

  void ReadAttributes(const KernelInfo* info, rebnn_conv_desc* desc);
  void ReadWeights(const KernelInfo* info, rebnn_conv_desc* desc);
  // Sizes of the input in `io`, and the output's shape.
  Tensor OutputShape(const Input& input, const Tensor& x, rebnn_conv_io* io) const;
  void* Output(KernelContext* context, size_t index, const Tensor& shape) const;
  void Compute(KernelContext* context, const rebnn_conv_io& io) const;
  // Throws what librebnn said.
  void Check(rebnn_status status) const;

  const Operator& op_;
  Node node_;
  int64_t in_channels_ = 0, out_channels_ = 0;
  rebnn_layout layout_ = REBNN_NHWC;
  std::unique_ptr<rebnn_conv, Destroy> conv_;
  ScratchUser scratch_user_;
};

}  // namespace rebnn::ort

#endif  // REBNN_ORT_KERNEL_H_
