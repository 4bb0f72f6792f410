// Which taps of a kernel fall inside the image, and what the other templates share.
//
// Like kernels.h, which says why, all of it is in an unnamed namespace.
#ifndef REBNN_SRC_TAPS_H_
#define REBNN_SRC_TAPS_H_

#include "conv.h"

#if defined(__GNUC__)
#define REBNN_INLINE inline __attribute__((always_inline))
#define REBNN_UNROLL _Pragma("GCC unroll 16")
#else
#define REBNN_INLINE inline
#define REBNN_UNROLL
#endif

namespace rebnn {
namespace {

// Taps [first, last) of one axis that fall inside the image.
struct Taps {
  int64_t first, last;
};

REBNN_INLINE int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }
REBNN_INLINE int64_t Larger(int64_t a, int64_t b) { return a < b ? b : a; }

// One axis, vertical (0) or horizontal (1), of a convolution.
struct Axis {
  int64_t size, kernel, stride, dilation, pad;

  Axis(const rebnn_conv_desc& d, int axis, int64_t image)
      : size(image), kernel(d.kernel[axis]), stride(d.stride[axis]), dilation(d.dilation[axis]), pad(d.pad[axis]) {}

  int64_t Start(int64_t out) const { return out * stride - pad; }

  Taps Inside(int64_t out) const {
    const int64_t start = Start(out);
    const int64_t first = start < 0 ? (-start + dilation - 1) / dilation : 0;
    const int64_t last = start < size ? Smaller(kernel, (size - 1 - start) / dilation + 1) : 0;
    return first < last ? Taps{first, last} : Taps{0, 0};
  }

  // The first output position after `out` that has other taps inside than `out`, or `end`.
  int64_t SameUntil(int64_t out, int64_t end, const Taps& taps) const {
    if (taps.first == 0 && taps.last == kernel) {
      return Smaller(end, (size - 1 - (kernel - 1) * dilation + pad) / stride + 1);
    }
    while (++out < end) {
      const Taps other = Inside(out);
      if (other.first != taps.first || other.last != taps.last) break;
    }
    return out;
  }
};

}  // namespace
}  // namespace rebnn

#endif  // REBNN_SRC_TAPS_H_
