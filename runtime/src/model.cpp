// Loading, running and freeing a packed model.
#include "model.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "error.h"

namespace rebnn {
namespace {

// Where the buffers of one run lie.
struct Memory {
  const rebnn_model& model;
  const float* image;
  const int64_t* valid_size;
  float* scores;
  uint8_t* scratch;
  int64_t first;  // region of those that steps work on

  void* Of(int buffer) const {
    if (buffer == kNoBuffer) return nullptr;
    if (buffer == kImageBuffer) return const_cast<float*>(image);
    if (buffer == kValidSizeBuffer) return const_cast<int64_t*>(valid_size);
    if (buffer == model.output) return scores;
    return scratch + model.buffers[buffer].offset + first * model.buffers[buffer].image_bytes;
  }
  float* RealsOf(int buffer) const { return static_cast<float*>(Of(buffer)); }
  int16_t* IntegersOf(int buffer) const { return static_cast<int16_t*>(Of(buffer)); }
  Tensor* tensors() const { return reinterpret_cast<Tensor*>(scratch + model.table); }
};

rebnn_status RunConv(const Step& step, int64_t images, const Memory& memory, void* scratch) {
  rebnn_conv_io io = step.conv_io;
  io.n = images;
  if (step.reads_bits) {
    io.x_bits = static_cast<const uint8_t*>(memory.Of(step.x));
  } else {
    io.x = memory.RealsOf(step.x);
  }
  io.residual = memory.RealsOf(step.residual);
  io.y = memory.RealsOf(step.y);
  io.y_bits = static_cast<uint8_t*>(memory.Of(step.bits));
  return rebnn_conv_run(step.conv, &io, scratch, static_cast<size_t>(step.scratch), nullptr);
}

rebnn_status RunStep(const Step& step, int64_t images, const Memory& memory) {
  const float* x = memory.RealsOf(step.x);
  float* y = memory.RealsOf(step.y);
  uint8_t* scratch = memory.scratch + memory.model.arena_bytes;
  auto sums = reinterpret_cast<int32_t*>(scratch + step.sums);
  const RealKernels& kernels = memory.model.kernels->real;
  const int64_t rows = images * step.rows;
  switch (step.work) {
    case Work::kConv:
      return RunConv(step, images, memory, scratch);
    case Work::kStem: {
      rebnn_stem_io io = step.stem_io;
      io.x = x;
      io.y = y;
      return rebnn_stem_run(step.stem, &io, scratch, static_cast<size_t>(step.scratch), nullptr);
    }
    case Work::kAveragePool: {
      rebnn_average_pool_io io = step.pool_io;
      io.n = images;
      io.x = x;
      io.y = y;
      return rebnn_average_pool_run(&io, nullptr);
    }
    case Work::kImageConv:
      ConvolveImage(kernels, step.matrix, step.windows, x, y, reinterpret_cast<float*>(scratch));
      return REBNN_OK;
    case Work::kUpsampleAdd: {
      rebnn_upsample_add_io io = step.upsample_io;
      io.n = images;
      io.x = x;
      io.added = memory.RealsOf(step.residual);
      io.y = y;
      return rebnn_upsample_add_run(&io, nullptr);
    }
    case Work::kMapConv:
      ConvolveMap(kernels, step.matrix, step.windows, x, y, reinterpret_cast<float*>(scratch));
      return REBNN_OK;
    case Work::kIntegerConv:
      ConvolveIntegers(kernels, step.integer_matrix, step.integers, step.windows, memory.IntegersOf(step.x),
                       memory.IntegersOf(step.y), sums, scratch);
      return REBNN_OK;
    case Work::kIntegerProduct:
      MultiplyIntegerRows(kernels, step.integer_matrix, step.integers,
                          {memory.IntegersOf(step.x), rows, step.depth, sums}, y,
                          reinterpret_cast<int8_t*>(scratch));
      return REBNN_OK;
    case Work::kQuantize:
      kernels.elements.quantize(rows, step.unit, step.integers, x, memory.IntegersOf(step.y));
      return REBNN_OK;
    case Work::kQuantizeImage:
      QuantizeImage(step.columns, step.rows / step.columns, step.unit, step.integers, x, memory.IntegersOf(step.y));
      return REBNN_OK;
    case Work::kDequantize:
      kernels.elements.dequantize(rows, step.unit, memory.IntegersOf(step.x), y);
      return REBNN_OK;
    case Work::kRoiAlign: {
      rebnn_roi_align_io io = step.roi_io;
      io.regions = images;
      io.x = x;
      io.rois = memory.tensors()[step.rois].reals() + memory.first * step.numbers;
      io.batch_indices = memory.tensors()[step.batch_indices].ints() + memory.first;
      io.y = y;
      return rebnn_roi_align_run(&io, scratch, static_cast<size_t>(step.scratch), nullptr);
    }
    case Work::kTensor: {
      const char* wrong = RunTensorNode(step.tensor, memory.tensors(), scratch);
      if (!wrong) return REBNN_OK;
      return Fail(REBNN_INVALID_ARGUMENT, "rebnn_model_detect: a node %s %s.", step.tensor.what->op, wrong);
    }
    case Work::kMaxPool:
      MaxPool(step.windows, x, y);
      return REBNN_OK;
    case Work::kProduct:
      kernels.multiply(step.matrix, {x, rows, step.matrix.depth, y});
      return REBNN_OK;
    case Work::kMean:
      for (int64_t i = 0; i < images; ++i, x += step.rows * step.columns, y += step.columns) {
        MeanOfPixels(step.rows, step.columns, x, y);
      }
      return REBNN_OK;
    case Work::kSoftmax:
      for (int64_t i = 0; i < images; ++i) Softmax(step.columns, x + i * step.columns, y + i * step.columns);
      return REBNN_OK;
  }
  return REBNN_OK;
}

rebnn_status CountImages(const Step& step, const Tensor* tensors, int64_t* images) {
  *images = step.images;
  if (step.counted < 0) return REBNN_OK;
  const Tensor& counted = tensors[step.counted];
  *images = counted.dims[0];
  if (*images <= step.images && (!step.numbers || counted.Count() == *images * step.numbers)) return REBNN_OK;
  return Fail(REBNN_INVALID_ARGUMENT, "rebnn_model_detect: a node reads a map of another size than was planned.");
}

rebnn_status RunSteps(Memory memory) {
  const rebnn_model& model = memory.model;
  Tensor* tensors = memory.tensors();
  for (int i = 0; i < model.tensor_count; ++i) {
    tensors[i] = model.tensors[i];
    if (tensors[i].buffer == kNoBuffer) continue;
    tensors[i].data = memory.Of(tensors[i].buffer);
    tensors[i].room = model.buffers[tensors[i].buffer].bytes;
  }
  for (int i = 0, end; i < model.step_count; i = end) {
    const Step& step = model.steps[i];
    int64_t images;
    if (rebnn_status status = CountImages(step, tensors, &images)) return status;
    end = i + step.together;
    const int64_t most = step.together > 1 ? kRegions : images;
    for (memory.first = 0; memory.first < images; memory.first += most) {
      for (int j = i; j < end; ++j) {
        const int64_t count = std::min(most, images - memory.first);
        if (rebnn_status status = RunStep(model.steps[j], count, memory)) return status;
      }
    }
  }
  return REBNN_OK;
}

rebnn_status Load(Span data, int64_t h, int64_t w, rebnn_model* model) {
  OnnxFile file;
  rebnn_status status = ReadFile(data, &file);
  if (status == REBNN_OK) status = MakePlan(file, h, w, model);
  FreeFile(&file);
  return status;
}

}  // namespace
}  // namespace rebnn

