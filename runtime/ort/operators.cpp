#include "operators.h"

#include "ort_abi.h"

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

constexpr Input kIds = {"ids", Kind::kNumbers, nullptr};
constexpr Input kRowScale = {"scale", Kind::kPlain, nullptr};
constexpr Input kQ = {"Q", Kind::kPlain, nullptr};
constexpr Input kK = {"K", Kind::kPlain, nullptr};
constexpr Input kV = {"V", Kind::kPlain, nullptr};
constexpr Input kMask = {"mask", Kind::kTruths, nullptr};

constexpr Input kImage = {"X", Kind::kPlain, nullptr};
constexpr Input kRealWeights = {"W", Kind::kPlain, nullptr};
constexpr Input kFactor = {"mul", Kind::kPlain, nullptr};
constexpr Input kTerm = {"add", Kind::kPlain, nullptr};
constexpr Input kRois = {"rois", Kind::kPlain, nullptr};
constexpr Input kAdded = {"R", Kind::kPlain, nullptr};
constexpr Input kBatchIndices = {"batch_indices", Kind::kNumbers, nullptr};

constexpr Input kConvInputs[] = {kX, kW, kShift, kScale, kBias};
constexpr Input kBlockInputs[] = {kX, kW, kShift, kScale, kMul, kAdd, kR, kPre, kSlope, kPost, kNextShift};
constexpr Input kPackedConvInputs[] = {kP, kW, kScale, kBias};
constexpr Input kPackedBlockInputs[] = {kP, kW, kScale, kMul, kAdd, kR, kPre, kSlope, kPost, kNextShift};
constexpr Input kEmbeddingInputs[] = {kIds, kW, kRowScale};
constexpr Input kAttentionInputs[] = {kQ, kK, kV, kMask};
constexpr Input kStemInputs[] = {kImage, kRealWeights, kFactor, kTerm};
constexpr Input kAveragePoolInputs[] = {kImage};
constexpr Input kUpsampleAddInputs[] = {kImage, kAdded};
constexpr Input kRoiAlignInputs[] = {kImage, kRois, kBatchIndices};

template <size_t N>
constexpr Operator Define(const char* name, const Input (&inputs)[N], bool gives_bits, Work work, bool clips = false) {
  return {name, inputs, N, gives_bits, clips, work, 1};
}

}  // namespace

int ElementType(Kind kind) {
  switch (kind) {
    case Kind::kBits:
    case Kind::kWeights:
      return kUint8;
    case Kind::kNumbers:
      return kInt64;
    case Kind::kTruths:
      return kBool;
    default:
      return kFloat;
  }
}

const Operator kOperators[kOperatorCount] = {
    Define("BinaryConv", kConvInputs, false, Work::kConv),
    Define("BinaryBlock", kBlockInputs, true, Work::kConv),
    Define("PackedBinaryConv", kPackedConvInputs, false, Work::kConv),
    Define("PackedBinaryBlock", kPackedBlockInputs, true, Work::kConv),
    Define("BinaryClipBlock", kBlockInputs, true, Work::kConv, true),
    Define("PackedBinaryClipBlock", kPackedBlockInputs, true, Work::kConv, true),
    Define("BinaryLinear", kConvInputs, false, Work::kLinear),
    Define("BinaryEmbedding", kEmbeddingInputs, false, Work::kEmbedding),
    Define("BinaryAttention", kAttentionInputs, false, Work::kAttention),
    Define("RealStem", kStemInputs, false, Work::kStem),
    Define("RealAveragePool", kAveragePoolInputs, false, Work::kAveragePool),
    Define("RealRoiAlign", kRoiAlignInputs, false, Work::kRoiAlign),
    Define("RealUpsampleAdd", kUpsampleAddInputs, false, Work::kUpsampleAdd),
};

}  // namespace rebnn::ort
