// Counts the allocations of the library in a test that is linked with --wrap for malloc, calloc and aligned_alloc.
#ifndef REBNN_TESTS_ALLOCATIONS_H_
#define REBNN_TESTS_ALLOCATIONS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#if defined(__wasm__)
constexpr bool kCountsAllocations = false;  // zig's linker for it does not know --wrap
#else
constexpr bool kCountsAllocations = true;
#endif

// The linker sends the library's calls here, so that they can be counted.
static std::atomic<int64_t> allocations{0};
extern "C" {
void* __real_malloc(size_t bytes);
void* __real_calloc(size_t count, size_t bytes);
void* __real_aligned_alloc(size_t alignment, size_t bytes);
void* __wrap_malloc(size_t bytes) {
  ++allocations;
  return __real_malloc(bytes);
}
void* __wrap_calloc(size_t count, size_t bytes) {
  ++allocations;
  return __real_calloc(count, bytes);
}
void* __wrap_aligned_alloc(size_t alignment, size_t bytes) {
  ++allocations;
  return __real_aligned_alloc(alignment, bytes);
}
}

#endif  // REBNN_TESTS_ALLOCATIONS_H_
