// One binary convolution or linear layer of a session.
#ifndef REBNN_ORT_CONV_KERNEL_H_
#define REBNN_ORT_CONV_KERNEL_H_

#include <memory>
#include <vector>

#include "kernel.h"
#include "rebnn.h"
#include "scratch.h"

namespace rebnn::ort {

class ConvKernel : public Kernel {
 public:
  ConvKernel(const Operator& op, const ApiTable* table, const KernelInfo* info);
  void Run(KernelContext* context) const override;

 private:
  struct Destroy {
    void operator()(rebnn_conv* conv) const { rebnn_conv_destroy(conv); }
  };

  void ReadAttributes(const KernelInfo* info, rebnn_conv_desc* desc);
  void ReadWeights(const KernelInfo* info, rebnn_conv_desc* desc);
  // Keeps what is an initializer of the graph, so that a run need not ask for it.
  void ReadConstants(const KernelInfo* info);
  // Whether an input is one number for each input or output channel, as its kind says.
  void CheckVector(const Input& input, const Tensor& tensor) const;
  // Sizes of the input in `io`, and the output's shape.
  Tensor OutputShape(const Input& input, const Tensor& x, rebnn_conv_io* io) const;
  void Compute(KernelContext* context, const rebnn_conv_io& io) const;

  const bool is_linear_;
  int64_t in_channels_ = 0, out_channels_ = 0;
  rebnn_layout layout_ = REBNN_NHWC;
  float clip_[2] = {};
  // What every run begins with, and which inputs it has to ask for.
  rebnn_conv_io constants_ = {};
  std::vector<std::vector<float>> kept_;
  std::vector<size_t> asked_for_;
  std::unique_ptr<rebnn_conv, Destroy> conv_;
  ScratchUser scratch_user_;
};

}  // namespace rebnn::ort

#endif  // REBNN_ORT_CONV_KERNEL_H_
