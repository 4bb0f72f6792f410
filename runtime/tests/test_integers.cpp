// The products of int8 layers against plain sums, for every shape of rows and columns that a tile can be left with.
//
//     test_integers [seed]
//
// Both forms of a matrix, where the instruction set has both: pairs of 16 bits, and fours of 8.
#include <algorithm>
#include <random>
#include <vector>

#include "../src/isa.h"
#include "../src/real_operators.h"
#include "check.h"

namespace {

using rebnn::kIntegerBlock;

// Sums become whole numbers by so many bits, and are cut.
constexpr int kShift = 7, kHalf = 1 << (kShift - 1), kMost = 9000;

int64_t cases = 0;

struct Layer {
  int64_t channels, columns, zero;
  rebnn::Windows windows;
  std::vector<int16_t> map;      // [h, w, channels], counted from the zero point
  std::vector<int16_t> weights;  // [columns, kernel, kernel, channels]

  int64_t Taps() const { return windows.kernel[0] * windows.kernel[1]; }
};

// A layer's weights in parts of so many terms, as the kernels want them.
struct Arranged {
  std::vector<int64_t> places;
  std::vector<int16_t> words;
  std::vector<int8_t> bytes;
  std::vector<int32_t> start;
  rebnn::IntegerMatrix matrix;
};

Arranged Arrange(const Layer& layer, int64_t terms) {
  Arranged to;
  const int64_t of_tap = (layer.channels + terms - 1) / terms, parts = layer.Taps() * of_tap;
  const int64_t blocks = (layer.columns + kIntegerBlock - 1) / kIntegerBlock;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t tap = part / of_tap, row = tap / layer.windows.kernel[1], column = tap % layer.windows.kernel[1];
    to.places.push_back((row * layer.windows.Padded(1) + column) * layer.channels + part % of_tap * terms);
  }
  to.start.resize(static_cast<size_t>(blocks * kIntegerBlock));
  for (int64_t c = 0; c < blocks * kIntegerBlock; c += kIntegerBlock) {
    for (int64_t part = 0; part < parts; ++part) {
      for (int64_t i = 0; i < kIntegerBlock * terms; ++i) {
        const int64_t column = c + i / terms, channel = part % of_tap * terms + i % terms;
        const bool is_there = column < layer.columns && channel < layer.channels;
        const int64_t tap = part / of_tap;
        const auto at = static_cast<size_t>((column * layer.Taps() + tap) * layer.channels + channel);
        const int16_t weight = is_there ? layer.weights[at] : int16_t{0};
        to.words.push_back(weight);
        to.bytes.push_back(static_cast<int8_t>(weight));
        to.start[static_cast<size_t>(column)] += static_cast<int32_t>((128 - layer.zero) * weight);
      }
    }
  }
  to.matrix = {parts, layer.columns, to.places.data(), to.words.data(), nullptr, nullptr, 0};
  if (terms == 4) {
    to.matrix = {parts, layer.columns, to.places.data(), nullptr, to.bytes.data(), to.start.data(), layer.zero - 128};
  }
  return to;
}

// The sum that a convolution has at a place and a column.
int64_t Sum(const Layer& layer, int64_t row, int64_t column, int64_t c) {
  const rebnn::Windows& windows = layer.windows;
  int64_t sum = 0;
  for (int64_t i = 0; i < windows.kernel[0]; ++i) {
    for (int64_t j = 0; j < windows.kernel[1]; ++j) {
      const int64_t y = row * windows.stride[0] + i - windows.pad[0],
                    x = column * windows.stride[1] + j - windows.pad[1];
      if (y < 0 || x < 0 || y >= windows.size[0] || x >= windows.size[1]) continue;
      for (int64_t channel = 0; channel < layer.channels; ++channel) {
        const int64_t tap = i * windows.kernel[1] + j;
        sum += int64_t{layer.map[static_cast<size_t>((y * windows.size[1] + x) * layer.channels + channel)]} *
               layer.weights[static_cast<size_t>((c * layer.Taps() + tap) * layer.channels + channel)];
      }
    }
  }
  return sum;
}

