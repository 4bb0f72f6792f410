// One alignment of regions of a session.
#ifndef REBNN_ORT_ROI_ALIGN_KERNEL_H_
#define REBNN_ORT_ROI_ALIGN_KERNEL_H_

#include "kernel.h"
#include "rebnn.h"
#include "scratch.h"

namespace rebnn::ort {

class RoiAlignKernel : public Kernel {
 public:
  RoiAlignKernel(const Operator& op, const ApiTable* table, const KernelInfo* info);
  void Run(KernelContext* context) const override;

 private:
  rebnn_roi_align_io settings_ = {};
  ScratchUser scratch_user_;
};

}  // namespace rebnn::ort

#endif  // REBNN_ORT_ROI_ALIGN_KERNEL_H_
