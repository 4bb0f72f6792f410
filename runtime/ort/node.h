// One node of a graph as its kernel sees it: name, attributes, constant inputs. Every answer comes from a file that
// nobody vouches for.
#ifndef REBNN_ORT_NODE_H_
#define REBNN_ORT_NODE_H_

#include <array>
#include <string>

#include "ort_abi.h"
#include "rebnn.h"

namespace rebnn::ort {

// Thrown inside the library only; becomes a Status where a call enters from ONNX Runtime.
struct Failure {
  int code;
  std::string sentence;
};

// A tensor of at most kMaxRank dimensions.
struct Tensor {
  static constexpr size_t kMaxRank = 8;
  void* data;
  size_t rank;
  std::array<int64_t, kMaxRank> dims;

  std::string Shape() const;
};

class Node {
 public:
  Node(const ApiTable* table, const KernelInfo* info, const char* op);

  const Api& api() const { return api_; }

  // Throws a sentence that begins with the operator and the node's name.
  [[noreturn]] __attribute__((format(printf, 2, 3))) void Fail(const char* format, ...) const;

  // Throws if a call into ONNX Runtime went wrong.
  void Check(Status* status, const char* doing) const;

  // Reads a tensor whose element type must be `type`; `name` is for the sentence.
  Tensor Read(const Value* value, const char* name, int type) const;

  // The four kinds of attribute in use. `fallback` NULL: the attribute must be there.
  int64_t Int(const KernelInfo* info, const char* name, const int64_t* fallback) const;
  // One that must be there and be from 1 to 2^31 - 1.
  int64_t Positive(const KernelInfo* info, const char* name) const;
  // One that must be there.
  float Real(const KernelInfo* info, const char* name) const;
  void Ints(const KernelInfo* info, const char* name, int64_t* values, size_t count, int64_t fallback) const;
  std::string Text(const KernelInfo* info, const char* name, const char* fallback) const;
  // The attribute layout, NCHW if it is left out.
  rebnn_layout Layout(const KernelInfo* info) const;

 private:
  bool Exists(const KernelInfo* info, const char* name) const;
  // Whether a call gave no error; an error is dropped.
  bool Works(Status* status) const;

  Api api_;
  std::string title_;
};

}  // namespace rebnn::ort

#endif  // REBNN_ORT_NODE_H_
