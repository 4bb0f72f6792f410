// One attention of signs of a session.
#ifndef REBNN_ORT_ATTENTION_KERNEL_H_
#define REBNN_ORT_ATTENTION_KERNEL_H_

#include "kernel.h"
#include "scratch.h"

namespace rebnn::ort {

class AttentionKernel : public Kernel {
 public:
  AttentionKernel(const Operator& op, const ApiTable* table, const KernelInfo* info);
  void Run(KernelContext* context) const override;

 private:
  int32_t tie_ = 1;
  ScratchUser scratch_user_;
};

}  // namespace rebnn::ort

#endif  // REBNN_ORT_ATTENTION_KERNEL_H_
