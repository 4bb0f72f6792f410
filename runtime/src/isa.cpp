#include "isa.h"

#if defined(__aarch64__) && defined(__linux__)
#include <unistd.h>
#endif

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "error.h"

namespace rebnn {
namespace {

struct Candidate {
  const Kernels* kernels;
  bool runs_here;
};

constexpr int kMostCandidates = 5;

// Fastest first.
#if defined(__x86_64__)
constexpr char kNames[] = "avx512, avx512bw, avx2, ssse3, portable";

int Candidates(Candidate (&list)[kMostCandidates]) {
  const bool avx512bw = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  list[0] = {&kAvx512, avx512bw && __builtin_cpu_supports("avx512vpopcntdq")};
  list[1] = {&kAvx512Bw, avx512bw};
  list[2] = {&kAvx2, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")};
  list[3] = {&kSsse3, __builtin_cpu_supports("ssse3") != 0};
  list[4] = {&kPortable, true};
  return 5;
}
#elif defined(__aarch64__)
// Whether a processor of this machine is a Cortex-A53 or A55, which run instructions in order, by the main
// identification register that Linux shows of those that are switched on.
bool HasCoreInOrder() {
#if defined(__linux__)
  constexpr unsigned long kMask = 0xff00fff0;  // implementer and part, any revision
  constexpr unsigned long kCortexA53 = 0x4100d030, kCortexA55 = 0x4100d050;
  const long count = sysconf(_SC_NPROCESSORS_CONF);
  for (long core = 0; core < count; ++core) {
    char path[96], text[32];
    std::snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%ld/regs/identification/midr_el1", core);
    std::FILE* file = std::fopen(path, "re");
    if (!file) continue;
    const bool read = std::fgets(text, sizeof text, file) != nullptr;
    std::fclose(file);
    if (!read) continue;
    const unsigned long core_kind = std::strtoul(text, nullptr, 16) & kMask;
    if (core_kind == kCortexA53 || core_kind == kCortexA55) return true;
  }
#endif
  return false;
}

constexpr char kNames[] = "neon, neon_a55, portable";

// Both are right everywhere; one is chosen for the slowest core that the process may meet, because a system moves it
// from core to core.
int Candidates(Candidate (&list)[kMostCandidates]) {
  const bool in_order = HasCoreInOrder();
  list[0] = {in_order ? &kNeonA55 : &kNeon, true};
  list[1] = {in_order ? &kNeon : &kNeonA55, true};
  list[2] = {&kPortable, true};
  return 3;
}
#else
constexpr char kNames[] = "portable";

int Candidates(Candidate (&list)[kMostCandidates]) {
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
  Candidate list[kMostCandidates];
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
