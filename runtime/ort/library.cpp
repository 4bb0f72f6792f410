// What ONNX Runtime calls. No exception leaves this file.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "kernel.h"
#include "operators.h"
#include "ort_abi.h"
#include "rebnn.h"
#include "threads.h"

namespace rebnn::ort {
namespace {

constexpr char kDomain[] = "rebnn";

// The entry of a session's configuration that says how many threads one run has; ONNX Runtime does not tell.
constexpr char kThreadsKey[] = "rebnn.threads";
constexpr size_t kMostThreads = 1024;

struct RegisteredOp {
  CustomOp base;  // first, so that its address is this object's
  Operator op;
};

const Operator& Definition(const CustomOp* op) { return reinterpret_cast<const RegisteredOp*>(op)->op; }

// Runs `work` and turns whatever it throws into a Status.
template <typename Work>
Status* Guarded(const ApiTable* table, Work work) {
  const Api api(table);
  try {
    work();
    return nullptr;
  } catch (const Failure& failure) {
    return api.CreateStatus(failure.code, failure.sentence.c_str());
  } catch (const std::bad_alloc&) {
    return api.CreateStatus(kFail, "A binary layer found no memory for this input.");
  } catch (...) {
    return api.CreateStatus(kFail, "A binary layer failed for an unknown reason.");
  }
}

// The kernel and the table that it must report errors with.
struct Handle {
  const ApiTable* table;
  std::unique_ptr<Kernel> kernel;
};

const char* GetName(const CustomOp* op) { return Definition(op).name; }

const char* GetExecutionProviderType(const CustomOp*) { return nullptr; }

int GetInputType(const CustomOp* op, size_t index) {
  return ElementType(Definition(op).inputs[index].kind);
}

size_t GetInputTypeCount(const CustomOp* op) { return Definition(op).input_count; }

int GetOutputType(const CustomOp*, size_t index) { return index ? kUint8 : kFloat; }

size_t GetOutputTypeCount(const CustomOp* op) { return Definition(op).gives_bits ? 2 : 1; }

int GetInputCharacteristic(const CustomOp*, size_t) { return kRequired; }

int GetOutputCharacteristic(const CustomOp*, size_t index) { return index ? kOptional : kRequired; }

int GetInputMemoryType(const CustomOp*, size_t) { return 0; }

Status* CreateKernel(const CustomOp* op, const ApiTable* table, const KernelInfo* info, void** kernel) {
  return Guarded(table, [&] { *kernel = new Handle{table, MakeKernel(Definition(op), table, info)}; });
}

Status* Compute(void* kernel, KernelContext* context) {
  const auto handle = static_cast<const Handle*>(kernel);
  return Guarded(handle->table, [&] { handle->kernel->Run(context); });
}

void DestroyKernel(void* kernel) { delete static_cast<Handle*>(kernel); }

RegisteredOp Register(const Operator& definition, size_t threads) {
  RegisteredOp op = {};
  op.base.version = kApiVersion;
  op.base.GetName = GetName;
  op.base.GetExecutionProviderType = GetExecutionProviderType;
  op.base.GetInputType = GetInputType;
  op.base.GetInputTypeCount = GetInputTypeCount;
  op.base.GetOutputType = GetOutputType;
  op.base.GetOutputTypeCount = GetOutputTypeCount;
  op.base.KernelDestroy = DestroyKernel;
  op.base.GetInputCharacteristic = GetInputCharacteristic;
  op.base.GetOutputCharacteristic = GetOutputCharacteristic;
  op.base.GetInputMemoryType = GetInputMemoryType;
  op.base.CreateKernelV2 = CreateKernel;
  op.base.KernelComputeV2 = Compute;
  op.op = definition;
  op.op.threads = threads;
  return op;
}

// How many threads a session with these options is planned for.
size_t PlannedThreads(const Api& api, const SessionOptions* options) {
  char text[16] = "";
  size_t size = sizeof(text);
  if (Status* status = api.GetSessionConfigEntry(options, kThreadsKey, text, &size)) {
    api.ReleaseStatus(status);
    if (size <= sizeof(text)) return AllowedProcessors();  // there is no such entry
  }
  char* end = text;
  const unsigned long count = std::strtoul(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end || count < 1 || count > kMostThreads) {
    throw Failure{kInvalidArgument, std::string("The session's entry ") + kThreadsKey +
                                        " must be a whole number from " + "1 to " + std::to_string(kMostThreads) + "."};
  }
  return count;
}

// The domain of one ONNX Runtime, of which a process can hold more than one, for one number of threads.
struct Domain {
  const ApiTable* table;
  size_t threads;
  CustomOpDomain* domain;
  RegisteredOp ops[kOperatorCount];
};

// Sessions keep pointers to the operators, so these and the domains are never freed: a session may outlive the
// destructors of static objects.
class Domains {
 public:
  Status* AddTo(const ApiTable* table, SessionOptions* options) {
    const Api api(table);
    const size_t threads = PlannedThreads(api, options);
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& known : domains_) {
      if (known->table == table && known->threads == threads) return api.AddCustomOpDomain(options, known->domain);
    }
    auto made = std::make_unique<Domain>(Domain{table, threads, nullptr, {}});
    for (size_t i = 0; i < kOperatorCount; ++i) made->ops[i] = Register(kOperators[i], threads);
    domains_.reserve(domains_.size() + 1);  // nothing below throws, so no domain is lost
    if (Status* status = api.CreateCustomOpDomain(kDomain, &made->domain)) return status;
    for (const RegisteredOp& op : made->ops) {
      if (Status* status = api.CustomOpDomain_Add(made->domain, &op.base)) {
        api.ReleaseCustomOpDomain(made->domain);
        return status;
      }
    }
    domains_.push_back(std::move(made));  // only a whole one: the next session is given it as it is
    return api.AddCustomOpDomain(options, domains_.back()->domain);
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Domain>> domains_;
};

}  // namespace
}  // namespace rebnn::ort

#if defined(_WIN32)
#define REBNN_ORT_API __declspec(dllexport)
#else
#define REBNN_ORT_API __attribute__((visibility("default")))
#endif

// The name that ONNX Runtime looks for in a library of operators.
extern "C" REBNN_ORT_API rebnn::ort::Status* RegisterCustomOps(
    rebnn::ort::SessionOptions* options, const rebnn::ort::ApiBase* base) {
  namespace ort = rebnn::ort;
  const ort::ApiTable* table = base->GetApi(ort::kApiVersion);
  if (!table) {
    char text[160];
    std::snprintf(text, sizeof(text), "rebnn_ort needs ONNX Runtime 1.%u or newer, and this is %s.",
                  static_cast<unsigned>(ort::kApiVersion), base->GetVersionString());
    return ort::Api(base->GetApi(1)).CreateStatus(ort::kFail, text);
  }
  if (!rebnn_isa()) return ort::Api(table).CreateStatus(ort::kInvalidArgument, rebnn_last_error());
  ort::Status* failed = nullptr;
  ort::Status* thrown = ort::Guarded(table, [&] {
    static auto& domains = *new ort::Domains;
    failed = domains.AddTo(table, options);
  });
  return thrown ? thrown : failed;
}
