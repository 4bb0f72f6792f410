// ONNX Runtime's own threads, as librebnn asks for them.
#ifndef REBNN_ORT_THREADS_H_
#define REBNN_ORT_THREADS_H_

#include "ort_abi.h"
#include "rebnn.h"

namespace rebnn::ort {

// Processors that this process may use: the host's, of these those that it is bound to, and no more than its control
// group has time for.
size_t AllowedProcessors();

class Threads {
 public:
  Threads(const Api& api, const KernelContext* context, size_t count)
      : api_(api), context_(context), parallel_{&Threads::Run, this, count} {}
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  const rebnn_parallel* parallel() const { return parallel_.threads > 1 ? &parallel_ : nullptr; }

  // What went wrong in ONNX Runtime, NULL if nothing did; belongs to the caller.
  Status* status() const { return status_; }

 private:
  static void Run(void* self, size_t tasks, void (*task)(void*, size_t), void* arg) {
    auto threads = static_cast<Threads*>(self);
    if (threads->status_) return;
    threads->status_ = threads->api_.KernelContext_ParallelFor(threads->context_, task, tasks, 0, arg);
  }

  const Api& api_;
  const KernelContext* context_;
  Status* status_ = nullptr;
  rebnn_parallel parallel_;
};

}  // namespace rebnn::ort

#endif  // REBNN_ORT_THREADS_H_
