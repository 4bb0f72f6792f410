// Sizes, checks and the order of the work of attention.
#include <algorithm>

#include "attend.h"
#include "conv.h"
#include "error.h"
#include "geometry.h"
#include "isa.h"
#include "memory.h"

namespace rebnn {
namespace {

// Appends a part to the layout; -1 stands for more than memory can hold.
int64_t Append(int64_t* end, int64_t bytes) {
  const int64_t start = *end;
  if (start < 0 || bytes < 0 || bytes > PTRDIFF_MAX - start - static_cast<int64_t>(kAlignment)) {
    *end = -1;
  } else {
    *end = CeilDiv(start + bytes, kAlignment) * static_cast<int64_t>(kAlignment);
  }
  return start;
}

// Tasks of a run: each computes its share of the heads of all texts, one after the other in the same scratch memory.
int64_t Tasks(const rebnn_attention_io& io, size_t threads) {
  const int64_t heads = Product({io.batch, io.heads});
  return heads < 0 ? -1 : static_cast<int64_t>(std::min(threads ? threads : 1, static_cast<size_t>(heads)));
}

rebnn_status Prepare(const char* function, const Kernels& kernels, const rebnn_attention_io& io, size_t threads,
                     Attention* run, int64_t* bytes) {
  const struct {
    const char* what;
    int64_t value, least, most;
  } fields[] = {
      {"batch", io.batch, 0, kMaxSide},
      {"length", io.length, 1, kMaxTerms},
      {"heads", io.heads, 1, kMaxSide},
      {"head_size", io.head_size, 1, kMaxTerms},
  };
  for (const auto& field : fields) {
    if (field.value < field.least || field.value > field.most) {
      return Fail(REBNN_INVALID_ARGUMENT, "%s: %s is %lld; it must be from %lld to %lld.", function, field.what,
                  static_cast<long long>(field.value), static_cast<long long>(field.least),
                  static_cast<long long>(field.most));
    }
  }
  const int64_t word = kernels.word_bytes, lanes = kernels.block_lanes;
  const int64_t length_lanes = CeilDiv(io.length, lanes) * lanes, size_lanes = CeilDiv(io.head_size, lanes) * lanes;
  run->io = &io;
  run->size_bytes = CeilDiv(io.head_size, 8 * word) * word;
  run->length_bytes = CeilDiv(io.length, 8 * word) * word;
  AttentionParts& parts = run->parts;
  int64_t end = 0;
  parts.q = Append(&end, Product({io.length, run->size_bytes}));
  parts.k = Append(&end, Product({io.length, run->size_bytes}));
  parts.v = Append(&end, Product({io.head_size, run->length_bytes}));
  parts.keys = Append(&end, Product({length_lanes, run->size_bytes}));
  parts.values = Append(&end, Product({size_lanes, run->length_bytes}));
  parts.attended = Append(&end, Product({io.length, run->length_bytes}));
  parts.hidden = Append(&end, run->length_bytes);
  parts.sums = Append(&end, Product({io.head_size, static_cast<int64_t>(sizeof(int32_t))}));
  parts.bytes = end;
  const int64_t real = sizeof(float);
  const int64_t output = Product({io.batch, io.length, io.heads, io.head_size, real});
  const int64_t tasks = Tasks(io, threads);
  *bytes = end < 0 || tasks < 0 ? -1 : Product({tasks, end});
  if (output < 0 || *bytes < 0) {
    return Fail(REBNN_INVALID_ARGUMENT,
                "%s: %lld texts of %lld positions and %lld heads of %lld channels are more than memory can hold.",
                function, static_cast<long long>(io.batch), static_cast<long long>(io.length),
                static_cast<long long>(io.heads), static_cast<long long>(io.head_size));
  }
  return REBNN_OK;
}

rebnn_status CheckPointers(const char* function, const rebnn_attention_io& io) {
  const struct {
    const char* what;
    const void* pointer;
  } fields[] = {{"q", io.q}, {"k", io.k}, {"v", io.v}, {"y", io.y}};
  for (const auto& field : fields) {
    if (!field.pointer) return Fail(REBNN_INVALID_ARGUMENT, "%s: %s is NULL.", function, field.what);
  }
  if (io.tie != 0 && io.tie != 1) {
    return Fail(REBNN_INVALID_ARGUMENT, "%s: tie is %d; it must be 0 or 1.", function, static_cast<int>(io.tie));
  }
  return CheckAligned(function, {{"q", io.q}, {"k", io.k}, {"v", io.v}, {"y", io.y}});
}

struct Job {
  const Kernels* kernels;
  Attention run;
  uint8_t* scratch;
  int64_t tasks;
};

void HeadsTask(void* arg, size_t i) {
  const Job& job = *static_cast<const Job*>(arg);
  const auto task = static_cast<int64_t>(i);
  const int64_t heads = job.run.io->heads, all = job.run.io->batch * heads;
  for (int64_t head = all * task / job.tasks; head < all * (task + 1) / job.tasks; ++head) {
    job.kernels->attend(job.run, head / heads, head % heads, job.scratch + task * job.run.parts.bytes);
  }
}

}  // namespace
}  // namespace rebnn

rebnn_status rebnn_attention_scratch_size(const rebnn_attention_io* io, size_t threads, size_t* bytes) {
  const auto name = "rebnn_attention_scratch_size";
  if (!io || !bytes) return rebnn::Fail(REBNN_INVALID_ARGUMENT, "%s: an argument is NULL.", name);
  const rebnn::Kernels* kernels = rebnn::ChosenKernels();
  if (!kernels) return REBNN_INVALID_ARGUMENT;
  rebnn::Attention run = {};
  int64_t needed = 0;
  if (rebnn_status status = rebnn::Prepare(name, *kernels, *io, threads, &run, &needed)) return status;
  *bytes = static_cast<size_t>(needed);
  return REBNN_OK;
}

rebnn_status rebnn_attention_run(const rebnn_attention_io* io, void* scratch, size_t scratch_bytes,
                                 const rebnn_parallel* parallel) {
  const auto name = "rebnn_attention_run";
  if (!io) return rebnn::Fail(REBNN_INVALID_ARGUMENT, "%s: io is NULL.", name);
  if (parallel && !parallel->run)
    return rebnn::Fail(REBNN_INVALID_ARGUMENT, "%s: parallel has no run function.", name);
  const rebnn::Kernels* kernels = rebnn::ChosenKernels();
  if (!kernels) return REBNN_INVALID_ARGUMENT;
  const size_t threads = parallel ? parallel->threads : 1;
  rebnn::Job job = {kernels, {}, static_cast<uint8_t*>(scratch), 0};
  int64_t needed = 0;
  if (rebnn_status status = rebnn::Prepare(name, *kernels, *io, threads, &job.run, &needed)) return status;
  if (io->batch == 0) return REBNN_OK;
  job.tasks = rebnn::Tasks(*io, threads);
  if (rebnn_status status = rebnn::CheckPointers(name, *io)) return status;
  if (rebnn_status status = rebnn::CheckScratch(name, scratch, scratch_bytes, static_cast<size_t>(needed))) {
    return status;
  }
  if (job.tasks > 1) {
    parallel->run(parallel->pool, static_cast<size_t>(job.tasks), rebnn::HeadsTask, &job);
  } else {
    rebnn::HeadsTask(&job, 0);
  }
  return REBNN_OK;
}
