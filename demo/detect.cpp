// Boxes without Python: a packed detector in ONNX Runtime, the image prepared by librebnn.
//
//   detect MODEL.onnx IMAGE.ppm LIBREBNN_ORT.so [SCORE [THREADS]]
//
// Reads the file's own description (docs/format.md), prepares the image as it says, and prints name, score and box of
// each object in pixels of the original. docs/deployment.md says how to compile it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <onnxruntime_cxx_api.h>
#include <rebnn.h>

namespace {

using Json = nlohmann::json;

constexpr int64_t kMostPixels = 1 << 25;

// What goes wrong is one sentence.
[[noreturn]] void Stop(const std::string& sentence) { throw std::runtime_error(sentence); }

struct Picture {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> pixels;  // [height, width, 3]
};

// A binary PPM, the simplest file of RGB pixels: `djpeg`, `convert` and Pillow write it.
Picture ReadPpm(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) Stop(std::string(path) + " cannot be opened.");
  std::string kind;
  file >> kind;
  int64_t numbers[3] = {};
  for (int64_t& number : numbers) {
    while ((file >> std::ws).peek() == '#') file.ignore(1 << 20, '\n');
    file >> number;
  }
  file.get();
  Picture picture;
  picture.width = numbers[0];
  picture.height = numbers[1];
  const auto side = [](int64_t pixels) { return pixels >= 1 && pixels <= kMostPixels; };
  if (!file || kind != "P6" || numbers[2] != 255 || !side(picture.width) || !side(picture.height) ||
      picture.width > kMostPixels / picture.height) {
    Stop(std::string(path) + " is not a binary PPM (P6) of 8 bits and at most 2^25 pixels; convert it first.");
  }
  picture.pixels.resize(static_cast<size_t>(3 * picture.width * picture.height));
  file.read(reinterpret_cast<char*>(picture.pixels.data()), static_cast<std::streamsize>(picture.pixels.size()));
  if (!file) Stop(std::string(path) + " ends before its last pixel.");
  return picture;
}

// What a network gets, and how its boxes become those of the original.
struct Input {
  std::vector<float> image;  // [3, height, width]
  int64_t height, width;
  int64_t valid[2];  // without the padding
  float factor[2];   // x, y
  float offset[2];
};

int64_t UpTo(int64_t size, int64_t divisor) { return (size + divisor - 1) / divisor * divisor; }

// Width and height after the step `resize`.
void Resized(const Json& steps, const Picture& picture, int64_t* width, int64_t* height) {
  const auto w = static_cast<double>(picture.width), h = static_cast<double>(picture.height);
  if (!steps.contains("resize")) {
    *width = picture.width;
    *height = picture.height;
    return;
  }
  const Json& resize = steps["resize"];
  const std::string mode = resize.at("mode");
  if (mode == "short_edge") {
    const int64_t edge = resize.at("size");
    *width = w < h ? edge : static_cast<int64_t>(static_cast<double>(edge * picture.width) / h);
    *height = w < h ? static_cast<int64_t>(static_cast<double>(edge * picture.height) / w) : edge;
    return;
  }
  const int64_t first = resize.at("size").at(0), second = resize.at("size").at(1);
  if (mode == "exact") {
    *width = first;
    *height = second;
  } else if (mode == "keep_ratio") {
    const double longer = static_cast<double>(std::max(first, second)), shorter = static_cast<double>(std::min(first, second));
    const double factor = std::min(longer / std::max(w, h), shorter / std::min(w, h));
    *width = static_cast<int64_t>(w * factor + 0.5);
    *height = static_cast<int64_t>(h * factor + 0.5);
  } else {
    Stop("the model resizes by '" + mode + "', which this program does not know.");
  }
}