void Try(const rebnn::RealKernels& kernels, const Layer& layer, int64_t terms) {
  ++cases;
  const Arranged arranged = Arrange(layer, terms);
  const rebnn::Windows& windows = layer.windows;
  const int64_t pixels = windows.out[0] * windows.out[1];
  constexpr float kFactor = 1.0f / (1 << kShift);
  const std::vector<float> factor(static_cast<size_t>(layer.columns), kFactor);
  const std::vector<int32_t> added(static_cast<size_t>(layer.columns), 3);
  const std::vector<float> bias(static_cast<size_t>(layer.columns), 0.5f);
  const rebnn::Integers integers = {factor.data(), added.data(), bias.data(), -kMost, kMost};
  std::vector<int32_t> sums(static_cast<size_t>(rebnn::IntegerScratch(layer.columns)) / sizeof(int32_t));
  const bool is_product = layer.Taps() == 1 && windows.pad[0] == 0;
  const auto scratch_bytes =
      static_cast<size_t>(is_product ? rebnn::ByteScratch(layer.channels)
                                     : (windows.Padded(0) * windows.Padded(1) * layer.channels + 1) *
                                           static_cast<int64_t>(sizeof(int16_t)));
  std::vector<int16_t> scratch(scratch_bytes / sizeof(int16_t) + 1);
  std::vector<int16_t> y(static_cast<size_t>(pixels * layer.columns));
  std::vector<float> reals(y.size());
  if (is_product) {
    std::vector<int16_t> rows = layer.map;
    rows.push_back(0);
    rebnn::MultiplyIntegerRows(kernels, arranged.matrix, integers, {rows.data(), pixels, layer.channels, sums.data()},
                               reals.data(), reinterpret_cast<int8_t*>(scratch.data()));
  } else {
    rebnn::ConvolveIntegers(kernels, arranged.matrix, integers, windows, layer.map.data(), y.data(), sums.data(),
                            scratch.data());
  }
  for (int64_t i = 0; i < pixels * layer.columns; ++i) {
    const int64_t pixel = i / layer.columns;
    const int64_t sum = Sum(layer, pixel / windows.out[1], pixel % windows.out[1], i % layer.columns);
    if (is_product) {
      const float expected = static_cast<float>(sum + 3) * kFactor + 0.5f;
      CHECK(reals[static_cast<size_t>(i)] == expected, "%lld channels, %lld columns, parts of %lld: %g, not %g",
            (long long)layer.channels, (long long)layer.columns, (long long)terms, reals[static_cast<size_t>(i)],
            expected);
    } else {
      // To the nearest, and to an even one from the middle.
      int64_t expected = (sum + 3 + kHalf) >> kShift;
      if (((sum + 3) & (2 * kHalf - 1)) == kHalf && expected % 2) --expected;
      expected = std::min(std::max(expected, -int64_t{kMost}), int64_t{kMost});
      CHECK(y[static_cast<size_t>(i)] == expected, "%lld channels, %lld columns, parts of %lld: %d, not %lld",
            (long long)layer.channels, (long long)layer.columns, (long long)terms, y[static_cast<size_t>(i)],
            (long long)expected);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  RequireIsa();
  const rebnn::RealKernels& kernels = rebnn::ChosenKernels()->real;
  std::mt19937 random(argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1);
  const auto between = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const bool has_bytes = kernels.multiply_bytes && rebnn::HasDotProducts();
  for (int64_t channels : {1, 2, 3, 4, 5, 7, 8, 16, 30}) {
    for (int64_t columns : {1, 7, 8, 9, 16, 17, 40}) {
      for (int side : {1, 3}) {
        Layer layer = {channels, columns, between(0, 255), {}, {}, {}};
        // Products read a map as it is.
        const int64_t pad = side == 1 ? 0 : between(0, 1), stride = side == 1 ? 1 : between(1, 2);
        layer.windows = {channels, {between(side, 9), between(side, 12)}, {side, side}, {stride, stride}, {1, 1},
                         {pad, pad, pad, pad}, {}};
        for (int axis = 0; axis < 2; ++axis) {
          layer.windows.out[axis] = (layer.windows.Padded(axis) - side) / stride + 1;
        }
        const auto zero = static_cast<int>(layer.zero);
        for (int64_t i = 0; i < layer.windows.size[0] * layer.windows.size[1] * channels; ++i) {
          layer.map.push_back(
              static_cast<int16_t>(between(0, 9) ? between(0, 255) - zero : (between(0, 1) ? 255 : 0) - zero));
        }
        for (int64_t i = 0; i < columns * layer.Taps() * channels; ++i) {
          layer.weights.push_back(static_cast<int16_t>(between(0, 9) ? between(-128, 127) : -128));
        }
        Try(kernels, layer, 2);
        if (has_bytes) Try(kernels, layer, 4);
      }
    }
  }
  std::printf("%lld layers%s, every number is equal\n", static_cast<long long>(cases),
              has_bytes ? " of both forms" : "");
  return 0;
}
