// The integer sums of every kernel against int64 arithmetic, from real and from packed input, in both layouts.
//
//   test_sums [every]    tries every so-manieth case of the grid; 1, all of them, if left out
#include <cinttypes>

#include "reference.h"

namespace {

int64_t cases = 0;

void CheckSums(const Problem& problem, const std::vector<int64_t>& expected, const std::vector<int32_t>& sums,
               const char* input) {
  for (size_t i = 0; i < sums.size(); ++i) {
    CHECK(sums[i] == expected[i], "%s, %s input: sum %zu is %d, not %" PRId64, problem.Text().c_str(), input, i,
          sums[i], expected[i]);
  }
}

void Try(const Problem& problem) {
  if (!problem.Fits()) return;
  ++cases;
  const std::vector<int64_t> expected = problem.Sums();
  const Conv conv = CreateConv(problem);
  std::vector<int32_t> sums(problem.Outputs());
  rebnn_conv_io io = {};
  io.sums = sums.data();

  io.layout = REBNN_NHWC;
  io.x = problem.x.data();
  io.shift = OrNull(problem.shift);
  Run(conv.get(), problem, io);
  CheckSums(problem, expected, sums, "NHWC");

  const std::vector<float> planes = ToPlanes(problem.x, problem.n, problem.h * problem.w, problem.desc.in_channels);
  std::fill(sums.begin(), sums.end(), 0);
  io.layout = REBNN_NCHW;
  io.x = planes.data();
  Run(conv.get(), problem, io);
  CheckSums(problem, expected, sums, "NCHW");

  std::vector<uint8_t> bits = problem.PackedInput();
  std::fill(sums.begin(), sums.end(), 0);
  io.x = nullptr;
  io.shift = nullptr;
  io.x_bits = bits.data();
  Run(conv.get(), problem, io);
  CheckSums(problem, expected, sums, "packed");

  // Filling is nobody's channel: whatever it holds, the sums stay the same.
  if (const int64_t used = problem.desc.in_channels % 8) {
    const int64_t bytes = CeilDiv(problem.desc.in_channels, 8);
    for (size_t i = bytes - 1; i < bits.size(); i += bytes) bits[i] |= static_cast<uint8_t>(0xff << used);
    std::fill(sums.begin(), sums.end(), 0);
    Run(conv.get(), problem, io);
    CheckSums(problem, expected, sums, "packed, filling set");
  }
}

// Every small map, where a pixel can be on several borders at once, with channels that vary from case to case.
void SmallMaps(int64_t every, Random& random) {
  constexpr int64_t kChannels[][3] = {{1, 1, 1},   {3, 5, 1},   {8, 16, 1},  {31, 33, 1}, {32, 17, 1}, {33, 8, 1},
                                      {64, 32, 1}, {40, 20, 1}, {65, 64, 1}, {6, 9, 3},   {34, 6, 2},  {48, 48, 3},
                                      {4, 4, 4},   {64, 40, 2}, {20, 10, 5}, {72, 34, 1}};
  constexpr int64_t kPads[][4] = {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {6, 6, 6, 6}, {0, 1, 2, 3}, {3, 0, 0, 1}};
  int64_t number = 0;
  for (int64_t kernel : {1, 3, 5}) {
    for (int64_t stride : {1, 2}) {
      for (int64_t dilation : {1, 2, 6}) {
        for (const auto& pad : kPads) {
          for (int32_t pad_value : {-1, 0, 1}) {
            for (int64_t h = 1; h <= 9; ++h) {
              for (int64_t w = 1; w <= 9; ++w) {
                if (++number % every) continue;
                const auto& channels = kChannels[Between(random, 0, sizeof kChannels / sizeof *kChannels - 1)];
                rebnn_conv_desc desc =
                    Description(channels[0], channels[1], channels[2], kernel, stride, dilation, 0, pad_value);
                std::memcpy(desc.pad, pad, sizeof pad);
                Try(Problem(desc, 1 + number % 2, h, w, random, number % 3 == 0));
              }
            }
          }
        }
      }
    }
  }
}

// Kernels, strides and dilations that differ in the two directions.
void Oblongs(int64_t every, Random& random) {
  for (int64_t number = 0; number < 2000; number += every) {
    rebnn_conv_desc desc = Description(1, 1, 1, 1, 1, 1, 0, 0);
    desc.in_channels = Between(random, 1, 70);
    desc.out_channels = Between(random, 1, 40);
    desc.pad_value = static_cast<int32_t>(Between(random, -1, 1));
    for (int axis = 0; axis < 2; ++axis) {
      desc.kernel[axis] = Between(random, 1, 7);
      desc.stride[axis] = Between(random, 1, 4);
      desc.dilation[axis] = Between(random, 1, 4);
      desc.pad[axis] = Between(random, 0, 7);
      desc.pad[axis + 2] = Between(random, 0, 7);
    }
    const int64_t h = Between(random, 1, 12);
    const int64_t w = Between(random, 1, 12);
    Try(Problem(desc, 1, h, w, random, number % 2));
  }
}

// Every number of channels that ends a word, a byte or a group of lanes differently.
void Channels(int64_t every, Random& random) {
  int64_t number = 0;
  for (int64_t in : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 256}) {
    for (int64_t out : {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 96, 127, 128, 130}) {
      for (int64_t group : {1, 2, 3, 8, 16}) {
        if (in % group || out % group || ++number % every) continue;
        Try(Problem(Description(in, out, group, 3, 1, 1, 1, 0), 1, 3, 5, random, true));
        Try(Problem(Description(in, out, group, 1, 1, 1, 0, 0), 2, 1, 19, random, false));
      }
    }
  }
}

// Maps of networks.
void LargeMaps(int64_t every, Random& random) {
  int64_t number = 0;
  for (int64_t size : {14, 28, 56}) {
    for (int64_t kernel : {1, 3, 5}) {
      for (int64_t stride : {1, 2}) {
        for (int64_t dilation : {1, 6}) {
          for (int64_t in : {64, 67, 128}) {
            if (++number % every) continue;
            const int64_t pad = kernel / 2 * dilation;
            Try(Problem(Description(in, 1024 / size, 1, kernel, stride, dilation, pad, 0), 1, size, size, random,
                        true));
          }
        }
      }
    }
  }
}

// Sums that do not fit in 8 or 16 bits: all signs differ, or all agree.
void LargeSums(int64_t every, Random& random) {
  for (int64_t in : {255, 256, 2048, 32767, 32768, 65535, 65536, 70001, 1 << 24}) {
    if (in == 1 << 24 && every > 1) continue;
    for (int8_t sign : {1, -1}) {
      Problem problem(Description(in, in == 1 << 24 ? 1 : 3, 1, 1, 1, 1, 0, 0), 1, 1, 2, random, false);
      for (float& real : problem.x) real = -1.0f;
      for (int8_t& weight : problem.weights) weight = sign;
      Try(problem);
    }
  }
  for (int64_t kernel : {17, 33}) {
    Try(Problem(Description(130, 5, 1, kernel, 1, 1, kernel / 2, 1), 1, 3, 20, random, false));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t every = argc > 1 ? std::atoll(argv[1]) : 1;
  CHECK(every > 0, "the argument must be a positive number, not '%s'", argv[1]);
  RequireIsa();
  Random random(20231121);
  SmallMaps(every, random);
  Oblongs(every, random);
  Channels(every, random);
  LargeMaps(every, random);
  LargeSums(every, random);
  std::printf("%" PRId64 " convolutions from three kinds of input: every sum is equal\n", cases);
}
