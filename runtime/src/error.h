// The sentence that rebnn_last_error returns.
#ifndef REBNN_SRC_ERROR_H_
#define REBNN_SRC_ERROR_H_

#include <cstddef>
#include <initializer_list>

#include "rebnn.h"

namespace rebnn {

// Keeps the formatted sentence for this thread and returns the status, so that a check is one line.
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
rebnn_status Fail(rebnn_status status, const char* format, ...);

// One of the caller's pointers.
struct Pointer {
  template <class T>
  Pointer(const char* what, const T* address) : what(what), address(address), alignment(alignof(T)) {}

  const char* what;
  const void* address;
  size_t alignment;
};

// Refuses a pointer that is not aligned as its type has to be; NULL passes.
rebnn_status CheckAligned(const char* name, std::initializer_list<Pointer> pointers);

// Refuses sizes of a map [n, h, w, channels], float32, that no memory holds `times` over.
rebnn_status CheckMap(const char* name, int64_t n, int64_t h, int64_t w, int64_t channels, int64_t times);

// Refuses scratch memory that is NULL, not aligned, or smaller than a run needs.
rebnn_status CheckScratch(const char* name, const void* scratch, size_t bytes, size_t needed);

}  // namespace rebnn

#endif  // REBNN_SRC_ERROR_H_
