// Sizes, checks and the order of the work of one run.
#include <cstring>

#include "conv.h"
#include "error.h"
#include "geometry.h"
#include "tasks.h"

namespace rebnn {
namespace {

// A task computes about this many pixels: enough to read the weights seldom, few enough to keep the output near.
constexpr int64_t kTaskPixels = 256;
// So many real numbers are worth a packing task of their own.
constexpr int64_t kTaskReals = 1 << 14;
// And so many bits that are only copied.
constexpr int64_t kTaskBits = 1 << 20;
// Tasks for each thread, so that one that is late can be helped.
constexpr int64_t kTasksPerThread = 4;
// Where rows are too few for that, output channels are shared out as well, by so many products or more: handing a task
// over costs as much as a microsecond or two of them.
constexpr int64_t kTaskProducts = int64_t{1} << 20;

struct Sizes {
  int64_t out_h, out_w;
  int64_t map_bytes;
};

int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t Larger(int64_t a, int64_t b) { return a < b ? b : a; }

rebnn_status OutputSize(const char* function, const rebnn_conv& conv, int64_t h, int64_t w, Sizes* sizes) {
  const int64_t size[2] = {h, w};
  int64_t out[2];
  for (int axis = 0; axis < 2; ++axis) {
    const rebnn_conv_desc& d = conv.desc;
    const char* name = axis ? "width" : "height";
    if (size[axis] < 1 || size[axis] > kMaxSide) {
      return Fail(REBNN_INVALID_ARGUMENT, "%s: the input's %s is %lld; it must be from 1 to %lld.", function, name,
                  static_cast<long long>(size[axis]), static_cast<long long>(kMaxSide));
    }
    const int64_t padded = size[axis] + d.pad[axis] + d.pad[axis + 2];
    const int64_t kernel = (d.kernel[axis] - 1) * d.dilation[axis] + 1;
    if (padded < kernel) {
      return Fail(REBNN_INVALID_ARGUMENT,
                  "%s: the kernel spans %lld pixels of %s, but the input has %lld with its padding.", function,
                  static_cast<long long>(kernel), name, static_cast<long long>(padded));
    }
    out[axis] = (padded - kernel) / d.stride[axis] + 1;
  }
  sizes->out_h = out[0];
  sizes->out_w = out[1];
  return REBNN_OK;
}

// Whether packed input has the kernels' form as it is, but for the pairs.
bool HasForm(const rebnn_conv& conv) { return conv.group_in == 8 * conv.tap_bytes; }

bool ReadsBitsDirectly(const rebnn_conv& conv) { return HasForm(conv) && !conv.paired; }

rebnn_status CheckSizes(const char* function, const rebnn_conv& conv, int64_t n, int64_t h, int64_t w, Sizes* sizes) {
  if (n < 0 || n > kMaxSide) {
    return Fail(REBNN_INVALID_ARGUMENT, "%s: n is %lld; it must be from 0 to %lld.", function,
                static_cast<long long>(n), static_cast<long long>(kMaxSide));
  }
  if (rebnn_status status = OutputSize(function, conv, h, w, sizes)) return status;
  const int64_t real = sizeof(float);
  const int64_t input = Product({n, h, w, conv.desc.in_channels, real});
  const int64_t output = Product({n, sizes->out_h, sizes->out_w, conv.desc.out_channels, real});
  sizes->map_bytes = Product({n, h, w, conv.desc.group, conv.tap_bytes});
  if (input < 0 || output < 0 || sizes->map_bytes < 0) {
    return Fail(REBNN_INVALID_ARGUMENT, "%s: %lld images of %lld x %lld pixels are more than memory can hold.",
                function, static_cast<long long>(n), static_cast<long long>(h), static_cast<long long>(w));
  }
  return REBNN_OK;
}

rebnn_status CheckPointers(const rebnn_conv_io& io) {
  const auto name = "rebnn_conv_run";
  const auto invalid = REBNN_INVALID_ARGUMENT;
  if (!io.x == !io.x_bits) return Fail(invalid, "%s: exactly one of x and x_bits must be given.", name);
  if (io.shift && !io.x) return Fail(invalid, "%s: shift is given without x; packed input is shifted already.", name);
  if (io.layout != REBNN_NCHW && io.layout != REBNN_NHWC) {
    return Fail(invalid, "%s: layout is %d; it must be 0 (NCHW) or 1 (NHWC).", name, static_cast<int>(io.layout));
  }
  if (!io.sums && !io.y && !io.y_bits) return Fail(invalid, "%s: none of sums, y and y_bits is given.", name);
  if (io.next_shift && !io.y_bits) return Fail(invalid, "%s: next_shift is given without y_bits.", name);
  if (!io.y && !io.y_bits &&
      (io.scale || io.mul || io.add || io.residual || io.pre || io.slope || io.post || io.clip)) {
    return Fail(invalid, "%s: steps after the sum are given, but neither y nor y_bits.", name);
  }
  const rebnn_status status = CheckAligned(name, {{"x", io.x},
                                                  {"shift", io.shift},
                                                  {"sums", io.sums},
                                                  {"scale", io.scale},
                                                  {"mul", io.mul},
                                                  {"add", io.add},
                                                  {"residual", io.residual},
                                                  {"pre", io.pre},
                                                  {"slope", io.slope},
                                                  {"post", io.post},
                                                  {"y", io.y},
                                                  {"next_shift", io.next_shift},
                                                  {"clip", io.clip}});
  if (status != REBNN_OK) return status;
  if (io.clip && !(io.clip[0] < 0 && io.clip[1] > 0)) {
    return Fail(invalid, "%s: clip is %g and %g; the first must be negative and the second positive.", name, io.clip[0],
                io.clip[1]);
  }
  return REBNN_OK;
}

// Copies packed rows [first, last), counted through the images, into the form that the kernels read, filling cleared.
void Repack(const Run& run, int64_t first, int64_t last) {
  const rebnn_conv& conv = *run.conv;
  const int64_t channels = conv.group_in;
  const int64_t bytes = CeilDiv(channels, 8);
  const int64_t from_bytes = CeilDiv(conv.desc.in_channels, 8);
  for (int64_t pixel = first * run.io->w; pixel < last * run.io->w; ++pixel) {
    const uint8_t* from = run.io->x_bits + pixel * from_bytes;
    for (int64_t g = 0; g < conv.desc.group; ++g) {
      uint8_t* to = run.own_map + (pixel * conv.desc.group + g) * conv.tap_bytes;
      const int64_t start = g * channels / 8;
      const int offset = static_cast<int>(g * channels % 8);
      std::memset(to + bytes, 0, conv.tap_bytes - bytes);
      if (offset == 0) {
        std::memcpy(to, from + start, bytes);
      } else {
        for (int64_t b = 0; b < bytes; ++b) {
          const int low = from[start + b] >> offset;
          // The last byte of a group may end before the next byte of the pixel begins.
          const bool more = start + b + 1 < from_bytes;
          to[b] = static_cast<uint8_t>(more ? low | from[start + b + 1] << (8 - offset) : low);
        }
      }
      if (channels % 8) to[bytes - 1] &= static_cast<uint8_t>((1 << channels % 8) - 1);
    }
  }
}

struct Job {
  Run run;
  int64_t rows;  // of one task
  int64_t tasks_per_image;
  int64_t parts;  // of the output channels
};

void PackTask(void* arg, size_t i) {
  const Job& job = *static_cast<const Job*>(arg);
  const int64_t all = job.run.io->n * job.run.io->h;
  const int64_t first = static_cast<int64_t>(i) * job.rows;
  const int64_t last = Smaller(all, first + job.rows);
  const Run& run = job.run;
  const rebnn_conv& conv = *run.conv;
  const int64_t row_bytes = run.io->w * conv.desc.group * conv.tap_bytes;
  uint8_t* map = run.own_map + first * row_bytes;
  const uint8_t* packed = map;
  if (run.io->x) {
    conv.kernels->pack(run, first, last);
  } else if (HasForm(conv)) {
    packed = run.io->x_bits + first * row_bytes;
  } else {
    Repack(run, first, last);
  }
  if (conv.paired) conv.kernels->pair(packed, map, (last - first) * row_bytes);
}

void ConvolveTask(void* arg, size_t i) {
  const Job& job = *static_cast<const Job*>(arg);
  const int64_t rows = static_cast<int64_t>(i) / job.parts, part = static_cast<int64_t>(i) % job.parts;
  const int64_t image = rows / job.tasks_per_image, first = rows % job.tasks_per_image * job.rows;
  const Share share = {first, Smaller(job.run.out_h, first + job.rows), part, job.parts};
  job.run.conv->kernels->convolve(job.run, image, share);
}

// Parts of the output channels, `wanted` if there are so many, for tasks of `pixels` pixels.
int64_t PartsOf(const rebnn_conv& conv, int64_t wanted, int64_t pixels) {
  // Groups that do not end with a byte of output bits share it.
  if (conv.desc.group > 1 && conv.group_out % 8 != 0) return 1;
  const int64_t tile = conv.kernels->tile_lanes;
  const int64_t products = pixels * conv.taps * conv.group_in * Smaller(tile, conv.group_out);  // of one tile
  const int64_t tiles = conv.desc.group * CeilDiv(conv.blocks * conv.kernels->block_lanes, tile);
  return Larger(1, Smaller(wanted, tiles / CeilDiv(kTaskProducts, products)));
}

void RunChecked(const rebnn_conv& conv, const rebnn_conv_io& io, const Sizes& sizes, void* scratch,
                const rebnn_parallel* parallel) {
  const int64_t threads = parallel ? Larger(1, static_cast<int64_t>(Smaller(parallel->threads, 1 << 16))) : 1;
  const int64_t wanted = threads * kTasksPerThread;
  Job job = {{&conv, &io, sizes.out_h, sizes.out_w, io.x_bits, nullptr}, 0, 1, 1};
  if (io.x || !ReadsBitsDirectly(conv)) {
    job.run.own_map = static_cast<uint8_t*>(scratch);
    job.run.map = job.run.own_map;
    rebnn_conv_io input = io;
    if (threads > 1 && io.n * io.h < wanted && (!io.x || io.layout == REBNN_NHWC)) {
      // Pixels follow each other through all rows, and each is a row here.
      input.h *= input.w;
      input.w = 1;
    }
    job.run.io = &input;
    const int64_t rows = input.n * input.h;
    job.rows = Larger(CeilDiv(rows, wanted), CeilDiv(io.x ? kTaskReals : kTaskBits, input.w * conv.desc.in_channels));
    ForEach(parallel, CeilDiv(rows, job.rows), PackTask, &job);
    job.run.io = &io;
  }
  job.rows = CeilDiv(kTaskPixels, sizes.out_w);
  if (threads > 1) job.rows = Smaller(job.rows, Larger(1, CeilDiv(io.n * sizes.out_h, wanted)));
  job.tasks_per_image = CeilDiv(sizes.out_h, job.rows);
  const int64_t tasks = io.n * job.tasks_per_image;
  if (threads > 1 && tasks < wanted) job.parts = PartsOf(conv, CeilDiv(wanted, tasks), job.rows * sizes.out_w);
  ForEach(parallel, tasks * job.parts, ConvolveTask, &job);
}

}  // namespace
}  // namespace rebnn

