// Memory that begins at a cache line, on every system.
#ifndef REBNN_SRC_MEMORY_H_
#define REBNN_SRC_MEMORY_H_

#include <cstddef>
#include <cstdlib>

#if defined(_WIN32)
#include <malloc.h>
#endif

namespace rebnn {

constexpr size_t kAlignment = 64;

// Of at least `bytes`; null if there is none left. Only FreeAligned may free it.
inline void* AllocateAligned(size_t bytes) {
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
#if defined(_WIN32)
  return _aligned_malloc(rounded, kAlignment);
#else
  return std::aligned_alloc(kAlignment, rounded);
#endif
}

inline void FreeAligned(void* memory) {
#if defined(_WIN32)
  _aligned_free(memory);
#else
  std::free(memory);
#endif
}

}  // namespace rebnn

#endif  // REBNN_SRC_MEMORY_H_
