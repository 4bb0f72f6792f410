// One upsampling with an addition of a session.
#ifndef REBNN_ORT_UPSAMPLE_ADD_KERNEL_H_
#define REBNN_ORT_UPSAMPLE_ADD_KERNEL_H_

#include "kernel.h"

namespace rebnn::ort {

class UpsampleAddKernel : public Kernel {
 public:
  UpsampleAddKernel(const Operator& op, const ApiTable* table, const KernelInfo* info) : Kernel(op, table, info) {}
  void Run(KernelContext* context) const override;
};

}  // namespace rebnn::ort

#endif  // REBNN_ORT_UPSAMPLE_ADD_KERNEL_H_
