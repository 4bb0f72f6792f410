// What every kernel of the domain is: one node of a session.
#ifndef REBNN_ORT_KERNEL_H_
#define REBNN_ORT_KERNEL_H_

#include <memory>

#include "node.h"
#include "operators.h"

namespace rebnn::ort {

class Kernel {
 public:
  virtual ~Kernel() = default;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  // Runs once; several threads may do so at the same time. Throws Failure.
  virtual void Run(KernelContext* context) const = 0;

 protected:
  Kernel(const Operator& op, const ApiTable* table, const KernelInfo* info) : op_(op), node_(table, info, op.name) {}

  // An input of this run; its element type must be that of its kind.
  Tensor Take(KernelContext* context, size_t index) const;
  // Memory of an output of this shape; NULL if nobody wants it.
  void* Output(KernelContext* context, size_t index, const Tensor& shape) const;
  // An input that must be an initializer of the graph.
  Tensor Constant(const KernelInfo* info, size_t index) const;
  // Whether it is one, which `tensor` becomes then.
  bool IsConstant(const KernelInfo* info, size_t index, Tensor* tensor) const;
  // Throws what librebnn said.
  void Check(rebnn_status status) const;

  const Operator& op_;
  Node node_;
};

// The kernel of a node. Reads attributes and weights. Throws Failure.
std::unique_ptr<Kernel> MakeKernel(const Operator& op, const ApiTable* table, const KernelInfo* info);

}  // namespace rebnn::ort

#endif  // REBNN_ORT_KERNEL_H_
