#include "kernel.h"

#include <cstring>

#include "attention_kernel.h"
#include "average_pool_kernel.h"
#include "conv_kernel.h"
#include "embedding_kernel.h"
#include "roi_align_kernel.h"
#include "stem_kernel.h"
#include "upsample_add_kernel.h"

namespace rebnn::ort {

Tensor Kernel::Take(KernelContext* context, size_t index) const {
  const Value* value = nullptr;
  node_.Check(node_.api().KernelContext_GetInput(context, index, &value), op_.inputs[index].name);
  return node_.Read(value, op_.inputs[index].name, ElementType(op_.inputs[index].kind));
}

void* Kernel::Output(KernelContext* context, size_t index, const Tensor& shape) const {
  size_t count = 0;
  node_.Check(node_.api().KernelContext_GetOutputCount(context, &count), "counting outputs");
  if (index >= count) return nullptr;
  Value* value = nullptr;
  node_.Check(node_.api().KernelContext_GetOutput(context, index, shape.dims.data(), shape.rank, &value),
              "making an output");
  if (!value) return nullptr;
  void* data = nullptr;
  node_.Check(node_.api().GetTensorMutableData(value, &data), "making an output");
  return data;
}

Tensor Kernel::Constant(const KernelInfo* info, size_t index) const {
  Tensor tensor = {};
  if (!IsConstant(info, index, &tensor)) {
    node_.Fail("%s must be an initializer of the graph, not a result or an input.", op_.inputs[index].name);
  }
  return tensor;
}

bool Kernel::IsConstant(const KernelInfo* info, size_t index, Tensor* tensor) const {
  const char* name = op_.inputs[index].name;
  int is_constant = 0;
  const Value* value = nullptr;
  node_.Check(node_.api().KernelInfoGetConstantInput_tensor(info, index, &is_constant, &value), name);
  if (!is_constant || !value) return false;
  *tensor = node_.Read(value, name, ElementType(op_.inputs[index].kind));
  return true;
}

void Kernel::Check(rebnn_status status) const {
  if (status == REBNN_OK) return;
  // "function: sentence"; the node is the better beginning.
  const char* sentence = rebnn_last_error();
  const char* colon = std::strstr(sentence, ": ");
  node_.Fail("%s", colon ? colon + 2 : sentence);
}

std::unique_ptr<Kernel> MakeKernel(const Operator& op, const ApiTable* table, const KernelInfo* info) {
  switch (op.work) {
    case Work::kEmbedding:
      return std::make_unique<EmbeddingKernel>(op, table, info);
    case Work::kAttention:
      return std::make_unique<AttentionKernel>(op, table, info);
    case Work::kStem:
      return std::make_unique<StemKernel>(op, table, info);
    case Work::kAveragePool:
      return std::make_unique<AveragePoolKernel>(op, table, info);
    case Work::kRoiAlign:
      return std::make_unique<RoiAlignKernel>(op, table, info);
    case Work::kUpsampleAdd:
      return std::make_unique<UpsampleAddKernel>(op, table, info);
    default:
      return std::make_unique<ConvKernel>(op, table, info);
  }
}

}  // namespace rebnn::ort
