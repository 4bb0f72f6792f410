#include "real_operators.h"

#include <algorithm>
#include <cstring>

#include "elements_kernel.h"

namespace rebnn {
namespace {

// So many rows of sums are still near when they become what they stand for.
constexpr int64_t kSumRows = 48;
constexpr int64_t kMostTerms = 4;  // of a part

int64_t WidthOf(int64_t columns) { return (columns + kIntegerBlock - 1) / kIntegerBlock * kIntegerBlock; }

void Multiply(const RealKernels& kernels, const IntegerMatrix& matrix, const IntegerRows& rows) {
  kernels.multiply_integers(matrix, rows);
}
void Multiply(const RealKernels& kernels, const IntegerMatrix& matrix, const ByteRows& rows) {
  kernels.multiply_bytes(matrix, rows);
}

// Calls finish(row, sums) for each row.
template <class Number, class Finish>
void ForEachRow(const RealKernels& kernels, const IntegerMatrix& matrix, const RowsOf<Number>& rows, Finish finish) {
  const int64_t width = WidthOf(matrix.columns);
  for (int64_t row = 0; row < rows.count; row += kSumRows) {
    const int64_t count = std::min(kSumRows, rows.count - row);
    Multiply(kernels, matrix, RowsOf<Number>{rows.x + row * rows.step, count, rows.step, rows.y});
    for (int64_t i = 0; i < count; ++i) finish(row + i, rows.y + i * width);
  }
}

template <class Number>
Number* CopyShifted(int64_t count, const Number* x, Number, Number* y) {
  std::memcpy(y, x, count * sizeof(Number));
  return y + count;
}
// For parts of four.
int8_t* CopyShifted(int64_t count, const int16_t* x, int8_t shift, int8_t* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<int8_t>(x[i] + shift);
  return y + count;
}

// Copies a map, each number `zero` more than before, with that around it; where its end is.
template <class From, class To>
To* PadMap(const Windows& windows, const From* x, To zero, To* scratch) {
  const int64_t channels = windows.channels, row_size = windows.Padded(1) * channels,
                width = windows.size[1] * channels;
  const int64_t left = windows.pad[1] * channels;
  To* to = std::fill_n(scratch, windows.pad[0] * row_size, zero);
  for (int64_t row = 0; row < windows.size[0]; ++row, x += width) {
    to = CopyShifted(width, x, zero, std::fill_n(to, left, zero));
    to = std::fill_n(to, row_size - left - width, zero);
  }
  return std::fill_n(to, windows.pad[2] * row_size, zero);
}

// The rows of a convolution's sums, from a padded map.
template <class Number>
void ConvolvePadded(const RealKernels& kernels, const IntegerMatrix& matrix, const Integers& integers,
                    const Windows& windows, const Number* padded, int16_t* y, int32_t* sums) {
  const int64_t row_size = windows.Padded(1) * windows.channels, columns = matrix.columns;
  for (int64_t row = 0; row < windows.out[0]; ++row, y += windows.out[1] * columns) {
    const Number* from = padded + row * windows.stride[0] * row_size;
    const RowsOf<Number> rows = {from, windows.out[1], windows.stride[1] * windows.channels, sums};
    ForEachRow(kernels, matrix, rows, [&](int64_t column, const int32_t* of) {
      kernels.elements.round(columns, integers, of, y + column * columns);
    });
  }
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

void SetMapPlaces(const Windows& windows, int64_t channels, int64_t* terms, int64_t* places) {
  const int64_t w = windows.Padded(1);
  for (int64_t first = 0; first < windows.channels; first += channels) {
    for (int64_t i = 0; i < windows.kernel[0]; ++i) {
      for (int64_t j = 0; j < windows.kernel[1]; ++j) {
        for (int64_t c = first; c < std::min(first + channels, windows.channels); ++c) {
          *terms++ = (c * windows.kernel[0] + i) * windows.kernel[1] + j;
          *places++ = (i * windows.dilation[0] * w + j * windows.dilation[1]) * windows.channels + c;
        }
      }
    }
  }
}

int64_t IntegerScratch(int64_t columns) { return kSumRows * WidthOf(columns) * static_cast<int64_t>(sizeof(int32_t)); }

int64_t ByteScratch(int64_t depth) { return kSumRows * depth + kMostTerms - 1; }

void MultiplyIntegerRows(const RealKernels& kernels, const IntegerMatrix& matrix, const Integers& integers,
                         const IntegerRows& rows, float* y, int8_t* scratch) {
  const auto finish = [&](int64_t row, const int32_t* sums) {
    kernels.elements.scale(matrix.columns, integers, sums, y + row * matrix.columns);
  };
  if (!matrix.bytes) return ForEachRow(kernels, matrix, rows, finish);
  for (int64_t row = 0; row < rows.count; row += kSumRows) {
    const int64_t count = std::min(kSumRows, rows.count - row);
    const auto shift = static_cast<int8_t>(matrix.shift);
    std::fill_n(CopyShifted(count * rows.step, rows.x + row * rows.step, shift, scratch), kMostTerms - 1, int8_t{});
    ForEachRow(kernels, matrix, ByteRows{scratch, count, rows.step, rows.y},
               [&](int64_t i, const int32_t* sums) { finish(row + i, sums); });
  }
}

void ConvolveMap(const RealKernels& kernels, const RealMatrix& matrix, const Windows& windows, const float* x, float* y,
                 float* scratch) {
  const int64_t row_size = windows.Padded(1) * windows.channels;
  PadMap(windows, x, 0.0f, scratch);
  for (int64_t row = 0; row < windows.out[0]; ++row, y += windows.out[1] * matrix.columns) {
    const float* from = scratch + row * windows.stride[0] * row_size;
    kernels.multiply(matrix, {from, windows.out[1], windows.stride[1] * windows.channels, y});
  }
}

void ConvolveIntegers(const RealKernels& kernels, const IntegerMatrix& matrix, const Integers& integers,
                      const Windows& windows, const int16_t* x, int16_t* y, int32_t* sums, void* scratch) {
  if (matrix.bytes) {
    const auto padded = static_cast<int8_t*>(scratch);
    std::fill_n(PadMap(windows, x, static_cast<int8_t>(matrix.shift), padded), kMostTerms - 1, int8_t{});
    ConvolvePadded(kernels, matrix, integers, windows, padded, y, sums);
  } else {
    const auto padded = static_cast<int16_t*>(scratch);
    *PadMap(windows, x, int16_t{}, padded) = 0;
    ConvolvePadded(kernels, matrix, integers, windows, padded, y, sums);
  }
}

void QuantizeImage(int64_t channels, int64_t pixels, float unit, const Integers& integers, const float* x, int16_t* y) {
  for (int64_t c = 0; c < channels; ++c, x += pixels) {
    for (int64_t i = 0; i < pixels; ++i) {
      y[i * channels + c] = static_cast<int16_t>(RoundBetween(x[i] / unit, integers.low, integers.high));
    }
  }
}

void ConvolveImage(const RealKernels& kernels, const RealMatrix& matrix, const Windows& windows, const float* x,
                   float* y, float* scratch) {
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
  for (int64_t i = 0; i < classes; ++i) sums[i % 8] += y[i] = ComputeExp(x[i] - largest);
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