uint32_t rebnn_abi_version(void) { return REBNN_ABI_VERSION; }

rebnn_status rebnn_conv_output_size(const rebnn_conv* conv, int64_t h, int64_t w, int64_t* out_h, int64_t* out_w) {
  const auto name = "rebnn_conv_output_size";
  if (!conv || !out_h || !out_w) return rebnn::Fail(REBNN_INVALID_ARGUMENT, "%s: an argument is NULL.", name);
  rebnn::Sizes sizes = {};
  if (rebnn_status status = rebnn::OutputSize(name, *conv, h, w, &sizes)) return status;
  *out_h = sizes.out_h;
  *out_w = sizes.out_w;
  return REBNN_OK;
}

rebnn_status rebnn_conv_scratch_size(const rebnn_conv* conv, int64_t n, int64_t h, int64_t w, size_t threads,
                                     size_t* bytes) {
  const auto name = "rebnn_conv_scratch_size";
  (void)threads;  // tiles live on the stack of the thread that computes them
  if (!conv || !bytes) return rebnn::Fail(REBNN_INVALID_ARGUMENT, "%s: an argument is NULL.", name);
  rebnn::Sizes sizes = {};
  if (rebnn_status status = rebnn::CheckSizes(name, *conv, n, h, w, &sizes)) return status;
  *bytes = static_cast<size_t>(sizes.map_bytes);
  return REBNN_OK;
}

rebnn_status rebnn_conv_run(const rebnn_conv* conv, const rebnn_conv_io* io, void* scratch, size_t scratch_bytes,
                            const rebnn_parallel* parallel) {
  const auto name = "rebnn_conv_run";
  if (!conv || !io) return rebnn::Fail(REBNN_INVALID_ARGUMENT, "%s: %s is NULL.", name, conv ? "io" : "conv");
  if (parallel && !parallel->run)
    return rebnn::Fail(REBNN_INVALID_ARGUMENT, "%s: parallel has no run function.", name);
  rebnn::Sizes sizes = {};
  if (rebnn_status status = rebnn::CheckSizes(name, *conv, io->n, io->h, io->w, &sizes)) return status;
  if (io->n == 0) return REBNN_OK;
  if (rebnn_status status = rebnn::CheckPointers(*io)) return status;
  const bool needs_map = io->x || !rebnn::ReadsBitsDirectly(*conv);
  if (needs_map) {
    const auto needed = static_cast<size_t>(sizes.map_bytes);
    if (rebnn_status status = rebnn::CheckScratch(name, scratch, scratch_bytes, needed)) return status;
  }
  rebnn::RunChecked(*conv, *io, sizes, scratch, parallel);
  return REBNN_OK;
}