rebnn_status rebnn_model_load(const void* file, size_t bytes, int64_t h, int64_t w, rebnn_model** model) {
  using namespace rebnn;
  const auto name = "rebnn_model_load";
  if (!model) return Fail(REBNN_INVALID_ARGUMENT, "%s: model is NULL.", name);
  *model = nullptr;
  if (!file) return Fail(REBNN_INVALID_ARGUMENT, "%s: file is NULL.", name);
  for (int64_t size : {h, w}) {
    if (size < 1 || size > kMaxSide) {
      return Fail(REBNN_INVALID_ARGUMENT, "%s: a size is %lld; it must be from 1 to %lld.", name,
                  static_cast<long long>(size), static_cast<long long>(kMaxSide));
    }
  }
  const Kernels* kernels = ChosenKernels();
  if (!kernels) return REBNN_INVALID_ARGUMENT;
  auto made = static_cast<rebnn_model*>(std::calloc(1, sizeof(rebnn_model)));
  if (!made) return Fail(REBNN_OUT_OF_MEMORY, "%s: no memory for the model.", name);
  made->kernels = kernels;
  if (rebnn_status status = Load({static_cast<const uint8_t*>(file), bytes}, h, w, made)) {
    rebnn_model_free(made);
    return status;
  }
  *model = made;
  return REBNN_OK;
}

