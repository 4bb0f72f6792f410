// The loops over numbers one by one, of which the compiler makes vectors. Like kernels.h, which says why, all of it is
// in an unnamed namespace.
#ifndef REBNN_SRC_ELEMENTS_KERNEL_H_
#define REBNN_SRC_ELEMENTS_KERNEL_H_

#include <cstring>

#include "elements.h"

namespace rebnn {
namespace {

constexpr float kRounds = 12582912.0f;  // numbers near it have no fraction

// Both give their second operand where one is NaN.
inline float Least(float a, float b) { return a < b ? a : b; }
inline float Most(float a, float b) { return a > b ? a : b; }

// a * b + c, rounded once (without the instruction, but for one case in some hundred millions).
inline float MultiplyAdd(float a, float b, float c) {
#if defined(__FMA__)
  return __builtin_fmaf(a, b, c);
#else
  return static_cast<float>(static_cast<double>(a) * b + c);
#endif
}

// e to the power of x to the last bit as ONNX Runtime computes it: Norbert Juffa's polynomial.
inline float ComputeExp(float x) {
  const float within = Least(Most(x, -103.9720840454f), 88.7762626647950f);
  const float power = MultiplyAdd(within, 1.44269504f, kRounds) - kRounds;
  const float rest = MultiplyAdd(power, -0x1.7f7d1cp-20f, MultiplyAdd(power, -0x1.62e400p-1f, within));
  float sum = 0x1.694000p-10f;
  constexpr float kTerms[] = {0x1.125edcp-7f, 0x1.555b5ap-5f, 0x1.555450p-3f, 0x1.fffff6p-2f, 1.0f, 1.0f};
  for (float term : kTerms) sum = MultiplyAdd(sum, rest, term);
  const int64_t bits = static_cast<int64_t>(static_cast<int32_t>(power) + 1023) << 52;  // of 2 to that power
  double scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return x == x ? static_cast<float>(sum * scale) : x;
}

// To the nearest whole number, and to an even one from the middle, for |low| and |high| of at most 2^21.
inline float RoundBetween(float x, float low, float high) { return (Least(Most(x, low), high) + kRounds) - kRounds; }

inline void Quantize(int64_t count, float unit, const Integers& integers, const float* __restrict x,
                     int16_t* __restrict y) {
  const float low = integers.low, high = integers.high;
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<int16_t>(RoundBetween(x[i] / unit, low, high));
}

inline void Dequantize(int64_t count, float unit, const int16_t* __restrict x, float* __restrict y) {
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(x[i]) * unit;
}

// What a sum of products of whole numbers stands for.
inline float Scale(int32_t sum, int32_t added, float factor) {
  return static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(added))) * factor;
}

inline void ScaleSums(int64_t columns, const Integers& integers, const int32_t* __restrict sums, float* __restrict y) {
  const float *factor = integers.factor, *bias = integers.bias;
  const int32_t* added = integers.added;
  for (int64_t c = 0; c < columns; ++c) y[c] = Scale(sums[c], added[c], factor[c]);
  for (int64_t c = 0; bias && c < columns; ++c) y[c] += bias[c];
}

inline void RoundSums(int64_t columns, const Integers& integers, const int32_t* __restrict sums,
                      int16_t* __restrict y) {
  const float low = integers.low, high = integers.high, *factor = integers.factor;
  const int32_t* added = integers.added;
  for (int64_t c = 0; c < columns; ++c) {
    y[c] = static_cast<int16_t>(RoundBetween(Scale(sums[c], added[c], factor[c]), low, high));
  }
}

inline void ComputeRelu(int64_t count, const float* x, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = x[i] > 0 ? x[i] : x[i] == x[i] ? 0 : x[i];
}

inline void ComputeExps(int64_t count, const float* x, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = ComputeExp(x[i]);
}

inline float ComputeSigmoid(float x) {
  constexpr float kTop[] = {1.15627324459942e-07f, 6.08574864600143e-05f, 8.51377133304701e-03f, 2.48287947061529e-01f};
  constexpr float kBottom[] = {5.76102136993427e-09f, 6.29106785017040e-06f, 1.70198817374094e-03f,
                               1.16817656904453e-01f, 9.93151921023180e-01f};
  const float value = Least(Most(x, -18.0f), 18.0f), square = value * value;
  float top = 4.37031012579801e-11f, bottom = 6.10247389755681e-13f;
  for (float term : kTop) top = MultiplyAdd(top, square, term);
  for (float term : kBottom) bottom = MultiplyAdd(bottom, square, term);
  return Least(Most(top * value / bottom + 0.5f, 0.0f), 1.0f);
}

inline void ComputeSigmoids(int64_t count, const float* x, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = ComputeSigmoid(x[i]);
}

constexpr ElementKernels kElements = {Quantize,    Dequantize,  ScaleSums,      RoundSums,
                                      ComputeRelu, ComputeExps, ComputeSigmoids};

}  // namespace
}  // namespace rebnn

#endif  // REBNN_SRC_ELEMENTS_KERNEL_H_
