// The compiler's vectors of float32, for templates that are compiled for every instruction set. Like kernels.h, which
// says why, all of it is in an unnamed namespace.
#ifndef REBNN_SRC_VECTORS_H_
#define REBNN_SRC_VECTORS_H_

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "taps.h"

namespace rebnn {
namespace {

// Numbers of a register.
template <int kLanes>
struct RealVectors {
  typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));

  // In memory they may lie anywhere. GCC moves them through integer registers if memcpy is used.
  typedef Floats FloatsInMemory __attribute__((aligned(alignof(float)), may_alias));

  static REBNN_INLINE Floats Load(const float* from) { return *reinterpret_cast<const FloatsInMemory*>(from); }

  static REBNN_INLINE void Store(float* to, Floats value) { *reinterpret_cast<FloatsInMemory*>(to) = value; }

  static REBNN_INLINE Floats Largest(Floats a, Floats b) {
#if defined(__aarch64__)
    if constexpr (kLanes == 4) return (Floats)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
#endif
    return a > b ? a : b;
  }
};

}  // namespace
}  // namespace rebnn

#endif  // REBNN_SRC_VECTORS_H_
