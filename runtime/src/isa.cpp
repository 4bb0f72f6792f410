#include "isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#include <unistd.h>
#elif defined(__ARM_PCS_VFP) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "error.h"

namespace rebnn {
namespace {

#if defined(__x86_64__)
// Where CPUID says whether a processor has something: in which leaf, and in which bit of which register, EAX to EDX.
struct CpuBit {
  unsigned leaf, subleaf, from, bit;
};
constexpr CpuBit kHasSsse3{1, 0, 2, 9}, kHasFma{1, 0, 2, 12}, kHasXgetbv{1, 0, 2, 27}, kHasAvx2{7, 0, 1, 5},
    kHasAvx512F{7, 0, 1, 16}, kHasAvx512Dq{7, 0, 1, 17}, kHasAvx512Bw{7, 0, 1, 30}, kHasAvx512Vl{7, 0, 1, 31},
    kHasAvx512Vpopcntdq{7, 0, 2, 14}, kHasAvx512Bf16{7, 1, 0, 5};

// Asked of the processor itself, because __builtin_cpu_supports finds nothing in what zig has linked.
bool Has(CpuBit what) {
  unsigned values[4];
  return __get_cpuid_count(what.leaf, what.subleaf, &values[0], &values[1], &values[2], &values[3]) &&
         (values[what.from] >> what.bit & 1);
}

// Whether the system keeps these registers when it switches between programs.
bool Keeps(unsigned registers) {
  if (!Has(kHasXgetbv)) return false;
  unsigned low, high;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & registers) == registers;
}

bool HasAvx2() { return Keeps(0x06) && Has(kHasAvx2) && Has(kHasFma); }

bool HasAvx512() {
  return Keeps(0xe6) && Has(kHasAvx512F) && Has(kHasAvx512Bw) && Has(kHasAvx512Vl) && Has(kHasAvx512Dq);
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
#elif defined(__ARM_PCS_VFP)
bool HasNeon() {
#if defined(__linux__)
  return getauxval(AT_HWCAP) & HWCAP_NEON;
#else
  return false;
#endif
}

bool HasVfpv4() {
#if defined(__linux__)
  return getauxval(AT_HWCAP) & HWCAP_VFPv4;
#else
  return false;
#endif
}
#endif

struct InstructionSet {
  const char* name;
  const Kernels* kernels;
};

#define REBNN_ANY(name, kernels, runs, chosen) {#name, &kernels},
constexpr InstructionSet kSets[] = {
#include "isa_list.h"
};
#undef REBNN_ANY
constexpr int kSetCount = sizeof kSets / sizeof kSets[0];

#define REBNN_ANY(name, kernels, runs, chosen) ", " #name
constexpr char kNames[] = ""
#include "isa_list.h"
    "";
#undef REBNN_ANY

constexpr int kUnknown = -1, kRefused = -2;

// The place in kSets of the one to use in this process.
int Choose() {
  // Several threads may choose at the same time; they choose the same.
  static std::atomic<int> known{kUnknown};
  const int earlier = known.load(std::memory_order_relaxed);
  if (earlier >= 0) return earlier;
  const char* wanted = nullptr;
#if !defined(__wasm__)  // where there is one set, and no environment
  wanted = std::getenv("REBNN_ISA");
  if (wanted && !*wanted) wanted = nullptr;
#endif
#define REBNN_ANY(name, kernels, runs, chosen) {(runs) != 0, (chosen) != 0},
  const struct {
    bool runs, chosen;
  } here[] = {
#include "isa_list.h"
  };
#undef REBNN_ANY
  for (int i = 0; i < kSetCount; ++i) {
    if (wanted ? std::strcmp(wanted, kSets[i].name) != 0 : !(here[i].runs && here[i].chosen)) continue;
    if (!here[i].runs) {
      Fail(REBNN_INVALID_ARGUMENT, "REBNN_ISA is '%s', which this processor lacks; unset it.", wanted);
      return kRefused;
    }
    known.store(i, std::memory_order_relaxed);
    return i;
  }
  Fail(REBNN_INVALID_ARGUMENT, "REBNN_ISA is '%.32s', which is not one of %s; unset it or choose one of them.", wanted,
       rebnn_isas());
  return kRefused;
}

}  // namespace

#if defined(__x86_64__)
bool HasBf16() { return HasAvx512() && Has(kHasAvx512Bf16); }
#endif

bool HasDotProducts() {
#if defined(__APPLE__) && defined(__aarch64__)
  return true;  // every Apple silicon has them
#elif defined(__aarch64__) && defined(__linux__)
  return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
#else
  return false;
#endif
}

const Kernels* ChosenKernels() {
  const int chosen = Choose();
  return chosen < 0 ? nullptr : kSets[chosen].kernels;
}

}  // namespace rebnn

const char* rebnn_isa(void) {
  const int chosen = rebnn::Choose();
  return chosen < 0 ? nullptr : rebnn::kSets[chosen].name;
}

const char* rebnn_isas(void) { return rebnn::kNames + 2; }  // after the first comma
