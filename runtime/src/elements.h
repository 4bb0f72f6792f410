// Numbers one by one: what the instruction sets offer. All of it gives the same bits everywhere.
#ifndef REBNN_SRC_ELEMENTS_H_
#define REBNN_SRC_ELEMENTS_H_

#include <cstdint>

namespace rebnn {

// What becomes of the sums of an int8 layer.
struct Integers {
  const float* factor;   // [columns], NULL for a product of reals
  const int32_t* added;  // [columns], before the factor
  const float* bias;     // [columns] or NULL, after it
  float low, high;       // between which a convolution rounds to whole numbers
};

struct ElementKernels {
  // Whole numbers x / unit between integers.low and high, and back.
  void (*quantize)(int64_t count, float unit, const Integers& integers, const float* x, int16_t* y);
  void (*dequantize)(int64_t count, float unit, const int16_t* x, float* y);
  // The sums of a row as real numbers, and as whole numbers between integers.low and high.
  void (*scale)(int64_t columns, const Integers& integers, const int32_t* sums, float* y);
  void (*round)(int64_t columns, const Integers& integers, const int32_t* sums, int16_t* y);
  void (*relu)(int64_t count, const float* x, float* y);
  // To the last bit as ONNX Runtime has them.
  void (*exp)(int64_t count, const float* x, float* y);
  void (*sigmoid)(int64_t count, const float* x, float* y);
};

extern const ElementKernels kPortableElements;
#if defined(__x86_64__)
extern const ElementKernels kAvx2Elements;
#endif

}  // namespace rebnn

#endif  // REBNN_SRC_ELEMENTS_H_
