#include "threads.h"

#if defined(__linux__)
#include <sched.h>
#include <unistd.h>
#else
#include <thread>
#endif

#include <algorithm>
#include <cstdio>

namespace rebnn::ort {
#if defined(__linux__)
namespace {

// Processors' worth of time that a control group has, rounded up; `none` where nothing limits it. Version 2 has quota
// and period in one file, version 1 has a file for each.
long GroupQuota(long none) {
  const char* const files[][2] = {{"/sys/fs/cgroup/cpu.max", nullptr},
                                  {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"}};
  for (const auto& [first, second] : files) {
    long quota = 0, period = 0;
    int found = 0;
    if (std::FILE* file = std::fopen(first, "r")) {
      found = std::fscanf(file, second ? "%ld" : "%ld %ld", &quota, &period);
      std::fclose(file);
    }
    if (second && found == 1) {
      if (std::FILE* file = std::fopen(second, "r")) {
        found += std::fscanf(file, "%ld", &period);
        std::fclose(file);
      }
    }
    if (found == 2 && quota > 0 && period > 0) return (quota + period - 1) / period;
  }
  return none;
}

}  // namespace

size_t AllowedProcessors() {
  long count = sysconf(_SC_NPROCESSORS_ONLN);
  cpu_set_t bound;
  // fails on a host with more processors than the set has room for
  if (sched_getaffinity(0, sizeof(bound), &bound) == 0) count = std::min<long>(count, CPU_COUNT(&bound));
  return static_cast<size_t>(std::max(std::min(count, GroupQuota(count)), 1L));
}
#else
size_t AllowedProcessors() { return std::max(std::thread::hardware_concurrency(), 1u); }
#endif

}  // namespace rebnn::ort
