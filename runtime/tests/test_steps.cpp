// The floating-point steps after the sum, bit by bit against scalar code, and the packed output.
//
//   test_steps [every]    tries every so-manieth combination of steps; 1, all of them, if left out
#include <cinttypes>

#include "reference.h"

namespace {

int64_t cases = 0;

void CheckReals(const Problem& problem, const std::vector<float>& expected, const std::vector<float>& y, int steps) {
  for (size_t i = 0; i < y.size(); ++i) {
    CHECK(SameReal(y[i], expected[i]), "%s, steps %#x: y[%zu] is %a, not %a", problem.Text().c_str(), steps, i, y[i],
          expected[i]);
  }
}

void CheckBits(const Problem& problem, const std::vector<uint8_t>& expected, const std::vector<uint8_t>& bits,
               int steps) {
  for (size_t i = 0; i < bits.size(); ++i) {
    CHECK(bits[i] == expected[i], "%s, steps %#x: byte %zu of the packed output is %#x, not %#x",
          problem.Text().c_str(), steps, i, bits[i], expected[i]);
  }
}

// One problem with the steps whose bits are set in `chosen`.
void Try(const Problem& problem, int chosen, rebnn_layout layout, Random& random) {
  ++cases;
  const int64_t channels = problem.desc.out_channels;
  const int64_t pixels = problem.out_h * problem.out_w;
  Steps steps;
  std::vector<float>* const all[] = {&steps.scale, &steps.mul,  &steps.add,        &steps.pre,
                                     &steps.slope, &steps.post, &steps.next_shift, &steps.residual};
  for (int i = 0; i < 8; ++i) {
    if (chosen >> i & 1) *all[i] = AnyReals(random, all[i] == &steps.residual ? problem.Outputs() : channels);
  }
  if (chosen >> 8 & 1) steps.clip = {-1.5f, 0.75f};
  const std::vector<int64_t> sums = problem.Sums();
  std::vector<float> expected_y;
  std::vector<uint8_t> expected_bits;
  steps.Apply(problem, sums, &expected_y, &expected_bits);

  const bool planes = layout == REBNN_NCHW;
  const auto arrange = [&](const std::vector<float>& pixels_first, int64_t plane, int64_t count) {
    return planes ? ToPlanes(pixels_first, problem.n, plane, count) : pixels_first;
  };
  const std::vector<float> x = arrange(problem.x, problem.h * problem.w, problem.desc.in_channels);
  std::vector<float> residual = steps.residual;
  if (!residual.empty()) residual = arrange(residual, pixels, channels);
  const std::vector<float> laid_out_y = arrange(expected_y, pixels, channels);

  const Conv conv = CreateConv(problem);
  rebnn_conv_io io = {};
  io.x = x.data();
  io.shift = OrNull(problem.shift);
  io.layout = layout;
  io.scale = OrNull(steps.scale);
  io.mul = OrNull(steps.mul);
  io.add = OrNull(steps.add);
  io.residual = OrNull(residual);
  io.pre = OrNull(steps.pre);
  io.slope = OrNull(steps.slope);
  io.post = OrNull(steps.post);
  io.next_shift = OrNull(steps.next_shift);
  io.clip = OrNull(steps.clip);

  // Both outputs at once, with every byte overwritten before.
  std::vector<float> y(problem.Outputs(), -7.0f);
  std::vector<uint8_t> bits(expected_bits.size(), 0xff);
  std::vector<int32_t> out_sums(problem.Outputs());
  io.y = y.data();
  io.y_bits = bits.data();
  io.sums = out_sums.data();
  Run(conv.get(), problem, io);
  CheckReals(problem, laid_out_y, y, chosen);
  CheckBits(problem, expected_bits, bits, chosen);
  for (size_t i = 0; i < sums.size(); ++i) CHECK(out_sums[i] == sums[i], "%s: sum %zu", problem.Text().c_str(), i);

  // Each alone.
  std::fill(bits.begin(), bits.end(), 0xff);
  io.sums = nullptr;
  io.y = nullptr;
  Run(conv.get(), problem, io);
  CheckBits(problem, expected_bits, bits, chosen);
  std::fill(y.begin(), y.end(), -7.0f);
  io.y = y.data();
  io.y_bits = nullptr;
  io.next_shift = nullptr;
  Run(conv.get(), problem, io);
  CheckReals(problem, laid_out_y, y, chosen);

  // In place of the residual.
  if (!residual.empty()) {
    io.residual = io.y = residual.data();
    Run(conv.get(), problem, io);
    CheckReals(problem, laid_out_y, residual, chosen);
  }
}

// The packed output of one convolution is the packed input of the next: the same sums as from the real numbers in
// between.
void Chain(Random& random, int64_t middle) {
  ++cases;
  const Problem first(Description(40, middle, 1, 3, 1, 1, 1, 0), 2, 6, 7, random, true);
  Problem second(Description(middle, 21, 1, 3, 2, 1, 1, 0), 2, 6, 7, random, true);
  const Conv first_conv = CreateConv(first);
  const Conv second_conv = CreateConv(second);
  const std::vector<float> scale(middle, 0.25f);
  std::vector<uint8_t> bits(2 * 6 * 7 * CeilDiv(middle, 8));
  rebnn_conv_io io = {};
  io.layout = REBNN_NHWC;
  io.x = first.x.data();
  io.shift = first.shift.data();
  io.scale = scale.data();
  io.y = second.x.data();
  io.y_bits = bits.data();
  io.next_shift = second.shift.data();
  Run(first_conv.get(), first, io);

  std::vector<int32_t> from_reals(second.Outputs()), from_bits(second.Outputs());
  rebnn_conv_io next = {};
  next.layout = REBNN_NHWC;
  next.x = second.x.data();
  next.shift = second.shift.data();
  next.sums = from_reals.data();
  Run(second_conv.get(), second, next);
  next.x = nullptr;
  next.shift = nullptr;
  next.x_bits = bits.data();
  next.sums = from_bits.data();
  Run(second_conv.get(), second, next);
  const std::vector<int64_t> expected = second.Sums();
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(from_reals[i] == expected[i] && from_bits[i] == expected[i],
          "sum %zu is %d from reals and %d from bits, not %lld", i, from_reals[i], from_bits[i],
          (long long)expected[i]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int every = argc > 1 ? std::atoi(argv[1]) : 1;
  CHECK(every > 0, "the argument must be a positive number, not '%s'", argv[1]);
  RequireIsa();
  Random random(20231122);
  const rebnn_conv_desc shapes[] = {Description(33, 16, 1, 3, 1, 1, 1, 0),  Description(64, 64, 1, 3, 1, 1, 1, 0),
                                    Description(16, 21, 1, 3, 2, 1, 1, -1), Description(8, 100, 1, 1, 1, 1, 0, 0),
                                    Description(24, 9, 3, 3, 1, 2, 2, 1),   Description(16, 32, 2, 1, 2, 1, 0, 0)};
  int number = 0;
  for (const rebnn_conv_desc& shape : shapes) {
    for (int steps = 0; steps < 512; ++steps) {
      for (rebnn_layout layout : {REBNN_NCHW, REBNN_NHWC}) {
        if (++number % every) continue;
        Try(Problem(shape, 1 + steps % 2, 5, 7, random, steps % 3 == 0), steps, layout, random);
      }
    }
  }
  for (int64_t middle : {1, 8, 20, 33, 64, 65, 128}) Chain(random, middle);
  std::printf("%" PRId64 " cases: every bit is equal\n", cases);
}
