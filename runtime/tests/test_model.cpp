// A packed model runs without an allocation; damaged and hostile files are refused in one sentence, or run. Built
// with sanitizers as well.
//
//     test_model model.onnx count seed
//
// First every beginning of the file (some thousands of a long one) and `count` files with flipped bits, which must all
// be refused. Then `count` files that were changed and sealed again, for which any answer will do.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "../src/sha256.h"
#include "allocations.h"
#include "check.h"

namespace {

constexpr size_t kSealBytes = 64;   // at the end of the file
constexpr size_t kEntryBytes = 87;  // the whole entry that holds it

struct Outcome {
  bool loaded;
  std::vector<float> scores;
  int64_t most;  // detections, 0 of a classifier
};

Outcome Load(const std::string& data, int64_t side, bool must_run) {
  // On the heap and exactly as long as the file, so that a read beyond its end is seen.
  const std::vector<char> copy(data.begin(), data.end());
  rebnn_model* model = nullptr;
  const int64_t before = allocations;
  const rebnn_status status = rebnn_model_load(copy.data(), copy.size(), side, side, &model);
  Outcome outcome = {status == REBNN_OK, {}, 0};
  if (status != REBNN_OK) {
    const std::string sentence = rebnn_last_error();
    CHECK(!must_run, "refused: %s", sentence.c_str());
    CHECK(!model && sentence.compare(0, 6, "rebnn_") == 0 && sentence.back() == '.', "sentence: %s", sentence.c_str());
    return outcome;
  }
  CHECK(!kCountsAllocations || allocations > before, "loading allocates, but no call was counted");
  int64_t channels = 0, classes = 0;
  size_t bytes = 0;
  CHECK(rebnn_model_sizes(model, &channels, &classes, &bytes) == REBNN_OK, "%s", rebnn_last_error());
  // A file may ask for any memory; only what a small machine has is run.
  constexpr size_t kMost = size_t{1} << 28;
  if (bytes < kMost && static_cast<size_t>(channels * side * side) < kMost) {
    std::vector<float> image(static_cast<size_t>(channels * side * side));
    for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i % 251) / 125.0f - 1;
    CHECK(rebnn_model_most_detections(model, &outcome.most) == REBNN_OK, "%s", rebnn_last_error());
    const auto most = static_cast<size_t>(outcome.most);
    std::vector<float> boxes(4 * most);
    std::vector<int64_t> labels(most);
    int64_t count = 0;
    const int64_t valid_size[] = {side, side};
    outcome.scores.resize(most ? most : static_cast<size_t>(classes));
    std::vector<char> scratch(bytes + 64);
    char* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
    const int64_t loaded = allocations;
    const rebnn_status ran =
        most ? rebnn_model_detect(model, image.data(), valid_size, boxes.data(), outcome.scores.data(), labels.data(),
                                  &count, aligned, bytes)
             : rebnn_model_run(model, image.data(), outcome.scores.data(), aligned, bytes);
    // Only numbers of the run itself can show that a detector's indices or counts are wrong.
    CHECK(ran == REBNN_OK || (most && !must_run && *rebnn_last_error()), "%s", rebnn_last_error());
    CHECK(count >= 0 && count <= outcome.most, "%lld detections", static_cast<long long>(count));
    if (most) outcome.scores.resize(static_cast<size_t>(count));
    CHECK(allocations == loaded, "a run allocated %lld times", static_cast<long long>(allocations - loaded));
  }
  rebnn_model_free(model);
  return outcome;
}

