// The real-valued operators of ONNX that packed classifiers have. Maps lie with their channels last.
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

// A convolution of an image; scratch for the padded image.
void ConvolveImage(const RealKernels& kernels, const RealMatrix& matrix, const Windows& windows, const float* x, float* y,
                   float* scratch);

void MaxPool(const Windows& windows, const float* x, float* y);

void MeanOfPixels(int64_t pixels, int64_t channels, const float* x, float* y);

void Softmax(int64_t classes, const float* x, float* y);

// The number that 16 bits stand for.
float FromHalf(uint16_t bits);

}  // namespace rebnn

#endif  // REBNN_SRC_REAL_OPERATORS_H_
