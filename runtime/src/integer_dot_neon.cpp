// AArch64 with FEAT_DotProd: sums of four products of 8 bits at once.
#include "integer_product_kernel.h"
#include "real.h"

namespace rebnn {
namespace {

struct DotSteps {
  static constexpr int64_t kTerms = 4;
  struct Sums {
    int32x4_t low, high;
  };
  struct Weights {
    int8x16_t low, high;
  };
  static const int8_t* WeightsOf(const IntegerMatrix& matrix) { return matrix.bytes; }
  static Sums Start(const IntegerMatrix& matrix, int64_t column) {
    return {vld1q_s32(matrix.start + column), vld1q_s32(matrix.start + column + 4)};
  }
  static Weights Load(const int8_t* weights) { return {vld1q_s8(weights), vld1q_s8(weights + 16)}; }
  static int8x8_t Spread(const int8_t* x) {
    int32_t four;
    std::memcpy(&four, x, sizeof four);
    return vreinterpret_s8_s32(vset_lane_s32(four, vdup_n_s32(0), 0));
  }
  static Sums Add(Sums sums, Weights weights, int8x8_t part) {
    return {vdotq_lane_s32(sums.low, weights.low, part, 0), vdotq_lane_s32(sums.high, weights.high, part, 0)};
  }
  static void Store(int32_t* y, Sums sums) {
    vst1q_s32(y, sums.low);
    vst1q_s32(y + 4, sums.high);
  }
};

}  // namespace

void MultiplyBytesWithNeon(const IntegerMatrix& matrix, const ByteRows& rows) {
  MultiplyRows<DotSteps, 4>(matrix, rows);
}

}  // namespace rebnn
