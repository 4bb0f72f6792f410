// The part of ONNX Runtime's C interface that the operators use, declared from its documentation: the packages that
// people install (PyPI's) bring no header. The interface is append-only: a function keeps its place in the table for
// ever, so the places below hold for every ONNX Runtime from 1.17 on. tests/check_abi.cpp compares all of this with a
// real header.
#ifndef REBNN_ORT_ORT_ABI_H_
#define REBNN_ORT_ORT_ABI_H_

#include <cstddef>
#include <cstdint>

namespace rebnn::ort {

// The newest function below came with this version. Asking for a later one would shut out older runtimes.
constexpr uint32_t kApiVersion = 17;

struct Status;
struct CustomOp;
struct SessionOptions;
struct CustomOpDomain;
struct KernelInfo;
struct KernelContext;
struct ShapeInferContext;
struct Value;
struct TensorInfo;
struct ApiTable;

// Of OrtErrorCode, ONNXTensorElementDataType and OrtCustomOpInputOutputCharacteristic.
constexpr int kFail = 1, kInvalidArgument = 2;
constexpr int kFloat = 1, kUint8 = 2, kInt64 = 7, kBool = 9;
constexpr int kRequired = 0, kOptional = 1;

// F(place in the table, name, result, parameters). A function that returns a Status returns NULL if all went well.
#define REBNN_ORT_FUNCTIONS(F)                                                                                        \
  F(0, CreateStatus, Status*, (int code, const char* message))                                                        \
  F(2, GetErrorMessage, const char*, (const Status* status))                                                          \
  F(26, CreateCustomOpDomain, Status*, (const char* name, CustomOpDomain** domain))                                   \
  F(27, CustomOpDomain_Add, Status*, (CustomOpDomain * domain, const CustomOp* op))                                   \
  F(28, AddCustomOpDomain, Status*, (SessionOptions * options, CustomOpDomain * domain))                              \
  F(51, GetTensorMutableData, Status*, (Value * value, void** data))                                                  \
  F(60, GetTensorElementType, Status*, (const TensorInfo* info, int* type))                                           \
  F(61, GetDimensionsCount, Status*, (const TensorInfo* info, size_t* count))                                         \
  F(62, GetDimensions, Status*, (const TensorInfo* info, int64_t* dims, size_t count))                                \
  F(65, GetTensorTypeAndShape, Status*, (const Value* value, TensorInfo** info))                                      \
  F(85, KernelInfoGetAttribute_float, Status*, (const KernelInfo* info, const char* name, float* value))              \
  F(86, KernelInfoGetAttribute_int64, Status*, (const KernelInfo* info, const char* name, int64_t* value))            \
  F(87, KernelInfoGetAttribute_string, Status*, (const KernelInfo* info, const char* name, char* text, size_t* size)) \
  F(89, KernelContext_GetOutputCount, Status*, (const KernelContext* context, size_t* count))                         \
  F(90, KernelContext_GetInput, Status*, (const KernelContext* context, size_t index, const Value** value))           \
  F(91, KernelContext_GetOutput, Status*,                                                                             \
    (KernelContext * context, size_t index, const int64_t* dims, size_t count, Value** value))                        \
  F(93, ReleaseStatus, void, (Status * status))                                                                       \
  F(99, ReleaseTensorTypeAndShapeInfo, void, (TensorInfo * info))                                                     \
  F(101, ReleaseCustomOpDomain, void, (CustomOpDomain * domain))                                                      \
  F(162, KernelInfoGetAttributeArray_float, Status*,                                                                  \
    (const KernelInfo* info, const char* name, float* values, size_t* count))                                         \
  F(163, KernelInfoGetAttributeArray_int64, Status*,                                                                  \
    (const KernelInfo* info, const char* name, int64_t* values, size_t* count))                                       \
  F(233, KernelInfo_GetOutputName, Status*, (const KernelInfo* info, size_t index, char* text, size_t* size))         \
  F(238, GetSessionConfigEntry, Status*,                                                                              \
    (const SessionOptions* options, const char* key, char* value, size_t* size))                                      \
  F(244, KernelInfo_GetNodeName, Status*, (const KernelInfo* info, char* text, size_t* size))                         \
  F(249, KernelInfoGetConstantInput_tensor, Status*,                                                                  \
    (const KernelInfo* info, size_t index, int* is_constant, const Value** value))                                    \
  F(274, KernelContext_ParallelFor, Status*,                                                                          \
    (const KernelContext* context, void (*task)(void*, size_t), size_t tasks, size_t batches, void* arg))

// How an operator describes itself. The members from CreateKernelV2 on came with 1.16 and later; a member is read only
// by a runtime that knows it and only if `version` is that high.
struct CustomOp {
  uint32_t version;
  void* (*CreateKernel)(const CustomOp* op, const ApiTable* api, const KernelInfo* info);
  const char* (*GetName)(const CustomOp* op);
  const char* (*GetExecutionProviderType)(const CustomOp* op);
  int (*GetInputType)(const CustomOp* op, size_t index);
  size_t (*GetInputTypeCount)(const CustomOp* op);
  int (*GetOutputType)(const CustomOp* op, size_t index);
  size_t (*GetOutputTypeCount)(const CustomOp* op);
  void (*KernelCompute)(void* kernel, KernelContext* context);
  void (*KernelDestroy)(void* kernel);
  int (*GetInputCharacteristic)(const CustomOp* op, size_t index);
  int (*GetOutputCharacteristic)(const CustomOp* op, size_t index);
  int (*GetInputMemoryType)(const CustomOp* op, size_t index);
  int (*GetVariadicInputMinArity)(const CustomOp* op);
  int (*GetVariadicInputHomogeneity)(const CustomOp* op);
  int (*GetVariadicOutputMinArity)(const CustomOp* op);
  int (*GetVariadicOutputHomogeneity)(const CustomOp* op);
  Status* (*CreateKernelV2)(const CustomOp* op, const ApiTable* api, const KernelInfo* info, void** kernel);
  Status* (*KernelComputeV2)(void* kernel, KernelContext* context);
  Status* (*InferOutputShapeFn)(const CustomOp* op, ShapeInferContext* context);
  int (*GetStartVersion)(const CustomOp* op);
  int (*GetEndVersion)(const CustomOp* op);
  size_t (*GetMayInplace)(int** input_index, int** output_index);
  void (*ReleaseMayInplace)(int* input_index, int* output_index);
  size_t (*GetAliasMap)(int** input_index, int** output_index);
  void (*ReleaseAliasMap)(int* input_index, int* output_index);
};

struct ApiBase {
  const ApiTable* (*GetApi)(uint32_t version);
  const char* (*GetVersionString)();
};

// The functions, taken out of the runtime's table.
struct Api {
#define REBNN_ORT_MEMBER(place, name, result, parameters) result(*name) parameters;
  REBNN_ORT_FUNCTIONS(REBNN_ORT_MEMBER)
#undef REBNN_ORT_MEMBER

  explicit Api(const ApiTable* table) {
    using Function = void (*)();
    auto functions = reinterpret_cast<const Function*>(table);
#define REBNN_ORT_LOAD(place, name, result, parameters) \
  name = reinterpret_cast<result(*) parameters>(functions[place]);
    REBNN_ORT_FUNCTIONS(REBNN_ORT_LOAD)
#undef REBNN_ORT_LOAD
  }
};

}  // namespace rebnn::ort

#endif  // REBNN_ORT_ORT_ABI_H_
