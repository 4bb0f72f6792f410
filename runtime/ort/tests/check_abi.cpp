// Compiles only if ort_abi.h agrees with a real header of ONNX Runtime: every place in the function table, the layout
// of OrtCustomOp, the number of parameters of every function and whether each is a pointer or a value of that size.
//
//     g++ -std=c++17 -Wno-ignored-attributes -fsyntax-only -I runtime/ort -I FOLDER_OF_THE_HEADER check_abi.cpp
#include "onnxruntime_c_api.h"

#include <cstddef>
#include <type_traits>

#include "ort_abi.h"

namespace {

template <typename A, typename B>
constexpr bool kSameKind = (std::is_pointer_v<A> && std::is_pointer_v<B>) || (std::is_void_v<A> && std::is_void_v<B>);

template <typename A, typename B>
constexpr bool SameValue() {
  if constexpr (kSameKind<A, B>) {
    return true;
  } else if constexpr (std::is_void_v<A> || std::is_void_v<B> || std::is_pointer_v<A> || std::is_pointer_v<B>) {
    return false;
  } else {
    return sizeof(A) == sizeof(B) && std::is_floating_point_v<A> == std::is_floating_point_v<B>;
  }
}

template <typename Ours, typename Theirs>
struct SameCall : std::bool_constant<SameValue<Ours, Theirs>()> {};

template <typename R, typename... P, typename S, typename... Q>
struct SameCall<R (*)(P...), S (*)(Q...)> {
  static constexpr bool Compare() {
    if constexpr (sizeof...(P) == sizeof...(Q)) {
      return SameValue<R, S>() && (SameValue<P, Q>() && ...);
    } else {
      return false;
    }
  }
  static constexpr bool value = Compare();
};

template <typename R, typename... P, typename S, typename... Q>
struct SameCall<R (*)(P...), S (*)(Q...) noexcept> : SameCall<R (*)(P...), S (*)(Q...)> {};

namespace ours = rebnn::ort;

#define CHECK_FUNCTION(place, name, result, parameters)                                                \
  static_assert(offsetof(OrtApi, name) == (place) * sizeof(void*), #name " is at another place");      \
  static_assert(SameCall<decltype(ours::Api::name), decltype(OrtApi::name)>::value, #name " is called otherwise");
REBNN_ORT_FUNCTIONS(CHECK_FUNCTION)

#define CHECK_MEMBER(name)                                                                              \
  static_assert(offsetof(ours::CustomOp, name) == offsetof(OrtCustomOp, name), #name " is elsewhere"); \
  static_assert(SameCall<decltype(ours::CustomOp::name), decltype(OrtCustomOp::name)>::value, #name " differs");
CHECK_MEMBER(version)
CHECK_MEMBER(CreateKernel)
CHECK_MEMBER(GetName)
CHECK_MEMBER(GetExecutionProviderType)
CHECK_MEMBER(GetInputType)
CHECK_MEMBER(GetInputTypeCount)
CHECK_MEMBER(GetOutputType)
CHECK_MEMBER(GetOutputTypeCount)
CHECK_MEMBER(KernelCompute)
CHECK_MEMBER(KernelDestroy)
CHECK_MEMBER(GetInputCharacteristic)
CHECK_MEMBER(GetOutputCharacteristic)
CHECK_MEMBER(GetInputMemoryType)
CHECK_MEMBER(GetVariadicInputMinArity)
CHECK_MEMBER(GetVariadicInputHomogeneity)
CHECK_MEMBER(GetVariadicOutputMinArity)
CHECK_MEMBER(GetVariadicOutputHomogeneity)
CHECK_MEMBER(CreateKernelV2)
CHECK_MEMBER(KernelComputeV2)
CHECK_MEMBER(InferOutputShapeFn)
CHECK_MEMBER(GetStartVersion)
CHECK_MEMBER(GetEndVersion)
CHECK_MEMBER(GetMayInplace)
CHECK_MEMBER(ReleaseMayInplace)
CHECK_MEMBER(GetAliasMap)
CHECK_MEMBER(ReleaseAliasMap)
static_assert(sizeof(ours::CustomOp) >= offsetof(OrtCustomOp, ReleaseAliasMap) + sizeof(void*), "it is longer");

static_assert(offsetof(ours::ApiBase, GetApi) == offsetof(OrtApiBase, GetApi), "OrtApiBase differs");
static_assert(offsetof(ours::ApiBase, GetVersionString) == offsetof(OrtApiBase, GetVersionString), "it differs");
static_assert(SameCall<decltype(ours::ApiBase::GetApi), decltype(OrtApiBase::GetApi)>::value, "GetApi differs");

static_assert(ours::kFail == ORT_FAIL && ours::kInvalidArgument == ORT_INVALID_ARGUMENT, "error codes differ");
static_assert(ours::kFloat == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, "element types differ");
static_assert(ours::kUint8 == ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, "element types differ");
static_assert(ours::kInt64 == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, "element types differ");
static_assert(ours::kBool == ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, "element types differ");
static_assert(ours::kRequired == INPUT_OUTPUT_REQUIRED, "characteristics differ");
static_assert(ours::kOptional == INPUT_OUTPUT_OPTIONAL, "characteristics differ");
static_assert(OrtMemTypeDefault == 0, "GetInputMemoryType answers 0");
static_assert(ours::kApiVersion <= ORT_API_VERSION, "this header is older than the interface in use");

}  // namespace
