#include "isa.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "error.h"

namespace rebnn {
namespace {

struct Candidate {
  const Kernels* kernels;
  bool runs_here;
};

// Fastest first.
#if defined(__x86_64__)
constexpr char kNames[] = "avx512, avx2, portable";

int Candidates(Candidate (&list)[3]) {
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vpopcntdq");
  list[0] = {&kAvx512, avx512};
  list[1] = {&kAvx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")};
  list[2] = {&kPortable, true};
  return 3;
}
#elif defined(__aarch64__)
constexpr char kNames[] = "neon, portable";

int Candidates(Candidate (&list)[3]) {
  list[0] = {&kNeon, true};
  list[1] = {&kPortable, true};
  return 2;
}
#else
constexpr char kNames[] = "portable";

int Candidates(Candidate (&list)[3]) {
  list[0] = {&kPortable, true};
  return 1;
}
#endif

}  // namespace

const Kernels* ChosenKernels() {
  // Several threads may choose at the same time; they choose the same.
  static std::atomic<const Kernels*> chosen{nullptr};
  if (const Kernels* known = chosen.load(std::memory_order_relaxed)) return known;
  const char* wanted = std::getenv("REBNN_ISA");
  if (wanted && !*wanted) wanted = nullptr;
  Candidate list[3];
  const int count = Candidates(list);
  for (int i = 0; i < count; ++i) {
    if (wanted ? std::strcmp(wanted, list[i].kernels->name) != 0 : !list[i].runs_here) continue;
    if (!list[i].runs_here) {
      Fail(REBNN_INVALID_ARGUMENT, "REBNN_ISA is '%s', which this processor lacks; unset it.", wanted);
      return nullptr;
    }
    chosen.store(list[i].kernels, std::memory_order_relaxed);
    return list[i].kernels;
  }
  Fail(REBNN_INVALID_ARGUMENT, "REBNN_ISA is '%.32s', which is not one of %s; unset it or choose one of them.", wanted,
       kNames);
  return nullptr;
}

}  // namespace rebnn

const char* rebnn_isa(void) {
  const rebnn::Kernels* kernels = rebnn::ChosenKernels();
  return kernels ? kernels->name : nullptr;
}
