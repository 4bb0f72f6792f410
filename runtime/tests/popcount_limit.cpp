#include "popcount_limit.h"

#if defined(__x86_64__)

#include <time.h>

#include <algorithm>
#include <cstring>

namespace {

constexpr int kPasses = 400000;
constexpr int kMeasurements = 40;

double Seconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Of a tenth of the measurements, because the clock of a thread that is interrupted may be late.
double Fastest(void (*count)(int passes)) {
  double times[kMeasurements];
  for (double& time : times) {
    const double start = Seconds();
    count(kPasses);
    time = Seconds() - start;
  }
  std::sort(times, times + kMeasurements);
  return times[kMeasurements / 10];
}

// In assembly, because a compiler may move such sums to memory or leave them out. What the registers hold is all one.
#define REPEATED ".irp count,0,1,2,3,4,5,6,7,8,9\n"
#define CLOBBERED                                                                                                    \
  "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", \
      "xmm13", "xmm14", "xmm15"
constexpr double kRepeated = 10;

void CountAvx512(int passes) {
  __asm__ volatile(
      "1:\n" REPEATED
      "vpxord %%zmm10, %%zmm11, %%zmm15\n"
      "vpopcntd %%zmm15, %%zmm15\n"
      "vpaddd %%zmm15, %%zmm\\count, %%zmm\\count\n"
      ".endr\n"
      "dec %0\n"
      "jnz 1b\n"
      "vzeroupper\n"
      : "+r"(passes)
      :
      : CLOBBERED);
}

void CountAvx512Bw(int passes) {
  __asm__ volatile(
      "1:\n" REPEATED
      "vpshufb %%zmm10, %%zmm11, %%zmm14\n"
      "vpshufb %%zmm12, %%zmm13, %%zmm15\n"
      "vpaddb %%zmm14, %%zmm15, %%zmm15\n"
      "vpaddb %%zmm15, %%zmm\\count, %%zmm\\count\n"
      ".endr\n"
      "dec %0\n"
      "jnz 1b\n"
      "vzeroupper\n"
      : "+r"(passes)
      :
      : CLOBBERED);
}

void CountAvx2(int passes) {
  __asm__ volatile(
      "1:\n" REPEATED
      "vpshufb %%ymm10, %%ymm11, %%ymm14\n"
      "vpshufb %%ymm12, %%ymm13, %%ymm15\n"
      "vpaddb %%ymm14, %%ymm15, %%ymm15\n"
      "vpaddb %%ymm15, %%ymm\\count, %%ymm\\count\n"
      ".endr\n"
      "dec %0\n"
      "jnz 1b\n"
      "vzeroupper\n"
      : "+r"(passes)
      :
      : CLOBBERED);
}

void CountSsse3(int passes) {
  __asm__ volatile(
      "1:\n" REPEATED
      "movdqa %%xmm10, %%xmm14\n"
      "movdqa %%xmm11, %%xmm15\n"
      "pshufb %%xmm12, %%xmm14\n"
      "pshufb %%xmm13, %%xmm15\n"
      "paddb %%xmm14, %%xmm15\n"
      "paddb %%xmm15, %%xmm\\count\n"
      ".endr\n"
      "dec %0\n"
      "jnz 1b\n"
      : "+r"(passes)
      :
      : CLOBBERED);
}

}  // namespace

double PopcountLimit(const char* isa) {
  if (!std::strcmp(isa, "avx512")) return kPasses * kRepeated * 512 / Fastest(CountAvx512);
  if (!std::strcmp(isa, "avx512bw")) return kPasses * kRepeated * 512 / Fastest(CountAvx512Bw);
  if (!std::strcmp(isa, "ssse3")) return kPasses * kRepeated * 128 / Fastest(CountSsse3);
  if (!std::strcmp(isa, "avx2")) return kPasses * kRepeated * 256 / Fastest(CountAvx2);
  return 0;
}

#else

double PopcountLimit(const char*) { return 0; }

#endif
