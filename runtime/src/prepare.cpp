// From the file's weights to the order in which the kernels read them. Done once, when a convolution is created.
#include <cstdlib>
#include <cstring>

#include "conv.h"
#include "error.h"
#include "geometry.h"
#include "isa.h"
#include "memory.h"

namespace rebnn {
namespace {

// Below so many words of a tap, more is lost around the shorter loops than the pairs gain.
constexpr int64_t kLeastPaired = 4;

rebnn_status CheckDescription(const rebnn_conv_desc& d) {
  const auto name = "rebnn_conv_create";
  const auto invalid = REBNN_INVALID_ARGUMENT;
  const struct {
    const char* what;
    int64_t value, least;
  } fields[] = {
      {"in_channels", d.in_channels, 1},
      {"out_channels", d.out_channels, 1},
      {"group", d.group, 1},
      {"the kernel's height", d.kernel[0], 1},
      {"the kernel's width", d.kernel[1], 1},
      {"the vertical stride", d.stride[0], 1},
      {"the horizontal stride", d.stride[1], 1},
      {"the vertical dilation", d.dilation[0], 1},
      {"the horizontal dilation", d.dilation[1], 1},
      {"the pad at the top", d.pad[0], 0},
      {"the pad at the left", d.pad[1], 0},
      {"the pad at the bottom", d.pad[2], 0},
      {"the pad at the right", d.pad[3], 0},
  };
  for (const auto& field : fields) {
    if (field.value < field.least || field.value > kMaxSide) {
      return Fail(invalid, "%s: %s is %lld; it must be from %lld to %lld.", name, field.what,
                  static_cast<long long>(field.value), static_cast<long long>(field.least),
                  static_cast<long long>(kMaxSide));
    }
  }
  if (d.pad_value < -1 || d.pad_value > 1) {
    return Fail(invalid, "%s: pad_value is %d; it must be -1, 0 or 1.", name, static_cast<int>(d.pad_value));
  }
  if (d.in_channels % d.group || d.out_channels % d.group) {
    return Fail(invalid, "%s: group is %lld, which divides %lld input and %lld output channels unevenly.", name,
                static_cast<long long>(d.group), static_cast<long long>(d.in_channels),
                static_cast<long long>(d.out_channels));
  }
  const int64_t terms = Product({d.in_channels / d.group, d.kernel[0], d.kernel[1]});
  if (terms < 0 || terms > kMaxTerms) {
    return Fail(invalid, "%s: one output sums %lld channels x %lld x %lld taps; at most %lld products are supported.",
                name, static_cast<long long>(d.in_channels / d.group), static_cast<long long>(d.kernel[0]),
                static_cast<long long>(d.kernel[1]), static_cast<long long>(kMaxTerms));
  }
  return REBNN_OK;
}

// Filling is 0 in every file that is whole, and the kernels rely on it.
rebnn_status CheckFilling(const rebnn_conv& conv, const uint8_t* weights) {
  const int64_t used = conv.group_in % 8;
  if (used == 0) return REBNN_OK;
  const int64_t bytes = CeilDiv(conv.group_in, 8);
  for (int64_t i = 0; i < conv.desc.out_channels * conv.taps; ++i) {
    if (weights[i * bytes + bytes - 1] >> used) {
      return Fail(REBNN_INVALID_ARGUMENT,
                  "rebnn_conv_create: the weights of output channel %lld have bits set beyond input channel %lld; "
                  "the file is damaged or packed in another way.",
                  static_cast<long long>(i / conv.taps), static_cast<long long>(conv.group_in - 1));
    }
  }
  return REBNN_OK;
}

void ArrangeWeights(rebnn_conv* conv, const uint8_t* weights) {
  const int64_t lanes = conv->kernels->block_lanes;
  const int64_t word_bytes = conv->kernels->word_bytes;
  const int64_t bytes = CeilDiv(conv->group_in, 8);
  for (int64_t o = 0; o < conv->desc.out_channels; ++o) {
    const int64_t g = o / conv->group_out;
    const int64_t lane = o % conv->group_out;
    uint8_t* block = conv->weights + (g * conv->blocks + lane / lanes) * conv->block_bytes;
    for (int64_t tap = 0; tap < conv->taps; ++tap) {
      const uint8_t* from = weights + (o * conv->taps + tap) * bytes;
      for (int64_t b = 0; b < bytes; ++b) {
        const int64_t word = tap * conv->words + b / word_bytes;
        block[(word * lanes + lane % lanes) * word_bytes + b % word_bytes] = from[b];
      }
    }
  }
}

// As kernels->pair does in the map.
void PairWeights(rebnn_conv* conv, int64_t weight_bytes) {
  const int64_t word = conv->kernels->block_lanes * conv->kernels->word_bytes;
  for (int64_t pair = 0; pair < weight_bytes; pair += 2 * word) {
    for (int64_t b = pair; b < pair + word; ++b) conv->weights[b + word] ^= conv->weights[b];
  }
}

void SumBorders(rebnn_conv* conv, const uint8_t* weights) {
  const int64_t groups = conv->blocks * conv->kernels->block_lanes / kGroup;
  const int64_t bytes = CeilDiv(conv->group_in, 8);
  const int64_t kernel_h = conv->desc.kernel[0], kernel_w = conv->desc.kernel[1];
  const int64_t row = (kernel_w + 1) * kGroup;
  for (int64_t o = 0; o < conv->desc.out_channels; ++o) {
    const int64_t g = o / conv->group_out;
    const int64_t lane = o % conv->group_out;
    int32_t* sums = conv->border_sums + (g * groups + lane / kGroup) * conv->border_corners * kGroup + lane % kGroup;
    const uint8_t* tap = weights + o * conv->taps * bytes;
    for (int64_t i = 0; i < kernel_h; ++i) {
      for (int64_t j = 0; j < kernel_w; ++j, tap += bytes) {
        int64_t negative = 0;
        for (int64_t b = 0; b < bytes; ++b) {
          for (int bits = tap[b]; bits; bits &= bits - 1) ++negative;
        }
        int32_t* corner = sums + i * row + j * kGroup;
        corner[row + kGroup] = corner[row] + corner[kGroup] - corner[0] +
                               conv->desc.pad_value * static_cast<int32_t>(conv->group_in - 2 * negative);
      }
    }
  }
}

rebnn_status Create(const rebnn_conv_desc& desc, const uint8_t* weights, size_t bytes, rebnn_conv** result) {
  const Kernels* kernels = ChosenKernels();
  if (!kernels) return REBNN_INVALID_ARGUMENT;
  if (rebnn_status status = CheckDescription(desc)) return status;
  const int64_t group_in = desc.in_channels / desc.group;
  const int64_t taps = desc.kernel[0] * desc.kernel[1];
  const int64_t expected = Product({desc.out_channels, taps, CeilDiv(group_in, 8)});
  if (expected < 0 || bytes != static_cast<size_t>(expected)) {
    return Fail(
        REBNN_INVALID_ARGUMENT,
        "rebnn_conv_create: the weights have %zu bytes, but %lld output channels x %lld x %lld taps x %lld bytes of "
        "channels are needed.",
        bytes, static_cast<long long>(desc.out_channels), static_cast<long long>(desc.kernel[0]),
        static_cast<long long>(desc.kernel[1]), static_cast<long long>(CeilDiv(group_in, 8)));
  }
  const ConvBytes needed = BytesOf(desc, *kernels);
  rebnn_conv* conv = static_cast<rebnn_conv*>(std::calloc(1, sizeof(rebnn_conv)));
  if (conv && needed.weights >= 0 && needed.border_sums >= 0) {
    conv->weights = static_cast<uint8_t*>(AllocateAligned(needed.weights));
    if (needed.border_sums) conv->border_sums = static_cast<int32_t*>(AllocateAligned(needed.border_sums));
  }
  if (!conv || !conv->weights || (needed.border_sums && !conv->border_sums)) {
    rebnn_conv_destroy(conv);
    return Fail(REBNN_OUT_OF_MEMORY, "rebnn_conv_create: no memory for the weights of %lld output channels.",
                static_cast<long long>(desc.out_channels));
  }
  conv->desc = desc;
  conv->kernels = kernels;
  conv->group_in = group_in;
  conv->group_out = desc.out_channels / desc.group;
  conv->taps = taps;
  conv->words = CeilDiv(group_in, 8 * kernels->word_bytes);
  conv->paired = kernels->pair && conv->words % 2 == 0 && conv->words >= kLeastPaired;
  conv->tap_bytes = conv->words * kernels->word_bytes;
  conv->blocks = CeilDiv(conv->group_out, kernels->block_lanes);
  conv->block_bytes = taps * conv->tap_bytes * kernels->block_lanes;
  conv->border_corners = (desc.kernel[0] + 1) * (desc.kernel[1] + 1);
  if (rebnn_status status = CheckFilling(*conv, weights)) {
    rebnn_conv_destroy(conv);
    return status;
  }
  std::memset(conv->weights, 0, needed.weights);
  ArrangeWeights(conv, weights);
  if (conv->paired) PairWeights(conv, needed.weights);
  if (conv->border_sums) {
    std::memset(conv->border_sums, 0, needed.border_sums);
    SumBorders(conv, weights);
  }
  *result = conv;
  return REBNN_OK;
}

}  // namespace

ConvBytes BytesOf(const rebnn_conv_desc& desc, const Kernels& kernels) {
  const int64_t channels = CeilDiv(desc.in_channels / desc.group, 8 * kernels.word_bytes) * kernels.word_bytes;
  const int64_t lanes = CeilDiv(desc.out_channels / desc.group, kernels.block_lanes) * kernels.block_lanes;
  const bool bordered = desc.pad_value != 0 && (desc.pad[0] | desc.pad[1] | desc.pad[2] | desc.pad[3]) != 0;
  return {
      Product({desc.group, lanes, desc.kernel[0], desc.kernel[1], channels}),
      Product({desc.group, lanes, desc.kernel[0] + 1, desc.kernel[1] + 1, bordered ? int64_t{sizeof(int32_t)} : 0})};
}

}  // namespace rebnn

rebnn_status rebnn_conv_create(const rebnn_conv_desc* desc, const uint8_t* weights, size_t bytes, rebnn_conv** conv) {
  if (!conv) return rebnn::Fail(REBNN_INVALID_ARGUMENT, "rebnn_conv_create: conv is NULL.");
  *conv = nullptr;
  if (!desc || !weights) {
    return rebnn::Fail(REBNN_INVALID_ARGUMENT, "rebnn_conv_create: %s is NULL.", desc ? "weights" : "desc");
  }
  return rebnn::Create(*desc, weights, bytes, conv);
}

void rebnn_conv_destroy(rebnn_conv* conv) {
  if (!conv) return;
  rebnn::FreeAligned(conv->weights);
  rebnn::FreeAligned(conv->border_sums);
  std::free(conv);
}
