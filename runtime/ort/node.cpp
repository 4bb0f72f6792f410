#include "node.h"

#include <cstdarg>
#include <cstdio>

namespace rebnn::ort {
namespace {

// A name from a file, short enough for a sentence.
std::string Shortened(std::string text) {
  constexpr size_t kLongest = 200;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

const char* TypeName(int type) {
  switch (type) {
    case kUint8:
      return "uint8";
    case kInt64:
      return "int64";
    case kBool:
      return "bool";
    default:
      return "float";
  }
}

// Texts are asked for twice: the first call tells the size, which counts the final zero.
template <typename Read>
std::string ReadText(Read read) {
  size_t size = 0;
  if (!read(nullptr, &size) || size == 0) return "";
  std::string text(size, '\0');
  if (!read(text.data(), &size) || size == 0 || size > text.size()) return "";
  text.resize(size - 1);
  return text;
}

}  // namespace

std::string Tensor::Shape() const {
  std::string text = "[";
  for (size_t i = 0; i < rank; ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

Node::Node(const ApiTable* table, const KernelInfo* info, const char* op) : api_(table) {
  std::string name = ReadText(
      [&](char* text, size_t* size) { return Works(api_.KernelInfo_GetNodeName(info, text, size)); });
  if (!name.empty()) {
    title_ = std::string(op) + " '" + Shortened(name) + "'";
    return;
  }
  name = ReadText(
      [&](char* text, size_t* size) { return Works(api_.KernelInfo_GetOutputName(info, 0, text, size)); });
  title_ = std::string(op) + " with output '" + Shortened(name) + "'";
}

void Node::Fail(const char* format, ...) const {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  throw Failure{kInvalidArgument, title_ + ": " + text};
}

bool Node::Works(Status* status) const {
  if (!status) return true;
  api_.ReleaseStatus(status);
  return false;
}

void Node::Check(Status* status, const char* doing) const {
  if (!status) return;
  std::string reason = Shortened(api_.GetErrorMessage(status));
  api_.ReleaseStatus(status);
  throw Failure{kFail, title_ + ": ONNX Runtime failed at " + doing + " (" + reason + ")."};
}

Tensor Node::Read(const Value* value, const char* name, int type) const {
  if (!value) Fail("the input %s is missing.", name);
  TensorInfo* info = nullptr;
  Check(api_.GetTensorTypeAndShape(value, &info), name);
  int actual = 0;
  Tensor tensor = {};
  Status* status = api_.GetTensorElementType(info, &actual);
  if (!status) status = api_.GetDimensionsCount(info, &tensor.rank);
  if (!status && tensor.rank <= Tensor::kMaxRank) status = api_.GetDimensions(info, tensor.dims.data(), tensor.rank);
  api_.ReleaseTensorTypeAndShapeInfo(info);
  Check(status, name);
  if (actual != type) Fail("%s must be of type %s.", name, TypeName(type));
  if (tensor.rank > Tensor::kMaxRank) {
    Fail("%s has %zu dimensions; at most %zu are supported.", name, tensor.rank, Tensor::kMaxRank);
  }
  // The table has no function for data that is only read.
  Check(api_.GetTensorMutableData(const_cast<Value*>(value), &tensor.data), name);
  return tensor;
}

// ONNX Runtime answers alike whether an attribute is absent or of another type, and a default in place of what the
// file says would be a wrong result.
bool Node::Exists(const KernelInfo* info, const char* name) const {
  int64_t integer;
  float real;
  size_t size = 0;
  if (Works(api_.KernelInfoGetAttribute_int64(info, name, &integer))) return true;
  if (Works(api_.KernelInfoGetAttribute_float(info, name, &real))) return true;
  if (Works(api_.KernelInfoGetAttribute_string(info, name, nullptr, &size))) return true;
  if (Works(api_.KernelInfoGetAttributeArray_int64(info, name, nullptr, &size))) return true;
  return Works(api_.KernelInfoGetAttributeArray_float(info, name, nullptr, &size));
}

int64_t Node::Int(const KernelInfo* info, const char* name, const int64_t* fallback) const {
  int64_t value;
  if (Works(api_.KernelInfoGetAttribute_int64(info, name, &value))) return value;
  if (Exists(info, name)) Fail("the attribute %s must be an integer.", name);
  if (!fallback) Fail("the attribute %s is missing.", name);
  return *fallback;
}

int64_t Node::Positive(const KernelInfo* info, const char* name) const {
  const int64_t value = Int(info, name, nullptr);
  if (value < 1 || value >= int64_t{1} << 31) {
    Fail("the attribute %s is %lld; it must be positive and below 2^31.", name, static_cast<long long>(value));
  }
  return value;
}

float Node::Real(const KernelInfo* info, const char* name) const {
  float value;
  if (Works(api_.KernelInfoGetAttribute_float(info, name, &value))) return value;
  if (Exists(info, name)) Fail("the attribute %s must be a real number.", name);
  Fail("the attribute %s is missing.", name);
}

void Node::Ints(const KernelInfo* info, const char* name, int64_t* values, size_t count, int64_t fallback) const {
  // For an attribute of another type the size is 0.
  size_t size = 0;
  if (Works(api_.KernelInfoGetAttributeArray_int64(info, name, nullptr, &size)) && size == count) {
    Check(api_.KernelInfoGetAttributeArray_int64(info, name, values, &size), name);
    return;
  }
  if (Exists(info, name)) Fail("the attribute %s must be a list of %zu integers.", name, count);
  for (size_t i = 0; i < count; ++i) values[i] = fallback;
}

std::string Node::Text(const KernelInfo* info, const char* name, const char* fallback) const {
  size_t size = 0;
  if (Works(api_.KernelInfoGetAttribute_string(info, name, nullptr, &size))) {
    return ReadText(
        [&](char* text, size_t* n) { return Works(api_.KernelInfoGetAttribute_string(info, name, text, n)); });
  }
  if (Exists(info, name)) Fail("the attribute %s must be a text.", name);
  return fallback;
}

rebnn_layout Node::Layout(const KernelInfo* info) const {
  const std::string layout = Text(info, "layout", "NCHW");
  if (layout != "NCHW" && layout != "NHWC") Fail("the attribute layout must be NCHW or NHWC.");
  return layout == "NCHW" ? REBNN_NCHW : REBNN_NHWC;
}

}  // namespace rebnn::ort
