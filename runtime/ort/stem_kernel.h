// The stem of a session's network.
#ifndef REBNN_ORT_STEM_KERNEL_H_
#define REBNN_ORT_STEM_KERNEL_H_

#include <memory>

#include "kernel.h"
#include "rebnn.h"
#include "scratch.h"

namespace rebnn::ort {

class StemKernel : public Kernel {
 public:
  StemKernel(const Operator& op, const ApiTable* table, const KernelInfo* info);
  void Run(KernelContext* context) const override;

 private:
  struct Destroy {
    void operator()(rebnn_stem* stem) const { rebnn_stem_destroy(stem); }
  };

  // A constant of one number per output channel.
  const float* PerOutput(const KernelInfo* info, size_t index) const;

  int64_t in_channels_ = 0, out_channels_ = 0;
  rebnn_layout layout_ = REBNN_NCHW;
  std::unique_ptr<rebnn_stem, Destroy> stem_;
  ScratchUser scratch_user_;
};

}  // namespace rebnn::ort

#endif  // REBNN_ORT_STEM_KERNEL_H_