void rebnn_model_free(rebnn_model* model) {
  using namespace rebnn;
  if (!model) return;
  for (int i = 0; i < model->step_count; ++i) {
    rebnn_conv_destroy(model->steps[i].conv);
    rebnn_stem_destroy(model->steps[i].stem);
  }
  while (Block* block = model->blocks) {
    model->blocks = block->next;
    FreeAligned(block);
  }
  std::free(model->steps);
  std::free(model->buffers);
  std::free(model->tensors);
  std::free(model);
}

rebnn_status rebnn_model_sizes(const rebnn_model* model, int64_t* channels, int64_t* classes, size_t* scratch_bytes) {
  if (!model || !channels || !classes || !scratch_bytes) {
    return rebnn::Fail(REBNN_INVALID_ARGUMENT, "rebnn_model_sizes: an argument is NULL.");
  }
  *channels = model->channels;
  *classes = model->classes;
  *scratch_bytes = static_cast<size_t>(model->scratch_bytes);
  return REBNN_OK;
}

rebnn_status rebnn_model_run(const rebnn_model* model, const float* image, float* scores, void* scratch,
                             size_t scratch_bytes) {
  using namespace rebnn;
  const auto name = "rebnn_model_run";
  if (!model || !image || !scores) return Fail(REBNN_INVALID_ARGUMENT, "%s: an argument is NULL.", name);
  if (model->is_detector) {
    return Fail(REBNN_INVALID_ARGUMENT, "%s: the model is a detector; run it with rebnn_model_detect.", name);
  }
  if (rebnn_status status = CheckAligned(name, {{"image", image}, {"scores", scores}})) return status;
  const auto needed = static_cast<size_t>(model->scratch_bytes);
  if (rebnn_status status = CheckScratch(name, scratch, scratch_bytes, needed)) return status;
  return RunSteps({*model, image, nullptr, scores, static_cast<uint8_t*>(scratch), 0});
}

rebnn_status rebnn_model_most_detections(const rebnn_model* model, int64_t* most) {
  if (!model || !most) {
    return rebnn::Fail(REBNN_INVALID_ARGUMENT, "rebnn_model_most_detections: an argument is NULL.");
  }
  *most = model->most_detections;
  return REBNN_OK;
}

rebnn_status rebnn_model_detect(const rebnn_model* model, const float* image, const int64_t* valid_size, float* boxes,
                                float* scores, int64_t* labels, int64_t* count, void* scratch, size_t scratch_bytes) {
  using namespace rebnn;
  const auto name = "rebnn_model_detect";
  if (!model || !image || !valid_size || !boxes || !scores || !labels || !count) {
    return Fail(REBNN_INVALID_ARGUMENT, "%s: an argument is NULL.", name);
  }
  if (!model->is_detector) {
    return Fail(REBNN_INVALID_ARGUMENT, "%s: the model is a classifier; run it with rebnn_model_run.", name);
  }
  if (rebnn_status status = CheckAligned(name, {{"image", image},
                                                {"valid_size", valid_size},
                                                {"boxes", boxes},
                                                {"scores", scores},
                                                {"labels", labels}})) {
    return status;
  }
  const auto needed = static_cast<size_t>(model->scratch_bytes);
  if (rebnn_status status = CheckScratch(name, scratch, scratch_bytes, needed)) return status;
  const Memory memory = {*model, image, valid_size, nullptr, static_cast<uint8_t*>(scratch), 0};
  if (rebnn_status status = RunSteps(memory)) return status;
  const Tensor* tensors = memory.tensors();
  const int64_t found = tensors[model->scores].dims[0];
  if (found > model->most_detections || tensors[model->boxes].dims[0] != found ||
      tensors[model->labels].dims[0] != found) {
    return Fail(REBNN_INVALID_ARGUMENT, "%s: the file gives another number of boxes than of scores or labels.", name);
  }
  // A caller looks them up in the names of the classes.
  const int64_t* given = tensors[model->labels].ints();
  for (int64_t i = 0; i < found; ++i) {
    if (given[i] >= 0 && (model->classes == 0 || given[i] < model->classes)) continue;
    return Fail(REBNN_INVALID_ARGUMENT, "%s: the file gives the label %lld, but has %lld classes.", name,
                static_cast<long long>(given[i]), static_cast<long long>(model->classes));
  }
  *count = found;
  if (found == 0) return REBNN_OK;
  std::memcpy(boxes, tensors[model->boxes].data, found * 4 * sizeof(float));
  std::memcpy(scores, tensors[model->scores].data, found * sizeof(float));
  std::memcpy(labels, tensors[model->labels].data, found * sizeof(int64_t));
  return REBNN_OK;
}
