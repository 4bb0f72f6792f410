// ONNX Runtime's own threads, as librebnn asks for them.
#ifndef REBNN_ORT_THREADS_H_
#define REBNN_ORT_THREADS_H_

#include <unistd.h>

#include "ort_abi.h"
#include "rebnn.h"

namespace rebnn::ort {

class Threads {
 public:
  Threads(const Api& api, const KernelContext* context)
      : api_(api), context_(context), parallel_{&Threads::Run, this, count()} {}
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  size_t count() const {
    static const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors > 1 ? static_cast<size_t>(processors) : 1;
  }

  const rebnn_parallel* parallel() const { return count() > 1 ? &parallel_ : nullptr; }

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
