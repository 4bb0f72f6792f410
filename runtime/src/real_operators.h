// The real-valued operators of ONNX that packed models have. Maps lie with their channels last.
#ifndef REBNN_SRC_REAL_OPERATORS_H_
#define REBNN_SRC_REAL_OPERATORS_H_

#include "real.h"

namespace rebnn {

// Windows over the rows and columns of a map [h, w, channels], or of an image [channels, h, w].
struct Windows {
  int64_t channels;
  int64_t size[2], kernel[2], stride[2], dilation[2], pad[4];  // rows, columns; pad: top, left, bottom, right
  int64_t out[2];

  int64_t Padded(int axis) const { return size[axis] + pad[axis] + pad[axis + 2]; }
};

// Where the matrix of ConvolveImage finds the factors of a pixel in the padded image, [channels, kernel].
void SetPlaces(const Windows& windows, int64_t* places);

// The same for a map, of which `channels` at once are taken from place to place; and the number of each term in
// [channels, kernel].
void SetMapPlaces(const Windows& windows, int64_t channels, int64_t* terms, int64_t* places);

// Rows of whole numbers, which follow each other, times a matrix: real numbers. IntegerScratch() bytes for sums, and
// ByteScratch() for rows of 8 bits.
void MultiplyIntegerRows(const RealKernels& kernels, const IntegerMatrix& matrix, const Integers& integers,
                         const IntegerRows& rows, float* y, int8_t* scratch);
int64_t IntegerScratch(int64_t columns);
int64_t ByteScratch(int64_t depth);

// A convolution of a map; scratch for the padded map.
void ConvolveMap(const RealKernels& kernels, const RealMatrix& matrix, const Windows& windows, const float* x, float* y,
                 float* scratch);
// The same of whole numbers, to such; `sums` as above, and scratch for the padded map and 4 bytes more.
void ConvolveIntegers(const RealKernels& kernels, const IntegerMatrix& matrix, const Integers& integers,
                      const Windows& windows, const int16_t* x, int16_t* y, int32_t* sums, void* scratch);

// Whole numbers x / unit of an image, between integers.low and high, as a map.
void QuantizeImage(int64_t channels, int64_t pixels, float unit, const Integers& integers, const float* x, int16_t* y);

// A convolution of an image; scratch for the padded image.
void ConvolveImage(const RealKernels& kernels, const RealMatrix& matrix, const Windows& windows, const float* x,
                   float* y, float* scratch);

void MaxPool(const Windows& windows, const float* x, float* y);

void MeanOfPixels(int64_t pixels, int64_t channels, const float* x, float* y);

void Softmax(int64_t classes, const float* x, float* y);

// The number that 16 bits stand for.
float FromHalf(uint16_t bits);

}  // namespace rebnn

#endif  // REBNN_SRC_REAL_OPERATORS_H_
