// Runs one binary convolution of librebnn, 3x3 with everything that follows it, and marks the second run for
// count_instructions.c.
//
//     count_conv IN_CHANNELS OUT_CHANNELS SIZE STRIDE NCHW|NHWC maps.txt
//
// Packed input, batch norm, residual, PReLU, shifts, real output and the next layer's bits; random values, always the
// same ones. Writes where the program lies in memory and prints the instruction set.
#include <rebnn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <vector>

#include "marks.h"

namespace {

void Check(rebnn_status status) {
  if (status == REBNN_OK) return;
  std::fprintf(stderr, "count_conv: %s\n", rebnn_last_error());
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "count_conv: takes six arguments, see the source\n");
    return 1;
  }
  const int64_t in = std::atoll(argv[1]), out = std::atoll(argv[2]), size = std::atoll(argv[3]);
  const int64_t stride = std::atoll(argv[4]);
  const rebnn_conv_desc desc = {in, out, 1, {3, 3}, {stride, stride}, {1, 1}, {1, 1, 1, 1}, 0};
  std::mt19937 random(1);
  const auto bits = [&](int64_t count) {
    std::vector<uint8_t> values(static_cast<size_t>(count));
    for (uint8_t& value : values) value = static_cast<uint8_t>(random());
    return values;
  };
  const auto reals = [&](int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = std::uniform_real_distribution<float>(-1, 1)(random);
    return values;
  };
  const std::vector<uint8_t> weights = bits(out * 9 * ((in + 7) / 8)), x = bits(size * size * ((in + 7) / 8));
  rebnn_conv* conv = nullptr;
  Check(rebnn_conv_create(&desc, weights.data(), weights.size(), &conv));
  int64_t h = 0, w = 0;
  Check(rebnn_conv_output_size(conv, size, size, &h, &w));
  std::vector<float> vectors[7];
  for (auto& vector : vectors) vector = reals(out);
  const std::vector<float> residual = reals(out * h * w);
  std::vector<float> y(residual.size());
  std::vector<uint8_t> y_bits(static_cast<size_t>(h * w * ((out + 7) / 8)));
  rebnn_conv_io io = {};
  io.n = 1;
  io.h = io.w = size;
  io.x_bits = x.data();
  io.layout = std::strcmp(argv[5], "NHWC") == 0 ? REBNN_NHWC : REBNN_NCHW;
  const float** const steps[] = {&io.scale, &io.mul, &io.add, &io.pre, &io.slope, &io.post, &io.next_shift};
  for (int i = 0; i < 7; ++i) *steps[i] = vectors[i].data();
  io.residual = residual.data();
  io.y = y.data();
  io.y_bits = y_bits.data();
  size_t bytes = 0;
  Check(rebnn_conv_scratch_size(conv, 1, size, size, 1, &bytes));
  void* scratch = std::aligned_alloc(64, (bytes + 64) / 64 * 64);
  Check(rebnn_conv_run(conv, &io, scratch, bytes, nullptr));
  BeginCounting();
  const rebnn_status status = rebnn_conv_run(conv, &io, scratch, bytes, nullptr);
  EndCounting();
  Check(status);
  std::ofstream(argv[6]) << std::ifstream("/proc/self/maps").rdbuf();
  std::puts(rebnn_isa());
  std::free(scratch);
  rebnn_conv_destroy(conv);
}
