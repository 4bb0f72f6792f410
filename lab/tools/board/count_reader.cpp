// Runs a packed model by librebnn alone and marks the second run for count_instructions.c.
//
//     count_reader model.onnx H W maps.txt
//
// Random values, always the same ones. Writes where the program lies in memory and prints the instruction set.
#include <rebnn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "marks.h"

namespace {

void Check(rebnn_status status) {
  if (status == REBNN_OK) return;
  std::fprintf(stderr, "count_reader: %s\n", rebnn_last_error());
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "count_reader: takes four arguments, see the source\n");
    return 1;
  }
  std::ifstream file(argv[1], std::ios::binary);
  const std::string data{std::istreambuf_iterator<char>(file), {}};
  const int64_t size[] = {std::atoll(argv[2]), std::atoll(argv[3])};
  rebnn_model* model = nullptr;
  int64_t channels = 0, classes = 0, most = 0, count = 0;
  size_t bytes = 0;
  Check(rebnn_model_load(data.data(), data.size(), size[0], size[1], &model));
  Check(rebnn_model_sizes(model, &channels, &classes, &bytes));
  Check(rebnn_model_most_detections(model, &most));
  // Coarse enough for a detector to see something.
  std::mt19937 random(1);
  std::vector<float> image(static_cast<size_t>(channels * size[0] * size[1])), scores(static_cast<size_t>(most + classes));
  std::vector<float> boxes(static_cast<size_t>(4 * most));
  std::vector<int64_t> labels(static_cast<size_t>(most));
  const int64_t across = size[1] / 8 + 1;
  std::vector<float> coarse(static_cast<size_t>(channels * (size[0] / 8 + 1) * across));
  for (float& value : coarse) value = std::normal_distribution<float>()(random);
  for (size_t i = 0; i < image.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / size[1], column = static_cast<int64_t>(i) % size[1];
    image[i] = coarse[static_cast<size_t>(row / 8 * across + column / 8)];
  }
  void* scratch = std::aligned_alloc(64, (bytes + 64) / 64 * 64);
  const auto run = [&] {
    if (most == 0) return rebnn_model_run(model, image.data(), scores.data(), scratch, bytes);
    return rebnn_model_detect(model, image.data(), size, boxes.data(), scores.data(), labels.data(), &count, scratch, bytes);
  };
  Check(run());
  BeginCounting();
  const rebnn_status status = run();
  EndCounting();
  Check(status);
  std::ofstream(argv[4]) << std::ifstream("/proc/self/maps").rdbuf();
  std::puts(rebnn_isa());
  std::free(scratch);
  rebnn_model_free(model);
}
