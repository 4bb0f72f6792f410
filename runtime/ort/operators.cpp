#include "operators.h"

namespace rebnn::ort {
namespace {

using Io = rebnn_conv_io;

constexpr Input kX = {"X", Kind::kReal, &Io::x};
constexpr Input kP = {"P", Kind::kBits, nullptr};
constexpr Input kW = {"W", Kind::kWeights, nullptr};
constexpr Input kShift = {"shift", Kind::kPerInput, &Io::shift};
constexpr Input kScale = {"scale", Kind::kPerOutput, &Io::scale};
constexpr Input kBias = {"bias", Kind::kPerOutput, &Io::add};
constexpr Input kMul = {"mul", Kind::kPerOutput, &Io::mul};
constexpr Input kAdd = {"add", Kind::kPerOutput, &Io::add};
constexpr Input kR = {"R", Kind::kLikeOutput, &Io::residual};
constexpr Input kPre = {"pre", Kind::kPerOutput, &Io::pre};
constexpr Input kSlope = {"slope", Kind::kPerOutput, &Io::slope};
constexpr Input kPost = {"post", Kind::kPerOutput, &Io::post};
constexpr Input kNextShift = {"next_shift", Kind::kPerOutput, &Io::next_shift};

constexpr Input kConvInputs[] = {kX, kW, kShift, kScale, kBias};
constexpr Input kBlockInputs[] = {kX, kW, kShift, kScale, kMul, kAdd, kR, kPre, kSlope, kPost, kNextShift};
constexpr Input kPackedConvInputs[] = {kP, kW, kScale, kBias};
constexpr Input kPackedBlockInputs[] = {kP, kW, kScale, kMul, kAdd, kR, kPre, kSlope, kPost, kNextShift};

template <size_t N>
constexpr Operator Define(const char* name, const Input (&inputs)[N], bool gives_bits, bool is_linear) {
  return {name, inputs, N, gives_bits, is_linear};
}

}  // namespace

const Operator kOperators[kOperatorCount] = {
    Define("BinaryConv", kConvInputs, false, false),
    Define("BinaryBlock", kBlockInputs, true, false),
    Define("PackedBinaryConv", kPackedConvInputs, false, false),
    Define("PackedBinaryBlock", kPackedBlockInputs, true, false),
    Define("BinaryLinear", kConvInputs, false, true),
};

}  // namespace rebnn::ort
