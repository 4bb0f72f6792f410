// One average pooling of a session.
#ifndef REBNN_ORT_AVERAGE_POOL_KERNEL_H_
#define REBNN_ORT_AVERAGE_POOL_KERNEL_H_

#include "kernel.h"

namespace rebnn::ort {

class AveragePoolKernel : public Kernel {
 public:
  AveragePoolKernel(const Operator& op, const ApiTable* table, const KernelInfo* info);
  void Run(KernelContext* context) const override;

 private:
  int32_t ceil_mode_ = 0;
};

}  // namespace rebnn::ort

#endif  // REBNN_ORT_AVERAGE_POOL_KERNEL_H_
