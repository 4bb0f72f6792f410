// One packed embedding of a session.
#ifndef REBNN_ORT_EMBEDDING_KERNEL_H_
#define REBNN_ORT_EMBEDDING_KERNEL_H_

#include "kernel.h"

namespace rebnn::ort {

class EmbeddingKernel : public Kernel {
 public:
  EmbeddingKernel(const Operator& op, const ApiTable* table, const KernelInfo* info);
  void Run(KernelContext* context) const override;

 private:
  int64_t channels_ = 0;
};

}  // namespace rebnn::ort

#endif  // REBNN_ORT_EMBEDDING_KERNEL_H_