// Wrong arguments give sentences and write nothing.
void CheckArguments(const std::string& file) {
  rebnn_model* model = nullptr;
  int64_t channels = 0, classes = 0;
  size_t bytes = 0;
  float number = 0;
  int64_t whole = 0;
  const auto refused = [](rebnn_status status) { return status == REBNN_INVALID_ARGUMENT && *rebnn_last_error(); };
  CHECK(refused(rebnn_model_load(nullptr, 0, 32, 32, &model)), "no file");
  CHECK(refused(rebnn_model_load(file.data(), file.size(), 32, 32, nullptr)), "no model");
  CHECK(refused(rebnn_model_load(file.data(), file.size(), 0, 32, &model)) && !model, "no rows");
  CHECK(refused(rebnn_model_load(file.data(), file.size(), 32, int64_t{1} << 31, &model)) && !model, "too wide");
  CHECK(refused(rebnn_model_sizes(nullptr, &channels, &classes, &bytes)), "sizes of no model");
  CHECK(rebnn_model_load(file.data(), file.size(), 32, 32, &model) == REBNN_OK, "%s", rebnn_last_error());
  int64_t most = 0;
  CHECK(refused(rebnn_model_most_detections(nullptr, &most)), "detections of no model");
  CHECK(rebnn_model_most_detections(model, &most) == REBNN_OK, "%s", rebnn_last_error());
  const auto detect = [&](const int64_t* size, void* scratch, size_t scratch_bytes) {
    return rebnn_model_detect(model, &number, size, &number, &number, &whole, &whole, scratch, scratch_bytes);
  };
  CHECK(refused(detect(nullptr, &number, SIZE_MAX)), "no size");
  CHECK(refused(detect(&whole, nullptr, SIZE_MAX)), "no scratch memory");
  CHECK(refused(detect(&whole, &number, 0)), "too little scratch memory, or a classifier");
  CHECK(most == 0 || refused(rebnn_model_run(model, &number, &number, &number, SIZE_MAX)), "a detector");
  CHECK(refused(rebnn_model_run(model, nullptr, &number, &number, SIZE_MAX)), "no image");
  CHECK(refused(rebnn_model_run(model, &number, &number, nullptr, SIZE_MAX)), "no scratch memory");
  CHECK(refused(rebnn_model_run(model, &number, &number, &number, 0)), "too little scratch memory");
  rebnn_model_free(model);
  rebnn_model_free(nullptr);
}

std::string Read(const char* path) {
  std::string data;
  std::FILE* file = std::fopen(path, "rb");
  CHECK(file, "%s cannot be opened", path);
  char part[4096];
  for (size_t bytes; (bytes = std::fread(part, 1, sizeof part, file)) > 0;) data.append(part, bytes);
  std::fclose(file);
  return data;
}

// Gives a changed file the seal that its bytes ask for.
void Seal(std::string* data) {
  char digits[kSealBytes];
  rebnn::Sha256(reinterpret_cast<const uint8_t*>(data->data()), data->size() - kEntryBytes, digits);
  std::memcpy(&(*data)[data->size() - kSealBytes], digits, kSealBytes);
}

}  // namespace

int main(int argc, char** argv) {
  RequireIsa();
  CHECK(argc == 4, "usage: test_model model.onnx count seed");
  const std::string file = Read(argv[1]);
  CHECK(file.size() > kEntryBytes, "%s cannot be read", argv[1]);
  const int count = std::atoi(argv[2]);
  std::mt19937_64 random(static_cast<uint64_t>(std::atoll(argv[3])));
  const auto below = [&](size_t end) { return static_cast<size_t>(random() % end); };

  const bool detects = Load(file, 32, true).most > 0;
  for (const Outcome& whole : {Load(file, 32, true), Load(file, detects ? 64 : 31, true)}) {
    double sum = 0;
    for (size_t i = 1; i < whole.scores.size() && detects; ++i) {
      CHECK(whole.scores[i] <= whole.scores[i - 1], "detection %zu is better than the one before", i);
    }
    if (detects) continue;
    for (float score : whole.scores) sum += score;
    CHECK(std::fabs(sum - 1) < 1e-5, "scores sum up to %g", sum);
  }
  CheckArguments(file);
  std::string resealed = file;
  Seal(&resealed);
  CHECK(resealed == file, "the seal of the whole file is another one");

  size_t refused = 0;
  const size_t step = file.size() > 20000 ? std::max<size_t>(97, file.size() / 6000) : 1;
  for (size_t size = 0; size < file.size(); size += step, ++refused) {
    CHECK(!Load(file.substr(0, size), 32, false).loaded, "the first %zu bytes were loaded", size);
  }
  for (int i = 0; i < count; ++i, ++refused) {
    std::string changed = file;
    changed[below(changed.size())] ^= static_cast<char>(1 << below(8));
    CHECK(!Load(changed, 32, false).loaded, "flipped bit %d was not seen", i);
  }
  const size_t graph = detects ? 48000 : 6000;  // bytes
  size_t loaded = 0;
  for (int i = 0; i < count; ++i) {
    std::string changed = file;
    // Weights are most of the file, and any are fine; the graph begins it and the functions end it.
    const size_t at = below(2) ? below(file.size() - kEntryBytes) : below(std::min<size_t>(graph, file.size() / 2));
    for (size_t byte = at, last = at + 1 + below(3); byte < last; ++byte) {
      static constexpr int kBytes[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
      changed[byte] = static_cast<char>(below(2) ? random() : kBytes[below(5)]);
    }
    if (below(4) == 0) changed.erase(at, 1 + below(40));
    Seal(&changed);
    loaded += Load(changed, 32, false).loaded;
  }
  std::printf("%zu damaged files refused; of %d changed ones %zu ran\n", refused, count, loaded);
  return 0;
}