Input Prepare(const Json& steps, const Picture& picture) {
  for (const auto& step : steps.items()) {
    const char* const known[] = {"resize", "crop", "letterbox", "channels", "mean", "std", "pad"};
    if (std::find(std::begin(known), std::end(known), step.key()) == std::end(known)) {
      Stop("the model has the step '" + step.key() + "', which this program does not know.");
    }
  }
  rebnn_image_io io = {};
  io.height = picture.height;
  io.width = picture.width;
  io.row_bytes = 3 * picture.width;
  io.image = picture.pixels.data();
  Resized(steps, picture, &io.resized[1], &io.resized[0]);
  io.crop[2] = io.resized[0];
  io.crop[3] = io.resized[1];
  if (steps.contains("crop")) {
    for (int axis = 0; axis < 2; ++axis) {
      const int64_t whole = io.resized[axis];
      io.crop[2 + axis] = std::min(steps["crop"].at(1 - axis).get<int64_t>(), whole);
      io.crop[axis] = static_cast<int64_t>(std::nearbyint(static_cast<double>(whole - io.crop[2 + axis]) / 2));
    }
  }
  io.reverse = steps.at("channels") == "bgr";
  std::vector<float> mean, deviation;
  if (steps.contains("mean")) {
    mean = steps["mean"].get<std::vector<float>>();
    deviation = steps.at("std").get<std::vector<float>>();
    if (mean.size() != 3 || deviation.size() != 3) Stop("the model's mean and std must have a number for each channel.");
    io.mean = mean.data();
    io.std = deviation.data();
  }
  int64_t size[2] = {io.crop[2], io.crop[3]};
  Input input = {};
  const int64_t divisor = steps.contains("pad") ? steps["pad"].at("divisor").get<int64_t>() : 1;
  const float pad = steps.contains("pad") ? steps["pad"].at("value").get<float>() : 0.0f;
  if (divisor < 1) Stop("the model pads to a multiple of a number below 1.");
  std::vector<float> fill(3, pad);
  if (steps.contains("letterbox")) {
    const Json& box = steps["letterbox"];
    if (box.contains("size")) {
      for (int axis = 0; axis < 2; ++axis) size[axis] = std::max(size[axis], box["size"].at(1 - axis).get<int64_t>());
    }
    if (box.value("square", false)) size[0] = size[1] = std::max(size[0], size[1]);
    const int64_t edge = box.value("divisor", int64_t{1});
    if (edge < 1 || box.at("value").size() != 3) Stop("the model's letterbox has a wrong divisor or colour.");
    for (int64_t& side : size) side = UpTo(side, edge);
    for (int c = 0; c < 3; ++c) {
      fill[c] = box["value"].at(c).get<float>();
      if (io.mean) fill[c] = (fill[c] - mean[c]) / deviation[c];
    }
  }
  std::copy(size, size + 2, input.valid);
  input.height = UpTo(size[0], divisor);
  input.width = UpTo(size[1], divisor);
  if (!steps.contains("letterbox")) {  // both kinds of filling in one
    size[0] = input.height;
    size[1] = input.width;
  }
  std::copy(size, size + 2, io.size);
  if (input.height < 1 || input.width < 1 || input.width > kMostPixels / input.height) {
    Stop("the image would become " + std::to_string(input.width) + " x " + std::to_string(input.height) +
         " pixels in this model.");
  }
  std::vector<float> made(static_cast<size_t>(3 * size[0] * size[1]));
  io.fill = fill.data();
  io.y = made.data();
  size_t bytes = 0;
  if (rebnn_image_scratch_size(&io, &bytes) != REBNN_OK) Stop(rebnn_last_error());
  std::vector<uint8_t> scratch(bytes + 64);
  void* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64);
  if (rebnn_image_rows(&io, 0, size[0], aligned, bytes) != REBNN_OK) Stop(rebnn_last_error());
  if (size[0] == input.height && size[1] == input.width) {
    input.image = std::move(made);
  } else {
    input.image.assign(static_cast<size_t>(3 * input.height * input.width), pad);
    for (int64_t row = 0; row < 3 * size[0]; ++row) {
      const int64_t to = row / size[0] * input.height + row % size[0];
      std::copy_n(made.data() + row * size[1], size[1], input.image.data() + to * input.width);
    }
  }
  for (int axis = 0; axis < 2; ++axis) {  // x, then y
    const int64_t before = axis ? picture.height : picture.width;
    input.factor[axis] = static_cast<float>(1 / (static_cast<double>(io.resized[1 - axis]) / static_cast<double>(before)));
    input.offset[axis] = static_cast<float>(io.crop[1 - axis]);
  }
  return input;
}

