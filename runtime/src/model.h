// A packed model that was loaded: steps to run one after the other, and where each finds its numbers.
#ifndef REBNN_SRC_MODEL_H_
#define REBNN_SRC_MODEL_H_

#include "geometry.h"
#include "isa.h"
#include "memory.h"
#include "onnx_file.h"
#include "real_operators.h"
#include "tensor_operators.h"

namespace rebnn {

// A part of a run's scratch memory, from the step that writes it to the last one that reads it.
struct Buffer {
  int64_t bytes;
  int first, last;
  int64_t offset;
  int64_t image_bytes;  // of each region, 0 if all are at its beginning
};

// Numbers of the buffers that the caller gives. Their offsets mean nothing.
constexpr int kNoBuffer = -1, kImageBuffer = 0, kValidSizeBuffer = 1, kGivenBuffers = 2;

// So many regions are still near after a layer.
constexpr int64_t kRegions = 25;

enum class Work {
  kConv,
  kStem,
  kAveragePool,
  kUpsampleAdd,
  kImageConv,
  kMapConv,
  kIntegerConv,
  kMaxPool,
  kProduct,
  kIntegerProduct,
  kMean,
  kSoftmax,
  kQuantize,
  kQuantizeImage,
  kDequantize,
  kRoiAlign,
  kTensor
};

// One operator. Its descriptions are complete but for the addresses of its buffers.
struct Step {
  Work work;
  int x, residual, y, bits;  // buffers
  bool reads_bits;           // whether x is packed
  int64_t scratch;           // bytes
  int64_t sums;              // where those of an int8 layer lie in them
  rebnn_conv* conv;
  rebnn_conv_io conv_io;
  float clip[2];
  rebnn_stem* stem;
  rebnn_stem_io stem_io;
  rebnn_average_pool_io pool_io;
  rebnn_upsample_add_io upsample_io;
  rebnn_roi_align_io roi_io;
  int rois, batch_indices;  // tensors
  RealMatrix matrix;
  IntegerMatrix integer_matrix;
  Integers integers;
  TensorNode tensor;
  Windows windows;
  // Images, at most; the tensor that says how many there are in a run, -1 if always as many.
  int64_t images;
  int counted;
  int together;           // steps from this one on that regions go through kRegions at a time
  int64_t numbers;        // of an image in that tensor, 0 if it has something else
  int64_t rows, columns;  // of an image, of the others
  int64_t depth;          // of the rows of an int8 layer
  float unit;             // of a quantised map
};

// What is allocated for constants; they follow.
struct alignas(kAlignment) Block {
  Block* next;
};

// Makes the steps of a file for images of this size.
rebnn_status MakePlan(const OnnxFile& file, int64_t h, int64_t w, rebnn_model* model);

}  // namespace rebnn

struct rebnn_model {
  const rebnn::Kernels* kernels;
  rebnn::Step* steps;
  rebnn::Buffer* buffers;
  rebnn::Block* blocks;
  rebnn::Tensor* tensors;
  int step_count, buffer_count, tensor_count;
  int output;  // the buffer of the scores, which the caller gives
  bool is_detector;
  int boxes, scores, labels;  // tensors
  int64_t channels, classes, most_detections;
  int64_t table;        // where the tensors of a run lie, after the buffers
  int64_t arena_bytes;  // of both; a step's own scratch memory follows
  int64_t scratch_bytes;
};

#endif  // REBNN_SRC_MODEL_H_
