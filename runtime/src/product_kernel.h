// The loop of a product of real numbers, for one instruction set: each file that includes this is compiled for its own.
#ifndef REBNN_SRC_PRODUCT_KERNEL_H_
#define REBNN_SRC_PRODUCT_KERNEL_H_

#include <cstring>

#include "product.h"
#include "vectors.h"

namespace rebnn {
namespace {

// kTile rows at once, their sums in registers.
template <int kLanes, int kTile>
void Multiply(const RealMatrix& matrix, const RealRows& rows) {
  constexpr int kRegisters = kProductBlock / kLanes;
  typedef RealVectors<kLanes> Vectors;
  typedef typename Vectors::Floats Floats;
  for (int64_t column = 0; column < matrix.columns; column += kProductBlock) {
    const int64_t width = Smaller(kProductBlock, matrix.columns - column);
    for (int64_t row = 0; row < rows.count; row += kTile) {
      // Rows beyond the last one are the last one again, and are not stored.
      const float* from[kTile];
      REBNN_UNROLL
      for (int i = 0; i < kTile; ++i) from[i] = rows.x + Smaller(row + i, rows.count - 1) * rows.step;
      const float* weights = matrix.weights + column * matrix.depth;
      float total[kTile][kProductBlock];
      for (int64_t first = 0; first < matrix.depth; first += matrix.chunk) {
        const int64_t last = Smaller(matrix.depth, first + matrix.chunk);
        Floats sum[kTile][kRegisters] = {};
        for (int64_t k = first; k < last; ++k, weights += kProductBlock) {
          Floats weight[kRegisters];
          REBNN_UNROLL
          for (int q = 0; q < kRegisters; ++q) weight[q] = Vectors::Load(weights + q * kLanes);
          const int64_t place = matrix.places[k];
          REBNN_UNROLL
          for (int i = 0; i < kTile; ++i) {
            const float value = from[i][place];
            REBNN_UNROLL
            for (int q = 0; q < kRegisters; ++q) sum[i][q] += weight[q] * value;
          }
        }
        REBNN_UNROLL
        for (int i = 0; i < kTile; ++i) {
          REBNN_UNROLL
          for (int q = 0; q < kRegisters; ++q) {
            float* to = total[i] + q * kLanes;
            const float* before = first ? to : matrix.start ? matrix.start + column + q * kLanes : nullptr;
            Vectors::Store(to, before ? Vectors::Load(before) + sum[i][q] : sum[i][q]);
          }
        }
      }
      for (int i = 0; i < kTile && row + i < rows.count; ++i) {
        float* y = rows.y + (row + i) * matrix.columns + column;
        if (matrix.bias) {
          for (int q = 0; q < kProductBlock; ++q) total[i][q] += matrix.bias[column + q];
        }
        if (width == kProductBlock) {
          std::memcpy(y, total[i], sizeof total[i]);
        } else {
          std::memcpy(y, total[i], width * sizeof(float));
        }
      }
    }
  }
}

}  // namespace
}  // namespace rebnn

#endif  // REBNN_SRC_PRODUCT_KERNEL_H_
