#include "error.h"

#include <cstdarg>
#include <cstdint>
#include <cstdio>

#include "geometry.h"
#include "memory.h"

namespace {

thread_local char sentence[512] = "";

}  // namespace

namespace rebnn {

rebnn_status Fail(rebnn_status status, const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(sentence, sizeof sentence, format, values);
  va_end(values);
  return status;
}

rebnn_status CheckAligned(const char* name, std::initializer_list<Pointer> pointers) {
  for (const Pointer& pointer : pointers) {
    if (reinterpret_cast<uintptr_t>(pointer.address) % pointer.alignment) {
      return Fail(REBNN_INVALID_ARGUMENT, "%s: %s is not aligned to %zu bytes.", name, pointer.what,
                  pointer.alignment);
    }
  }
  return REBNN_OK;
}

rebnn_status CheckMap(const char* name, int64_t n, int64_t h, int64_t w, int64_t channels, int64_t times) {
  for (int64_t size : {n, h, w, channels}) {
    if (size < 0 || size > kMaxSide) {
      return Fail(REBNN_INVALID_ARGUMENT, "%s: a size is %lld; it must be from 0 to %lld.", name,
                  static_cast<long long>(size), static_cast<long long>(kMaxSide));
    }
  }
  const int64_t real = sizeof(float);
  if (Product({times, n, h, w, channels, real}) < 0) {
    return Fail(REBNN_INVALID_ARGUMENT, "%s: a map of %lld x %lld x %lld x %lld is larger than memory can be.", name,
                static_cast<long long>(n), static_cast<long long>(h), static_cast<long long>(w),
                static_cast<long long>(channels));
  }
  return REBNN_OK;
}

rebnn_status CheckScratch(const char* name, const void* scratch, size_t bytes, size_t needed) {
  if (bytes < needed) {
    return Fail(REBNN_INVALID_ARGUMENT, "%s: scratch has %zu bytes, but this run needs %zu.", name, bytes, needed);
  }
  if (!scratch || reinterpret_cast<uintptr_t>(scratch) % kAlignment) {
    return Fail(REBNN_INVALID_ARGUMENT, "%s: scratch is %s.", name, scratch ? "not aligned to 64 bytes" : "NULL");
  }
  return REBNN_OK;
}

}  // namespace rebnn

const char* rebnn_last_error(void) { return sentence; }