// An entry of the file's metadata, empty if there is none.
std::string About(const Ort::ModelMetadata& metadata, const char* key) {
  Ort::AllocatorWithDefaultOptions allocator;
  const Ort::AllocatedStringPtr text = metadata.LookupCustomMetadataMapAllocated(key, allocator);
  return text ? text.get() : "";
}

Ort::Session Open(const Ort::Env& env, const char* model, const char* library, int threads, bool blocked) {
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(threads);
  options.AddConfigEntry("rebnn.threads", std::to_string(threads).c_str());
  if (!blocked) options.SetGraphOptimizationLevel(ORT_ENABLE_EXTENDED);
  // These fold factors into binary weights or change the order in which real numbers are added.
  options.AddConfigEntry("optimization.disable_specified_optimizers",
                         "ConvMulFusion;ConvAddFusion;ConvBNFusion;MatMulBNFusion;TransposeOptimizer;"
                         "TransposeOptimizer_CPUExecutionProvider");
  options.RegisterCustomOpsLibrary(library);
  return Ort::Session(env, model, options);
}

void Detect(const char* model, const char* image, const char* library, float least, int threads) {
  const Ort::Env env(ORT_LOGGING_LEVEL_FATAL);
  Ort::Session session = Open(env, model, library, threads, false);
  const Ort::ModelMetadata metadata = session.GetModelMetadata();
  if (About(metadata, "rebnn.format") != "1" || About(metadata, "rebnn.task") != "detection") {
    Stop(std::string(model) + " is not a packed detector of format 1.");
  }
  if (About(metadata, "rebnn.real_layout") == "blocked") session = Open(env, model, library, threads, true);
  const auto classes = Json::parse(About(metadata, "rebnn.classes")).get<std::vector<std::string>>();
  Input input = Prepare(Json::parse(About(metadata, "rebnn.preprocess")), ReadPpm(image));

  const Ort::MemoryInfo memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  const int64_t shape[] = {1, 3, input.height, input.width}, pair[] = {2};
  const Ort::Value inputs[] = {
      Ort::Value::CreateTensor<float>(memory, input.image.data(), input.image.size(), shape, 4),
      Ort::Value::CreateTensor<int64_t>(memory, input.valid, 2, pair, 1)};
  const char* const from[] = {"image", "valid_size"};
  const char* const to[] = {"boxes", "scores", "labels"};
  const std::vector<Ort::Value> found = session.Run(Ort::RunOptions(), from, inputs, 2, to, 3);
  const auto holds = [&](size_t i, ONNXTensorElementDataType type, std::vector<int64_t> sizes) {
    const auto info = found[i].GetTensorTypeAndShapeInfo();
    return info.GetElementType() == type && info.GetShape() == sizes;
  };
  const auto count = static_cast<int64_t>(found[1].GetTensorTypeAndShapeInfo().GetElementCount());
  if (!holds(0, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, {count, 4}) ||
      !holds(1, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, {count}) ||
      !holds(2, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, {count})) {
    Stop(std::string(model) + " gives other outputs than boxes [K, 4], scores [K] and labels [K].");
  }
  const float* boxes = found[0].GetTensorData<float>();
  const float* scores = found[1].GetTensorData<float>();
  const int64_t* labels = found[2].GetTensorData<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    if (!(scores[i] >= least)) continue;
    const auto label = static_cast<size_t>(labels[i]);
    std::printf("%s %.9g", label < classes.size() ? classes[label].c_str() : std::to_string(label).c_str(), scores[i]);
    for (int edge = 0; edge < 4; ++edge) {
      std::printf(" %.9g", (boxes[4 * i + edge] + input.offset[edge % 2]) * input.factor[edge % 2]);
    }
    std::printf("\n");
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4 || count > 6) {
    std::fprintf(stderr, "usage: %s MODEL.onnx IMAGE.ppm LIBREBNN_ORT.so [SCORE [THREADS]]\n", arguments[0]);
    return 2;
  }
  try {
    const float least = count > 4 ? std::strtof(arguments[4], nullptr) : 0.3f;
    const int threads = count > 5 ? std::atoi(arguments[5]) : 1;
    if (threads < 1) Stop("THREADS must be a positive number.");
    Detect(arguments[1], arguments[2], arguments[3], least, threads);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", arguments[0], error.what());
    return 1;
  }
}
