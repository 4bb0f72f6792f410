#include "real_operators.h"

#include <algorithm>
#include <cstring>

namespace rebnn {
namespace {

// a * b + c, rounded once (but for one case in some hundred millions) on every processor.
float MultiplyAdd(float a, float b, float c) { return static_cast<float>(static_cast<double>(a) * b + c); }

// e to the power of x, x <= 0, to the last bit as ONNX Runtime computes it: Norbert Juffa's polynomial.
float Exp(float x) {
  if (x != x) return x;
  x = std::max(x, -103.9720840454f);
  constexpr float kRounds = 12582912.0f;  // numbers near it have no fraction
  const float power = MultiplyAdd(x, 1.44269504f, kRounds) - kRounds;
  const float rest = MultiplyAdd(power, -0x1.7f7d1cp-20f, MultiplyAdd(power, -0x1.62e400p-1f, x));
  float sum = 0x1.694000p-10f;
  for (float term : {0x1.125edcp-7f, 0x1.555b5ap-5f, 0x1.555450p-3f, 0x1.fffff6p-2f, 1.0f, 1.0f}) {
    sum = MultiplyAdd(sum, rest, term);
  }
  const uint64_t bits = static_cast<uint64_t>(static_cast<int64_t>(power) + 1023) << 52;  // of 2 to that power
  double scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return static_cast<float>(sum * scale);
}

}  // namespace

void SetPlaces(const Windows& windows, int64_t* places) {
  const int64_t h = windows.Padded(0), w = windows.Padded(1);
  for (int64_t c = 0; c < windows.channels; ++c) {
    for (int64_t i = 0; i < windows.kernel[0]; ++i) {
      for (int64_t j = 0; j < windows.kernel[1]; ++j) {
        *places++ = (c * h + i * windows.dilation[0]) * w + j * windows.dilation[1];
      }
    }
  }
}

void ConvolveImage(const RealKernels& kernels, const RealMatrix& matrix, const Windows& windows, const float* x, float* y,
                   float* scratch) {
  const int64_t h = windows.Padded(0), w = windows.Padded(1), width = windows.size[1];
  std::memset(scratch, 0, windows.channels * h * w * sizeof(float));
  for (int64_t c = 0; c < windows.channels; ++c) {
    for (int64_t row = 0; row < windows.size[0]; ++row, x += width) {
      std::memcpy(scratch + (c * h + row + windows.pad[0]) * w + windows.pad[1], x, width * sizeof(float));
    }
  }
  for (int64_t row = 0; row < windows.out[0]; ++row, y += windows.out[1] * matrix.columns) {
    kernels.multiply(matrix, {scratch + row * windows.stride[0] * w, windows.out[1], windows.stride[1], y});
  }
}

void MaxPool(const Windows& windows, const float* x, float* y) {
  const int64_t channels = windows.channels, h = windows.size[0], w = windows.size[1];
  for (int64_t row = 0; row < windows.out[0]; ++row) {
    const int64_t top = row * windows.stride[0] - windows.pad[0];
    const int64_t first_row = std::max<int64_t>(top, 0), last_row = std::min(top + windows.kernel[0], h);
    for (int64_t column = 0; column < windows.out[1]; ++column, y += channels) {
      const int64_t left = column * windows.stride[1] - windows.pad[1];
      const int64_t first = std::max<int64_t>(left, 0), last = std::min(left + windows.kernel[1], w);
      std::memcpy(y, x + (first_row * w + first) * channels, channels * sizeof(float));
      for (int64_t i = first_row; i < last_row; ++i) {
        for (int64_t j = first; j < last; ++j) {
          const float* from = x + (i * w + j) * channels;
          for (int64_t c = 0; c < channels; ++c) y[c] = from[c] > y[c] ? from[c] : y[c];
        }
      }
    }
  }
}

void MeanOfPixels(int64_t pixels, int64_t channels, const float* x, float* y) {
  std::memcpy(y, x, channels * sizeof(float));
  for (int64_t pixel = 1; pixel < pixels; ++pixel) {
    x += channels;
    for (int64_t c = 0; c < channels; ++c) y[c] += x[c];
  }
  for (int64_t c = 0; c < channels; ++c) y[c] /= static_cast<float>(pixels);
}

void Softmax(int64_t classes, const float* x, float* y) {
  const float largest = *std::max_element(x, x + classes);
  // ONNX Runtime's order, with AVX2.
  float sums[8] = {};
  for (int64_t i = 0; i < classes; ++i) sums[i % 8] += y[i] = Exp(x[i] - largest);
  const float factor = 1 / (((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7])));
  for (int64_t i = 0; i < classes; ++i) y[i] *= factor;
}

float FromHalf(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16, exponent = bits >> 10 & 31, fraction = bits & 1023u;
  float value;
  if (exponent == 0) {
    value = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -value : value;
  }
  const uint32_t single = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | fraction << 13;
  std::memcpy(&value, &single, sizeof value);
  return value;
}

}  // namespace rebnn
