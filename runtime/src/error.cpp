#include "error.h"

#include <cstdarg>
#include <cstdint>
#include <cstdio>

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
